//! What an operator has arranged on the screen, kept from one start of the console to the next.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What has been arranged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// The tables, by name.
    pub tables: BTreeMap<String, TableLayout>,
    /// The panes of a cluster's page; none where they were never resized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panes: Option<PaneLayout>,
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableLayout {
    /// The ids of the columns that are shown, from left to right; none stands for the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Whether all the other columns are shown, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
}

/// How the panes of a cluster's page divide it, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneLayout {
    /// The width of the left panes.
    pub left: u16,
    /// The height of the upper panes.
    pub upper: u16,
}

impl Default for PaneLayout {
    fn default() -> Self {
        Self { left: 580, upper: 500 }
    }
}

impl Layout {
    /// The layout of one table.
    pub fn of(table: &str, layout: TableLayout) -> Self {
        Self { tables: BTreeMap::from([(table.to_owned(), layout)]), panes: None }
    }

    /// Takes in what has been arranged since; the rest stays as it is.
    pub fn take(&mut self, since: Self) {
        self.tables.extend(since.tables);
        // What is as usual is not worth a line.
        self.tables.retain(|_, table| *table != TableLayout::default());
        self.panes = since.panes.or(self.panes);
    }
}
