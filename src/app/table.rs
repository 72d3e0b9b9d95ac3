//! A table's order, selection, filter and scroll position. The selection follows a row's identity: the cursor stays on
//! its row when rows are reordered, and the row keeps its position on the screen.

pub mod cell;
pub(super) mod chooser;
pub mod column;
pub(super) mod columns;
pub(super) mod facts;
pub(super) mod filter;
pub(super) mod list;
pub(super) mod marks;
pub(super) mod sheet;

use crate::app::table::filter::Filter;
use crate::model::sort;
use std::cmp::Ordering;

/// The view state of a table whose rows are stored elsewhere.
#[derive(Clone, Debug)]
pub struct Table<K> {
    order: Vec<u32>,
    selected: Option<K>,
    /// Position of the selection in `order`.
    cursor: usize,
    top: usize,
    height: usize,
    filter: Filter,
    sort: Sort,
}

/// The column that decides the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// Column from 0; `None` is the table's own order (issues first).
    pub column: Option<usize>,
    /// Whether the order is reversed.
    pub inverted: bool,
}

/// How the sort order is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The next column.
    Next,
    /// The previous column.
    Previous,
    /// The shown column at this index; if it is already chosen, reverses the order.
    Shown(usize),
    /// The column with this id, if it is shown; if it is already chosen, reverses the order.
    Column(&'static str),
    /// The same column, reversed.
    Reversed,
    /// The table's own order.
    Default,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            order: Vec::new(),
            selected: None,
            cursor: 0,
            top: 0,
            height: 0,
            filter: Filter::default(),
            sort: Sort::default(),
        }
    }
}

impl<K: Clone + PartialEq> Table<K> {
    /// Sorts `rows` rows: those that `accepts` accepts, by `compare` (stable). `key` identifies a row while it exists.
    pub fn arrange(
        &mut self,
        rows: usize,
        key: impl Fn(usize) -> Option<K>,
        accepts: impl Fn(usize, &Filter) -> bool,
        compare: impl Fn(usize, usize, Sort) -> Ordering,
    ) {
        let (offset, is_at_top) = (self.cursor.saturating_sub(self.top), self.top == 0);
        let count = u32::try_from(rows).unwrap_or(u32::MAX);
        self.order.clear();
        self.order
            .extend((0..count).filter(|i| self.filter.is_empty() || accepts(*i as usize, &self.filter)));
        let sort = self.sort;
        sort::indices(&mut self.order, &|a, b| compare(a as usize, b as usize, sort));
        let found = self
            .selected
            .as_ref()
            .and_then(|s| self.order.iter().position(|i| key(*i as usize).as_ref() == Some(s)));
        self.cursor = found.unwrap_or(self.cursor).min(self.order.len().saturating_sub(1));
        // At the top, the window stays there, so that new rows at the top are visible.
        let stays = is_at_top && self.cursor < self.height();
        self.top = if stays { 0 } else { self.cursor.saturating_sub(offset) };
        self.selected = self.order.get(self.cursor).and_then(|i| key(*i as usize));
    }

    /// Moves the cursor by `by` rows.
    pub fn step(&mut self, by: isize, key: impl Fn(usize) -> Option<K>) {
        let last = self.order.len().saturating_sub(1);
        self.go(self.cursor.saturating_add_signed(by).min(last), key);
    }

    /// Puts the cursor on this position of the order.
    pub fn go(&mut self, position: usize, key: impl Fn(usize) -> Option<K>) {
        if let Some(row) = self.order.get(position) {
            self.top = self.window(self.height);
            self.cursor = position;
            self.selected = key(*row as usize);
        }
    }

    /// Selects a row by its key. If it is not among the arranged rows, the next [`Self::arrange`] selects it if it is
    /// there then.
    pub fn select(&mut self, wanted: &K, key: impl Fn(usize) -> Option<K>) {
        if let Some(position) = self.order.iter().position(|i| key(*i as usize).as_ref() == Some(wanted)) {
            self.go(position, key);
        } else {
            self.selected = Some(wanted.clone());
        }
    }
}

impl<K> Table<K> {
    /// The key of the selected row.
    pub fn selected(&self) -> Option<&K> {
        self.selected.as_ref()
    }

    /// The index of the selected row.
    pub fn selected_row(&self) -> Option<usize> {
        self.order.get(self.cursor).map(|i| *i as usize)
    }

    /// Position of the cursor in the order.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The number of rows that match the filter.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no row matches the filter.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The row shown at a position.
    pub fn row(&self, position: usize) -> Option<usize> {
        self.order.get(position).map(|i| *i as usize)
    }

    /// First position to show in a window of this height so that the cursor is visible and no space is wasted.
    pub fn window(&self, height: usize) -> usize {
        let height = height.max(1);
        let lowest = self.cursor.saturating_sub(height - 1);
        self.top
            .clamp(lowest, self.cursor.max(lowest))
            .min(self.order.len().saturating_sub(height).max(lowest))
    }

    /// Records the height at which the table was drawn.
    pub fn drawn(&mut self, height: usize) {
        self.top = self.window(height);
        self.height = height;
    }

    /// The number of rows in the window.
    pub fn height(&self) -> usize {
        self.height.max(1)
    }

    /// The current filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Replaces the filter; the table must be arranged again. The cursor stays on its row if that matches, else it
    /// moves to the first match, so that the next action acts on a match.
    pub fn set_filter(&mut self, filter: Filter) {
        if !filter.is_empty() {
            (self.cursor, self.top) = (0, 0);
        }
        self.filter = filter;
    }

    /// The column and direction of the order.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Replaces the order's column; the table must be arranged again.
    pub fn set_sort(&mut self, sort: Sort) {
        self.sort = sort;
    }
}

impl Sort {
    /// The next of `columns` columns, or the previous one; past the ends comes the table's own order.
    #[must_use]
    pub fn turned(self, columns: usize, forward: bool) -> Self {
        let position = self.column.map_or(0, |c| c + 1);
        let next =
            if forward { (position + 1) % (columns + 1) } else { (position + columns) % (columns + 1) };
        Self { column: next.checked_sub(1), inverted: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrange(table: &mut Table<u8>, rows: &[u8]) {
        table.arrange(
            rows.len(),
            |i| Some(rows[i]),
            |i, f| f.accepts([("", rows[i].to_string().as_str())]),
            |a, b, s| if s.inverted { rows[b].cmp(&rows[a]) } else { Ordering::Equal },
        );
    }

    #[test]
    fn sort_columns_cycle_through_the_tables_own_order() {
        let mut sort = Sort::default();
        let seen: Vec<_> = (0..4)
            .map(|_| {
                sort = sort.turned(3, true);
                sort.column
            })
            .collect();
        assert_eq!(seen, [Some(0), Some(1), Some(2), None]);
        assert_eq!(sort.turned(3, false).column, Some(2));
    }

    proptest! {
        #[test]
        fn the_selection_follows_its_row(
            mut rows in proptest::collection::vec(any::<u8>(), 1..40), pick in any::<usize>(), seed in any::<usize>(), height in 1usize..20,
        ) {
            rows.sort_unstable();
            rows.dedup();
            let mut table = Table::default();
            arrange(&mut table, &rows);
            table.drawn(height);
            table.go(pick % rows.len(), |i| Some(rows[i]));
            table.drawn(height);
            let chosen = *table.selected().unwrap();
            let on_screen = table.cursor() - table.window(height);
            let was_at_top = table.window(height) == 0;
            let turn = seed % rows.len();
            rows.rotate_left(turn);
            arrange(&mut table, &rows);
            prop_assert_eq!(table.selected(), Some(&chosen));
            prop_assert_eq!(rows[table.selected_row().unwrap()], chosen);
            let top = table.window(height);
            prop_assert!(top <= table.cursor() && table.cursor() < top + height);
            // The row keeps its position unless an end of the table is nearer, or the window shows the top.
            if was_at_top && table.cursor() < height {
                prop_assert_eq!(top, 0);
            } else if table.cursor() >= on_screen && table.cursor() - on_screen + height <= rows.len() {
                prop_assert_eq!(table.cursor() - top, on_screen);
            }
        }

        #[test]
        fn a_filter_puts_the_cursor_on_the_first_match_unless_its_row_matches(pick in 0u8..40) {
            let rows: Vec<u8> = (0..40).collect();
            let mut table = Table::default();
            arrange(&mut table, &rows);
            table.go(pick.into(), |i| Some(rows[i]));
            table.set_filter(Filter::parse("3", &[]).unwrap());
            arrange(&mut table, &rows);
            let matches = pick.to_string().contains('3');
            prop_assert_eq!(table.selected().copied(), Some(if matches { pick } else { 3 }));
        }

        #[test]
        fn a_vanished_selection_leaves_a_valid_one(rows in proptest::collection::vec(any::<u8>(), 0..20), kept in 0usize..20) {
            let mut table = Table::default();
            arrange(&mut table, &rows);
            table.step(7, |i| Some(rows[i]));
            let fewer = &rows[..kept.min(rows.len())];
            arrange(&mut table, fewer);
            prop_assert_eq!(table.selected().is_some(), !fewer.is_empty());
            prop_assert_eq!(table.selected_row().map(|i| fewer[i]), table.selected().copied());
        }
    }
}
