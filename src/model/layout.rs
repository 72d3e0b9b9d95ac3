//! The operator's layout of the screen, which is saved between starts of the console.

use crate::model::sort;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes to the default layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Layouts of tables, by name of the table.
    pub tables: BTreeMap<String, TableLayout>,
    /// Whether nodes are grouped by slice; none if never chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_slice: Option<bool>,
    /// The panes of a cluster's page; none if never resized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panes: Option<PaneLayout>,
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableLayout {
    /// The ids of the visible columns, from left to right; empty for the default columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Whether all other columns are also shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
}

/// Sizes of the panes of a cluster's page, in thousandths of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PaneLayout {
    /// The width of the left panes.
    pub left: u16,
    /// The height of the upper panes.
    pub upper: u16,
    /// The height of the log below the single pane of a small window.
    pub log: u16,
}

impl Default for PaneLayout {
    fn default() -> Self {
        Self { left: 580, upper: 500, log: 500 }
    }
}

impl PaneLayout {
    /// Minimum size of a pane, in columns and rows.
    const MIN_SIZE: (u16, u16) = (24, 4);

    /// Number of columns of the left panes.
    pub fn left_of(self, width: u16) -> u16 {
        part(self.left, width, Self::MIN_SIZE.0)
    }

    /// Number of rows of the upper panes.
    pub fn upper_of(self, height: u16) -> u16 {
        part(self.upper, height, Self::MIN_SIZE.1)
    }

    /// Number of rows of the log in a small window.
    pub fn log_of(self, height: u16) -> u16 {
        part(self.log, height, Self::MIN_SIZE.1)
    }

    /// The thousandths that give a part `cells` of `of` cells.
    pub fn thousandths(cells: u16, of: u16) -> u16 {
        let thousandths = (u32::from(cells) * 1000).div_ceil(u32::from(of).max(1));
        u16::try_from(thousandths).unwrap_or(1000).min(1000)
    }
}

/// Number of cells of a part; at least `least` for it and for the other part, if there are enough.
fn part(thousandths: u16, of: u16, least: u16) -> u16 {
    let cells = u32::from(of) * u32::from(thousandths.min(1000)) / 1000;
    let least = least.min(of / 2);
    u16::try_from(cells).unwrap_or(of).clamp(least, of - least)
}

impl Layout {
    /// The layout of one table.
    pub fn of(table: &str, layout: TableLayout) -> Self {
        Self { tables: sort::collected([(table.to_owned(), layout)]), ..Self::default() }
    }

    /// Applies later changes; the rest is kept.
    pub fn take(&mut self, since: Self) {
        self.tables.extend(since.tables);
        self.panes = since.panes.or(self.panes);
        self.by_slice = since.by_slice.or(self.by_slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn panes_keep_their_minimum_size() {
        let panes = PaneLayout { left: 0, upper: 1000, log: 9999 };
        assert_eq!((panes.left_of(120), panes.upper_of(38), panes.log_of(21)), (24, 34, 17));
        assert_eq!(PaneLayout::default().left_of(120), 69);
        assert_eq!((panes.left_of(3), panes.left_of(0)), (1, 0));
    }

    proptest! {
        #[test]
        fn a_border_stays_where_it_was_dropped(width in 48_u16..1000, cells in 24_u16..976) {
            let cells = cells.min(width - 24);
            let left = PaneLayout::thousandths(cells, width);
            prop_assert_eq!(PaneLayout { left, ..PaneLayout::default() }.left_of(width), cells);
        }
    }
}
