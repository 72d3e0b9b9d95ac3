//! A job: its page, its form, its workers and their stacks, and its end.

pub(super) mod cause;
pub(super) mod description;
pub(super) mod end;
pub mod form;
pub(super) mod known;
pub(super) mod open_workers;
pub(super) mod page;
pub(super) mod stack_rows;
pub(super) mod stacks;
pub mod state;
pub(super) mod submit;
pub(super) mod vitals;
pub(super) mod workers;
