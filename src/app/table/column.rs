//! Columns as data. A column is one row of its page's list: id, title, width, cell, order.

use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::fleet::cluster::Cluster;
use crate::app::table::cell::Cell;
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::model::SnapshotPart;
use crate::model::text::printable;
use crate::reconcile::HostsKey;
use std::cmp::Ordering;
use std::fmt::Debug;
use unicode_width::UnicodeWidthStr;

/// The position of a row: the index of its cluster in the fleet, and its number in the cluster.
pub type RowIndex = (usize, usize);

/// A kind of rows: their data, and their columns.
pub trait Kind: Send + 'static {
    /// A row with everything that its cells need.
    type Row<'f>: Copy;
    /// What identifies a row within its cluster.
    type Key: Clone + PartialEq + Debug + Send;

    /// Text that is shown if there are no rows, e.g. `no jobs`.
    const LACKS: &'static str;

    /// The part of a cluster's state that its rows are read from, if it may be unread while the state is known.
    const PART: Option<SnapshotPart> = None;

    /// The title of the table of one cluster's rows, or of the rows of all clusters.
    fn title(of: Option<usize>) -> &'static str;

    /// The name of that table in the settings.
    fn name(of: Option<usize>) -> &'static str;

    /// Text next to the title: the number of rows, by state.
    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static>;

    /// Why there are no rows, if none is hidden by a filter.
    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        let clusters = || context.fleet.each(of).map(|(_, c)| c);
        let unread =
            |c: &Cluster| Self::PART.and_then(|part| c.unread(part)).map(|missing| missing.why.clone());
        if let Some(why) = clusters().find_map(unread) {
            let names: Vec<_> = clusters().filter(|c| unread(c).is_some()).map(Cluster::name).collect();
            let on = if of.is_some() { String::new() } else { format!(" on {}", labels::named(&names)) };
            return format!("not read{on}: {}", printable(&why));
        }
        match () {
            () if clusters().any(|c| c.known) && of.is_some() => format!("{} here", Self::LACKS),
            () if clusters().any(|c| c.known) => format!("{} on any cluster", Self::LACKS),
            () if of.is_some() && clusters().any(|c| c.problem().is_some()) => {
                "no data: the cluster has not been read yet".to_owned()
            }
            () => "waiting for the first data".to_owned(),
        }
    }

    /// The column whose text is shown below the table for the row under the cursor if the column truncates or omits it.
    const BELOW: Option<&'static str> = None;

    /// The names of the texts that a filter searches. Other columns are searched only if a filter names them.
    const FIELDS: &'static [&'static str];

    /// Columns outside [`Self::FIELDS`] that a filter searches all the same, because operators type what they see.
    const ALSO_SEARCHED: &'static [&'static str] = &[];

    /// All columns, in the order of the screen.
    fn columns() -> &'static [Column<Self>];

    /// The number of rows of a cluster, including those that may be gone.
    fn count(cluster: &Cluster) -> usize;

    /// A row of the cluster at this index, by its number; `None` if it is gone.
    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Self::Row<'_>>;

    /// The positions of the rows of one cluster, or of all.
    fn row_indices(fleet: &Fleet, of: Option<usize>) -> impl Iterator<Item = RowIndex> {
        let own =
            |(cluster_index, cluster)| (0..Self::count(cluster)).map(move |number| (cluster_index, number));
        fleet.each(of).flat_map(own)
    }

    /// The row at a position; `None` if it is gone.
    fn at(fleet: &Fleet, (cluster_index, number): RowIndex) -> Option<Self::Row<'_>> {
        Self::row(fleet.clusters.get(cluster_index)?, cluster_index, number)
    }

    /// The rows of one cluster, or of all, with their positions.
    fn rows(fleet: &Fleet, of: Option<usize>) -> impl Iterator<Item = (RowIndex, Self::Row<'_>)> {
        Self::row_indices(fleet, of).filter_map(|row_index| Some((row_index, Self::at(fleet, row_index)?)))
    }

    /// The key that identifies the row.
    fn key(row: &Self::Row<'_>) -> Self::Key;

    /// The default order, also among rows that are equal in the sort column.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering;

    /// The texts that a filter searches, each with one of [`Self::FIELDS`].
    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone;

    /// The target of actions on the row.
    fn target(row: &Self::Row<'_>) -> Target;

    /// Whether the row is one of these hosts, for a table of hosts.
    fn is_among(_row: &Self::Row<'_>, _hosts: &HostsKey) -> bool {
        true
    }

    /// The text that is copied, with a description; `None` if there is nothing that names the row.
    fn copied(row: &Self::Row<'_>) -> Option<(&'static str, String)>;
}

/// A column of the rows of a kind.
#[derive(Debug)]
pub struct Column<K: Kind + ?Sized> {
    /// Its name in the settings and in filters.
    pub id: &'static str,
    pub title: &'static str,
    pub width: Width,
    /// When it is shown.
    pub visibility: Visibility,
    /// Returns the cell of a row.
    pub cell: CellOf<K>,
    /// Compares two rows by this column; `None` if it cannot be sorted by.
    pub order: Option<OrderOf<K>>,
}

/// Creates the cell of a row.
pub type CellOf<K> = for<'f> fn(&<K as Kind>::Row<'f>, &CellContext<'f>) -> Cell<'f>;
/// Compares two rows.
pub type OrderOf<K> = for<'f> fn(&<K as Kind>::Row<'f>, &<K as Kind>::Row<'f>) -> Ordering;

/// When a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Always, if there is room.
    Always,
    /// In wide tables only.
    Wide,
    /// In tables of all clusters.
    AllClusters,
}

/// The width of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Width {
    /// The minimum, in screen columns.
    pub least: u16,
    /// The maximum that it is given to avoid truncating its texts.
    pub most: u16,
    /// Whether it takes the remaining space.
    pub grows: bool,
    /// Whether its texts are right-aligned, as numbers are.
    pub right: bool,
    /// Priority of being omitted when space is short, the highest number first; 0 is never omitted.
    pub spare: u8,
    /// Up to this width of its texts, dispensable columns ([`Width::OMITTED_FIRST`]) are omitted before it is truncated.
    pub firm: u16,
    /// Whether it is omitted if no row has a text for it.
    pub hides: bool,
}

impl Width {
    /// Columns with this `spare` or a higher one are omitted before a firm column is truncated.
    pub const OMITTED_FIRST: u8 = 4;

    /// Text of `least` to `most` screen columns.
    pub const fn text(least: u16, most: u16, spare: u8) -> Self {
        Self { least, most, grows: false, right: false, spare, firm: 0, hides: false }
    }

    /// A number of this width.
    pub const fn number(width: u16, spare: u8) -> Self {
        Self { right: true, ..Self::text(width, width, spare) }
    }

    /// Text of at least `least` screen columns that takes the remaining space.
    pub const fn rest(least: u16, most: u16, spare: u8) -> Self {
        Self { grows: true, ..Self::text(least, most, spare) }
    }

    /// Other columns are omitted before its texts of up to this width are truncated.
    #[must_use]
    pub const fn firm(self, firm: u16) -> Self {
        Self { firm, ..self }
    }

    /// Omitted if no row has a text for it.
    #[must_use]
    pub const fn hiding(self) -> Self {
        Self { hides: true, ..self }
    }
}

/// A column's title as a table shows it, with the widest of its texts.
#[derive(Clone, Copy, Debug)]
pub struct ColumnHeader {
    /// Its title above the table, in capitals.
    pub title: &'static str,
    /// How wide it is.
    pub width: Width,
    /// The widest of the measured texts.
    pub widest: u16,
    /// The widest of their shorter forms; 0 if there are none.
    pub briefest: u16,
    /// Whether the rows are sorted by this column (`Some`), and whether reversed.
    pub sorted: Option<bool>,
}

impl ColumnHeader {
    /// A column of a small table that is not sorted.
    pub const fn plain(title: &'static str, width: Width) -> Self {
        Self { title, width, widest: width.least, briefest: 0, sorted: None }
    }

    /// A column of names, as wide as the longest, so that the next column stands close to it.
    pub fn of_names<'n>(title: &'static str, names: impl Iterator<Item = &'n str>) -> Self {
        let widest = names.map(UnicodeWidthStr::width).max().unwrap_or(0);
        let widest = u16::try_from(widest).unwrap_or(u16::MAX);
        Self { widest, ..Self::plain(title, Width::text(12, u16::MAX, 0).firm(24)) }
    }
}
