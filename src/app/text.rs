//! Texts that several pages share: words for states, descriptions, messages, and texts to copy.

pub(super) mod copy;
pub mod describe;
pub mod details;
pub mod labels;
pub(super) mod toast;
