//! Actions: their table, their keys, where each is available, and what each acts on.

pub(super) mod availability;
pub(super) mod context;
pub(super) mod fixes;
mod handlers;
pub(super) mod impact;
pub(super) mod keymap;
pub mod list;
pub(super) mod run;
pub(super) mod selection;
pub mod table;
pub(super) mod target;
