//! What can be done: the table of actions, the keys that mean them, where each is available, and what it acts on.

pub(super) mod availability;
pub(super) mod class;
pub(super) mod context;
pub(super) mod fixes;
pub(super) mod keymap;
pub(super) mod run;
pub(super) mod selection;
pub mod table;
pub(super) mod target;
