//! The operator's layout of the screen: the columns of tables and the sizes of panes. It is saved for the next start.

use crate::app::action::target::Target;
use crate::app::screen::dialog::Dialog;
use crate::app::table::chooser::Chooser;
use crate::app::{Action, App, Effect, Listing, View};
use crate::model::{Layout, TableLayout, Timestamp};
use std::collections::{BTreeMap, HashSet};

impl App {
    /// Applies the columns from the settings, by the name of their table, and the saved layout.
    #[must_use]
    pub fn arranged(mut self, defaults: &BTreeMap<String, Vec<String>>, layout: &Layout) -> Self {
        for (table, columns) in defaults {
            self.pages.named_mut(table).for_each(|listing| listing.set_default(columns));
        }
        for (table, layout) in &layout.tables {
            self.lay_out(table, layout);
        }
        self.split.layout = layout.panes.unwrap_or_default();
        if let Some(by_slice) = layout.by_slice {
            self.pages.show_by_slice(by_slice);
        }
        self
    }

    /// Shows these columns in every table of that name.
    pub(in crate::app) fn lay_out(&mut self, table: &str, layout: &TableLayout) {
        self.pages.named_mut(table).for_each(|listing| listing.lay_out(layout));
    }

    /// Toggles all columns of the focused table.
    pub(in crate::app) fn toggle_wide(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(listing) = self.listing() else { return Vec::new() };
        let (table, layout) = (listing.name(), listing.layout());
        let layout = TableLayout { wide: !layout.wide, ..layout };
        let pane = matches!(self.view(), View::Cluster(_)).then_some(self.split.focused);
        let has_room = |(_, width): &(u16, u16)| *width > 0;
        if layout.wide && self.areas.table_of(pane).is_some_and(|drawn| !drawn.headers.iter().all(has_room)) {
            let choose = self.keyboard.keymap.key_of(Action::Columns);
            let text = format!("no room for all columns; a wider window shows more, {choose} chooses them");
            self.toasts.answer(text, now);
        }
        self.lay_out(table, &layout);
        vec![Effect::Remember(Layout::of(table, layout))]
    }

    /// Toggles nodes by slice. The cursor moves to the corresponding row of the other table.
    pub(in crate::app) fn toggle_slices(&mut self) -> Vec<Effect> {
        let by_slice = !self.pages.is_by_slice();
        let target = self.target();
        self.pages.show_by_slice(by_slice);
        self.arrange_page();
        self.move_cursor_to(target);
        vec![Effect::Remember(Layout { by_slice: Some(by_slice), ..Layout::default() })]
    }

    /// Puts the cursor on the row of these hosts, on the first of them, or on the row that contains a host.
    fn move_cursor_to(&mut self, target: Option<Target>) {
        let by_slice =
            |cluster_index: usize| self.fleet.clusters.get(cluster_index).map(|c| (c, &c.sliced.by_slice));
        let (row, ids) = match &target {
            Some(Target::Node(cluster_index, id)) => {
                let key =
                    self.fleet.clusters.get(*cluster_index).and_then(|cluster| cluster.hosts_of_node(id));
                (key.map(|key| Target::Hosts(*cluster_index, key.clone())), HashSet::from([*id]))
            }
            Some(Target::Hosts(cluster_index, key)) => {
                let found = by_slice(*cluster_index).and_then(|(cluster, by_slice)| {
                    let nodes = by_slice.find(key)?.nodes.iter();
                    Some(nodes.filter_map(|n| Some(cluster.snapshot.nodes.get(*n as usize)?.id)).collect())
                });
                (None, found.unwrap_or_default())
            }
            _ => return,
        };
        let Some((listing, fleet)) = self.listing_mut() else { return };
        let cluster_index = target.and_then(|target| target.cluster_index());
        let is_it = |found: Target| match &found {
            Target::Node(_, id) => found.cluster_index() == cluster_index && ids.contains(id),
            _ => Some(found) == row,
        };
        let position = (0..listing.len()).find(|p| listing.target_at(fleet, *p).is_some_and(is_it));
        if let Some(position) = position {
            listing.go(fleet, position);
        }
    }

    /// Opens the dialog that chooses the columns of the focused table.
    pub(in crate::app) fn choose_columns(&mut self) {
        let chooser = self.listing().map(|l| Chooser::new(l.name(), l.choices(), l.layout()));
        self.dialog = chooser.map(Box::new).map(Dialog::Columns);
    }

    /// Changes the choice; the table behind the dialog is updated.
    pub(in crate::app) fn in_chooser(&mut self, change: impl FnOnce(&mut Chooser)) {
        if let Some(Dialog::Columns(chooser)) = &mut self.dialog {
            change(chooser);
            let (table, layout) = (chooser.table, chooser.layout());
            self.lay_out(table, &layout);
        }
    }

    /// Toggles the column under the cursor.
    pub(in crate::app) fn toggle_column(&mut self) {
        let mut is_last = false;
        self.in_chooser(|chooser| is_last = !chooser.toggle());
        if is_last {
            "the last column cannot be hidden".clone_into(&mut self.note);
        }
    }

    /// Returns to the default columns.
    pub(in crate::app) fn reset_columns(&mut self) {
        let Some(Dialog::Columns(chooser)) = &self.dialog else { return };
        let table = chooser.table;
        self.lay_out(table, &TableLayout::default());
        let rows = self.pages.named(table).map(Listing::choices).unwrap_or_default();
        self.in_chooser(|chooser| chooser.refill(rows));
    }

    /// Keeps the chosen columns.
    pub(in crate::app) fn keep_columns(&mut self) -> Vec<Effect> {
        let Some(Dialog::Columns(chooser)) = self.dialog.take() else { return Vec::new() };
        let layout = self.pages.named(chooser.table).map(Listing::layout).unwrap_or_default();
        if layout == chooser.before {
            return Vec::new();
        }
        vec![Effect::Remember(Layout::of(chooser.table, layout))]
    }
}
