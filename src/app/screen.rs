//! The screen as it was drawn and arranged: areas for the mouse, widths, and what stands still while it is frozen.

pub(super) mod areas;
pub(super) mod arrange;
pub(super) mod dialog;
pub(super) mod drawn;
pub(super) mod freeze;
pub(super) mod frozen;
pub(super) mod mouse;
pub(super) mod pane;
pub(super) mod scroll;
pub(super) mod split;
