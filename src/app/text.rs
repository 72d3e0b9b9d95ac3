//! Texts that several pages share: words of states, descriptions, messages, and what is copied.

pub(super) mod copy;
pub mod describe;
pub mod details;
pub(super) mod toast;
pub mod words;
