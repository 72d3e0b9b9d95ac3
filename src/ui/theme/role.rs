//! The roles that a theme file styles.

use serde::Deserialize;

/// A role with a style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Text,
    Dim,
    Heading,
    Accent,
    Good,
    Warn,
    Bad,
    Border,
    Focused,
    Selected,
    Marked,
    Found,
    FoundHere,
}
