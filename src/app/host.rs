//! Hosts, slices, chips and TPUs: their pages, and the requests to Ray and Google for them.

pub(super) mod chips;
pub(super) mod inspect;
pub(super) mod login;
pub(super) mod page;
pub mod slice;
pub(super) mod slices;
pub(super) mod tpus;
