//! The dialog that chooses the columns of a table and their order.

use crate::model::layout::TableLayout;

/// A column of a table, shown or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name in the settings.
    pub id: &'static str,
    /// Its title; empty if it has none.
    pub title: &'static str,
    /// Whether it is shown.
    pub is_shown: bool,
}

/// The columns of a table while they are being chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chooser {
    /// The name of the table in the settings.
    pub table: &'static str,
    /// All of its columns, from left to right.
    pub rows: Vec<Choice>,
    /// The row under the cursor.
    pub at: usize,
    /// The columns as they were when the dialog was opened.
    pub before: TableLayout,
    /// The rows as they were when the dialog was opened.
    opened: Vec<Choice>,
}

impl Chooser {
    /// Starts with the current columns of this table.
    pub fn new(table: &'static str, rows: Vec<Choice>, before: TableLayout) -> Self {
        Self { table, opened: rows.clone(), rows, at: 0, before }
    }

    /// The number of columns that are shown.
    pub fn shown(&self) -> usize {
        self.rows.iter().filter(|row| row.is_shown).count()
    }

    /// Moves the cursor by this many rows.
    pub fn step(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
    }

    /// Toggles the column under the cursor. Returns false, without a change, for the last one that is shown.
    pub fn toggle(&mut self) -> bool {
        let is_last = self.shown() == 1;
        match self.rows.get_mut(self.at) {
            Some(row) if !(row.is_shown && is_last) => {
                row.is_shown = !row.is_shown;
                true
            }
            _ => false,
        }
    }

    /// Moves the column under the cursor one position to the right or to the left.
    pub fn shift(&mut self, is_right: bool) {
        let to = if is_right { self.at + 1 } else { self.at.wrapping_sub(1) };
        if to < self.rows.len() {
            self.rows.swap(self.at, to);
            self.at = to;
        }
    }

    /// Replaces the rows; the cursor stays on its column.
    pub fn refill(&mut self, rows: Vec<Choice>) {
        let id = self.rows.get(self.at).map(|row| row.id);
        self.at = rows.iter().position(|row| Some(row.id) == id).unwrap_or(0);
        self.rows = rows;
    }

    /// The table's layout that the rows represent.
    pub fn layout(&self) -> TableLayout {
        if self.rows == self.opened {
            return self.before.clone();
        }
        let shown = self.rows.iter().filter(|row| row.is_shown);
        TableLayout { columns: shown.map(|row| row.id.to_owned()).collect(), wide: false }
    }
}
