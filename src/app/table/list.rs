//! A table on the screen: rows of one kind, of one cluster or of all, with order, selection, filter and columns.

use crate::app::action::table::Action;
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::screen::areas::{TableArea, TextWidths};
use crate::app::table::cell::Cell;
use crate::app::table::chooser::Choice;
use crate::app::table::column::{Column, ColumnHeader, Kind, RowIndex, Visibility};
use crate::app::table::columns::Shown;
use crate::app::table::facts::CellContext;
use crate::app::table::filter::Filter;
use crate::app::table::{By, Sort, Table};
use crate::model::TableLayout;
use crate::model::text::printable;
use crate::reconcile::HostsKey;
use std::cell::LazyCell;
use std::cmp::Ordering;
use std::fmt::Debug;
use unicode_width::UnicodeWidthStr;

/// Number of rows whose texts decide the width of columns: the first of the data, so that scrolling does not change it.
/// The first row of each cluster counts as well: all of these may be of one cluster.
const MEASURED_ROWS: usize = 64;

/// The name of the cluster in filters; the last of the field names if rows have one.
const CLUSTER: &str = "cluster";

/// The identity of a row: the index of its cluster and its own key.
type Id<K> = (usize, <K as Kind>::Key);

/// A table of the rows of a kind.
#[derive(Debug)]
pub struct List<K: Kind> {
    /// The cluster whose rows it has; `None` for all clusters.
    of: Option<usize>,
    /// The hosts to which its rows are limited; `None` for all.
    within: Option<HostsKey>,
    /// The position of each row.
    row_indices: Vec<RowIndex>,
    table: Table<Id<K>>,
    /// Whether the cursor was moved. Until then it stays on the first row if `holds_top` is set.
    moved: bool,
    holds_top: bool,
    columns: Shown,
    texts: TextWidths,
}

impl<K: Kind> List<K> {
    fn sortable_columns(&self) -> impl Iterator<Item = usize> {
        self.columns.shown().filter(|i| K::columns()[*i].order.is_some())
    }

    /// The rows of a cluster, or of all.
    pub fn new(of: Option<usize>) -> Self {
        let shown = |column: &Column<K>| match column.visibility {
            Visibility::Always => Some(true),
            Visibility::Wide => Some(false),
            Visibility::AllClusters => of.is_none().then_some(true),
        };
        let columns = (0..).zip(K::columns()).filter_map(|(i, column)| Some((i, shown(column)?)));
        Self {
            of,
            within: None,
            row_indices: Vec::new(),
            table: Table::default(),
            moved: false,
            holds_top: false,
            columns: Shown::new(columns.collect()),
            texts: TextWidths::default(),
        }
    }

    /// Keeps the cursor on the first row until it is moved.
    #[must_use]
    pub fn holding_top(self) -> Self {
        Self { holds_top: true, ..self }
    }

    /// The rows of a cluster that are among these hosts.
    pub fn among(cluster_index: usize, hosts: HostsKey) -> Self {
        Self { within: Some(hosts), ..Self::new(Some(cluster_index)) }
    }

    /// The hosts to which its rows are limited; `None` for all.
    pub fn within(&self) -> Option<&HostsKey> {
        self.within.as_ref()
    }

    /// The number, within its cluster, of each row, ignoring the filter.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.row_indices.iter().map(|(_, number)| *number)
    }

    /// The row at a position of the order.
    pub fn row<'f>(&self, fleet: &'f Fleet, position: usize) -> Option<K::Row<'f>> {
        K::at(fleet, *self.row_indices.get(self.table.row(position)?)?)
    }

    /// The row under the cursor.
    pub fn selected<'f>(&self, fleet: &'f Fleet) -> Option<K::Row<'f>> {
        self.row(fleet, self.table.cursor())
    }

    /// Puts the cursor on a row, if it exists; a filter that hides it is cleared.
    pub fn select(&mut self, fleet: &Fleet, cluster_index: usize, key: &K::Key) {
        self.moved = true;
        let is_there =
            |list: &Self| list.table.selected().is_some_and(|(p, k)| (*p, k) == (cluster_index, key));
        self.pick(fleet, cluster_index, key);
        if !(is_there(self) && self.selected(fleet).is_some_and(|row| K::key(&row) == *key)) {
            self.table.set_filter(Filter::default());
            self.arrange(fleet);
        }
    }

    fn pick(&mut self, fleet: &Fleet, cluster_index: usize, key: &K::Key) {
        let ids = ids::<K>(&self.row_indices, fleet);
        self.table.select(&(cluster_index, key.clone()), ids);
    }

    /// The shown columns, from left to right.
    fn shown(&self) -> impl Iterator<Item = &'static Column<K>> {
        self.columns.shown().map(|i| &K::columns()[i])
    }

    /// The indices of the columns with these ids. Unknown ids, e.g. of another version, are ignored.
    fn column_indices(ids: &[String]) -> Vec<usize> {
        ids.iter().filter_map(|id| K::columns().iter().position(|c| c.id == id)).collect()
    }
}

/// The texts of a row that a filter searches. In a table of one cluster, the cluster's name is omitted.
fn searched<'f, K: Kind>(
    row: &K::Row<'f>,
    is_across: bool,
) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
    K::fields(row).filter(move |(name, _)| is_across || *name != CLUSTER)
}

/// The text of a row in a column that a filter searches only by its name, for the cluster's current state.
fn text_of<'f, K: Kind>(
    fleet: &'f Fleet,
    (cluster_index, row): (usize, &K::Row<'f>),
    id: &str,
) -> Option<String> {
    let column = K::columns().iter().find(|c| c.id == id && !K::FIELDS.contains(&id))?;
    let taken = fleet.clusters.get(cluster_index)?.snapshot.taken;
    Some((column.cell)(row, &CellContext::plain(fleet, taken)).text.into_owned())
}

/// The identity of a row by its index; `None` if the row is gone.
fn ids<'a, K: Kind>(row_indices: &'a [RowIndex], fleet: &'a Fleet) -> impl Fn(usize) -> Option<Id<K>> + 'a {
    |i| {
        let row_index = *row_indices.get(i)?;
        Some((row_index.0, K::key(&K::at(fleet, row_index)?)))
    }
}

/// A table of rows of any kind.
pub trait Listing: Send {
    /// Sorts the rows.
    fn arrange(&mut self, fleet: &Fleet);
    /// Moves the cursor by this many rows.
    fn step(&mut self, fleet: &Fleet, by: isize);
    /// Puts the cursor on a position of the order.
    fn go(&mut self, fleet: &Fleet, position: usize);
    /// Scrolls this many rows below the cursor into the window, as far as there is room, without moving the cursor.
    fn reveal(&mut self, fleet: &Fleet, below: usize) {
        let at = self.cursor();
        let last = self.len().saturating_sub(1);
        let below = below.min(self.height().saturating_sub(1));
        self.go(fleet, (at + below).min(last));
        self.go(fleet, at);
    }
    /// Records where it was drawn.
    fn drawn(&mut self, table: &TableArea);
    /// Replaces the filter.
    fn set_filter(&mut self, fleet: &Fleet, filter: Filter);
    /// The names that may precede a colon in its filter.
    fn fields(&self) -> Vec<&'static str>;
    /// The ids of the shown columns that can be sorted by.
    fn sortable(&self) -> Vec<&'static str>;
    /// Sorts by another column: the next, the previous, or a given one (if already chosen: reversed).
    fn sort_by(&mut self, fleet: &Fleet, by: By);
    /// The name of the table in the settings.
    fn name(&self) -> &'static str;
    /// All of its columns from left to right, and whether each is shown.
    fn choices(&self) -> Vec<Choice>;
    /// The shown columns, as saved.
    fn layout(&self) -> TableLayout;
    /// Shows these columns.
    fn lay_out(&mut self, layout: &TableLayout);
    /// Makes these columns the default ones.
    fn set_default(&mut self, ids: &[String]);

    /// The number of rows that match the filter.
    fn len(&self) -> usize;
    /// Whether no row matches the filter.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number of rows, ignoring the filter.
    fn total(&self) -> usize;
    /// The cursor's position in the order.
    fn cursor(&self) -> usize;
    /// The first position to show in a window of this height.
    fn window(&self, height: usize) -> usize;
    /// The number of rows in the window.
    fn height(&self) -> usize;
    /// The current filter.
    fn filter(&self) -> &Filter;
    /// The titles of the columns that are shown in a window of this height, with the widest of their texts.
    fn headers(&self, context: &CellContext<'_>, height: usize) -> Vec<ColumnHeader>;
    /// The title of the sort column; `None` for the table's own order.
    fn sorted_by(&self) -> Option<&'static str>;
    /// The cells at a position, one per shown column.
    fn cells<'f>(&self, context: &CellContext<'f>, position: usize) -> Vec<Cell<'f>>;
    /// Index of the cell that is shown below the table for the row under the cursor if it does not fit in its column.
    fn below(&self) -> Option<usize>;
    /// Where the row under the cursor matches the filter, if none of the `seen` cells shows it.
    fn matches_unseen(&self, context: &CellContext<'_>, seen: &[usize]) -> Option<String>;
    /// The names of the fields by which rows in a window of this height match the filter although none of the columns
    /// `seen` shows the match, without fields that the filter names.
    fn unseen_fields(&self, context: &CellContext<'_>, seen: &[usize], height: usize) -> Vec<&'static str>;
    /// The title of the table.
    fn title(&self) -> &'static str;
    /// Text next to the title.
    fn counts(&self, context: &CellContext<'_>) -> Cell<'static>;
    /// Why no row is shown.
    fn why_empty(&self, context: &CellContext<'_>) -> String;
    /// The target under the cursor.
    fn target(&self, fleet: &Fleet) -> Option<Target>;
    /// The position of the row under the cursor.
    fn row_index(&self) -> Option<RowIndex>;
    /// The target at a position.
    fn target_at(&self, fleet: &Fleet, position: usize) -> Option<Target>;
    /// The text that is copied from the row under the cursor, with a description.
    fn copied(&self, fleet: &Fleet) -> Option<(&'static str, String)>;
}

impl<K: Kind> Listing for List<K> {
    fn arrange(&mut self, fleet: &Fleet) {
        let is_among = |row: &K::Row<'_>| self.within.as_ref().is_none_or(|hosts| K::is_among(row, hosts));
        let rows = K::rows(fleet, self.of).filter(|(_, row)| is_among(row));
        let (row_indices, rows): (Vec<RowIndex>, Vec<K::Row<'_>>) = rows.unzip();
        self.texts = TextWidths::default();
        let columns = K::columns();
        let is_across = self.of.is_none();
        let id = |i: usize| Some((row_indices[i].0, K::key(&rows[i])));
        self.table.arrange(
            rows.len(),
            id,
            |i, filter| {
                let text_of = |id: &str| text_of::<K>(fleet, (row_indices[i].0, &rows[i]), id);
                filter.matches_row(searched::<K>(&rows[i], is_across), K::ALSO_SEARCHED, text_of)
            },
            |a, b, sort| compare(columns, &rows[a], &rows[b], sort),
        );
        if self.holds_top && !self.moved {
            self.table.go(0, id);
        }
        self.row_indices = row_indices;
    }

    fn step(&mut self, fleet: &Fleet, by: isize) {
        self.moved = true;
        self.table.step(by, ids::<K>(&self.row_indices, fleet));
    }

    fn go(&mut self, fleet: &Fleet, position: usize) {
        self.moved = true;
        self.table.go(position, ids::<K>(&self.row_indices, fleet));
    }

    fn drawn(&mut self, table: &TableArea) {
        self.table.drawn(table.rows.height.into());
        self.texts.clone_from(&table.texts);
    }

    fn fields(&self) -> Vec<&'static str> {
        let columns = K::columns().iter().filter(|c| !c.title.is_empty()).map(|c| c.id);
        let others = columns.filter(|id| !K::FIELDS.contains(id));
        // In a table of one cluster, the cluster's name is the same in all rows.
        K::FIELDS.iter().copied().chain(others).filter(|name| self.of.is_none() || *name != CLUSTER).collect()
    }

    fn set_filter(&mut self, fleet: &Fleet, filter: Filter) {
        self.table.set_filter(filter);
        self.arrange(fleet);
    }

    fn sortable(&self) -> Vec<&'static str> {
        self.sortable_columns().map(|i| K::columns()[i].id).collect()
    }

    fn sort_by(&mut self, fleet: &Fleet, by: By) {
        let sort = self.table.sort();
        let sortable: Vec<usize> = self.sortable_columns().collect();
        let here = sort.column.and_then(|c| sortable.iter().position(|s| *s == c));
        let turned = |forward| {
            let turned = Sort { column: here, inverted: false }.turned(sortable.len(), forward);
            Sort { column: turned.column.map(|c| sortable[c]), ..turned }
        };
        let sort = match by {
            By::Next => turned(true),
            By::Previous => turned(false),
            By::Reversed => Sort { inverted: !sort.inverted, ..sort },
            By::Default => Sort::default(),
            By::Shown(_) | By::Column(_) => {
                let is_wanted = |i: &usize| match by {
                    By::Column(id) => K::columns()[*i].id == id,
                    By::Shown(n) => self.columns.shown().nth(n) == Some(*i),
                    _ => false,
                };
                let column = sortable.into_iter().find(is_wanted);
                if column.is_none() {
                    return;
                }
                Sort { column, inverted: column == sort.column && !sort.inverted }
            }
        };
        self.table.set_sort(sort);
        self.arrange(fleet);
    }

    fn name(&self) -> &'static str {
        K::name(self.of)
    }

    fn choices(&self) -> Vec<Choice> {
        let shown: Vec<usize> = self.columns.shown().collect();
        let choice = |i: usize| {
            let Column { id, title, .. } = K::columns()[i];
            Choice { id, title, is_shown: shown.contains(&i) }
        };
        self.columns.all().map(choice).collect()
    }

    fn layout(&self) -> TableLayout {
        let chosen = self.columns.chosen().unwrap_or_default();
        let columns = chosen.iter().map(|i| K::columns()[*i].id.to_owned()).collect();
        TableLayout { columns, wide: self.columns.is_wide }
    }

    fn lay_out(&mut self, layout: &TableLayout) {
        self.columns.choose(&Self::column_indices(&layout.columns));
        self.columns.is_wide = layout.wide;
        self.texts = TextWidths::default();
    }

    fn set_default(&mut self, ids: &[String]) {
        self.columns.set_default(&Self::column_indices(ids));
        self.texts = TextWidths::default();
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn total(&self) -> usize {
        self.row_indices.len()
    }

    fn cursor(&self) -> usize {
        self.table.cursor()
    }

    fn window(&self, height: usize) -> usize {
        self.table.window(height)
    }

    fn height(&self) -> usize {
        self.table.height()
    }

    fn filter(&self) -> &Filter {
        self.table.filter()
    }

    fn headers(&self, context: &CellContext<'_>, height: usize) -> Vec<ColumnHeader> {
        let sort = self.table.sort();
        let rows: LazyCell<Vec<K::Row<'_>>, _> = LazyCell::new(|| {
            let of_clusters = self.row_indices.chunk_by(|a, b| a.0 == b.0).filter_map(<[RowIndex]>::first);
            let measured = self.row_indices.iter().take(MEASURED_ROWS).chain(of_clusters);
            measured.filter_map(|row_index| K::at(context.fleet, *row_index)).collect()
        });
        let is_measured = context.version > 0 && self.texts.version == context.version;
        let known = |i: usize| self.texts.widths.get(i).copied().filter(|_| is_measured);
        let sorted_by = sort.column.and_then(|c| K::columns().get(c)).map(|c| c.id);
        // Columns that are hidden if empty depend on the visible rows.
        let top = self.table.window(height);
        let visible: Vec<K::Row<'_>> =
            (top..top + height).map_while(|position| self.row(context.fleet, position)).collect();
        let is_empty = |c: &Column<K>| visible.iter().all(|row| (c.cell)(row, context).width() == 0);
        let is_hidden = |c: &Column<K>| c.width.hides && is_empty(c);
        let head = |(i, c): (usize, &Column<K>)| {
            let (widest, briefest) = match known(i) {
                _ if is_hidden(c) => (0, 0),
                // A column that was hidden was not measured.
                Some(known) if known.0 > 0 || !c.width.hides => known,
                _ => widest(c, &rows, context),
            };
            ColumnHeader {
                title: c.title,
                width: c.width,
                widest,
                briefest,
                sorted: (sorted_by == Some(c.id)).then_some(sort.inverted),
            }
        };
        self.shown().enumerate().map(head).collect()
    }

    fn sorted_by(&self) -> Option<&'static str> {
        self.table.sort().column.and_then(|c| K::columns().get(c)).map(|c| c.title)
    }

    fn cells<'f>(&self, context: &CellContext<'f>, position: usize) -> Vec<Cell<'f>> {
        let Some(row) = self.row(context.fleet, position) else { return Vec::new() };
        self.shown().map(|c| (c.cell)(&row, context)).collect()
    }

    fn below(&self) -> Option<usize> {
        self.shown().position(|c| Some(c.id) == K::BELOW)
    }

    fn matches_unseen(&self, context: &CellContext<'_>, seen: &[usize]) -> Option<String> {
        let row = self.selected(context.fleet).filter(|_| !self.filter().is_empty())?;
        let cells = self.shown().enumerate().filter(|(i, c)| seen.contains(i) || Some(c.id) == K::BELOW);
        let seen: Vec<_> = cells.map(|(_, c)| (c.cell)(&row, context).text).collect();
        let (name, text) = self.filter().unseen(searched::<K>(&row, self.of.is_none()), &seen)?;
        Some(format!("matches in {name}: {}", printable(text)))
    }

    fn unseen_fields(&self, context: &CellContext<'_>, seen: &[usize], height: usize) -> Vec<&'static str> {
        if self.filter().is_empty() {
            return Vec::new();
        }
        let top = self.table.window(height);
        let mut found: Vec<&str> = Vec::new();
        for row in (top..top + height).map_while(|position| self.row(context.fleet, position)) {
            let cells = self.shown().enumerate().filter(|(i, _)| seen.contains(i));
            let texts: Vec<_> = cells.map(|(_, c)| (c.cell)(&row, context).text).collect();
            let field = self.filter().unseen_field(searched::<K>(&row, self.of.is_none()), &texts);
            if let Some(name) = field
                && !found.contains(&name)
            {
                found.push(name);
            }
        }
        K::FIELDS.iter().copied().filter(|name| found.contains(name)).collect()
    }

    fn title(&self) -> &'static str {
        K::title(self.of)
    }

    fn counts(&self, context: &CellContext<'_>) -> Cell<'static> {
        K::counts(context, self.of)
    }

    fn why_empty(&self, context: &CellContext<'_>) -> String {
        if self.table.filter().is_empty() {
            return K::why_empty(context, self.of);
        }
        format!("{} match the filter; {} clears it", K::LACKS, context.keymap.key_of(Action::Back))
    }

    fn target(&self, fleet: &Fleet) -> Option<Target> {
        self.target_at(fleet, self.table.cursor())
    }

    fn row_index(&self) -> Option<RowIndex> {
        self.row_indices.get(self.table.row(self.table.cursor())?).copied()
    }

    fn target_at(&self, fleet: &Fleet, position: usize) -> Option<Target> {
        self.row(fleet, position).map(|row| K::target(&row))
    }

    fn copied(&self, fleet: &Fleet) -> Option<(&'static str, String)> {
        self.selected(fleet).and_then(|row| K::copied(&row))
    }
}

/// The widest text of a column and the widest of its shorter forms, measured only if the width is variable.
fn widest<'f, K: Kind>(column: &Column<K>, rows: &[K::Row<'f>], context: &CellContext<'f>) -> (u16, u16) {
    if column.width.most == column.width.least && !column.width.hides {
        return (column.width.least, 0);
    }
    let title = u16::try_from(column.title.width()).unwrap_or(0);
    let (mut widest, mut briefest, mut has_brief) = (0, 0, false);
    for cell in rows.iter().map(|row| (column.cell)(row, context)) {
        widest = widest.max(cell.width());
        // A text without a shorter form keeps its width among those that have one.
        let brief = if cell.brief.is_some() { cell.brief_width() } else { cell.width() };
        (briefest, has_brief) = (briefest.max(brief), has_brief || cell.brief.is_some());
    }
    let briefest = if has_brief { briefest } else { 0 };
    (if widest == 0 { 0 } else { widest.max(title) }, briefest)
}

fn compare<'f, K: Kind>(columns: &[Column<K>], a: &K::Row<'f>, b: &K::Row<'f>, sort: Sort) -> Ordering {
    let by = match sort.column.and_then(|c| columns.get(c)).and_then(|c| c.order) {
        Some(order) => order(a, b),
        None => Ordering::Equal,
    };
    match (sort.column, sort.inverted) {
        (None, true) => K::order(b, a),
        (_, inverted) => if inverted { by.reverse() } else { by }.then_with(|| K::order(a, b)),
    }
}
