//! The screen as drawn: areas for the mouse, widths, layout, and the frozen state.

pub(super) mod areas;
pub(super) mod arrange;
pub(super) mod dialog;
pub(super) mod dialog_keys;
pub(super) mod drawn;
pub(super) mod freeze;
pub(super) mod frozen;
pub(super) mod mouse;
pub(super) mod pane;
pub(super) mod scroll;
pub(super) mod sections;
pub(super) mod split;
