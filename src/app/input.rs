//! Typed input: lines with a cursor, their history, prompts, and the palette.

pub(super) mod entry;
pub(super) mod history;
pub(super) mod ids;
pub mod line;
pub(super) mod offers;
pub(super) mod palette;
pub(super) mod prompt;
pub(super) mod typed;
pub(super) mod verb;
