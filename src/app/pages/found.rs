//! The results of the last log search across clusters, one row per line.

use super::job_workers::line_role;
use crate::app::action::context::{Context, PAGES_BUT_LOGS};
use crate::app::action::impact::Impact;
use crate::app::action::table::{Action, Description};
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::fleet::cluster::Cluster;
use crate::app::log::results::{Found, SearchState, first_of};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::table::list::List;
use crate::app::text::labels;
use crate::app::view::TablePage;
use crate::logs::{Pattern, clock, prefixed, untimed};
use crate::model::amount::{counted, grouped};
use crate::model::natural::natural;
use crate::model::text::printable;
use crate::model::{FileMatches, LineMatch, LogSource, SearchTally, SubmissionId};
use std::cmp::Ordering;

/// The table.
pub static PAGE: TablePage = TablePage {
    opener: Description {
        impact: Impact::View,
        name: "search-results",
        label: "",
        help: "Show the results of the last log search across clusters",
        keywords: "",
        contexts: PAGES_BUT_LOGS,
    },
    crumb: "search results",
    context: Context::Table,
    list: || Box::new(List::<FoundLines>::new(None)),
};

/// Width of the pattern in the title.
const PATTERN_WIDTH: usize = 40;

/// Number of characters shown before a match.
const CHARACTERS_BEFORE: usize = 8;

/// The lines that were found.
#[derive(Debug)]
pub struct FoundLines;

/// A line, its file and its cluster.
#[derive(Clone, Copy, Debug)]
pub struct FoundRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    file: &'f FileMatches,
    line: &'f LineMatch,
}

type Row<'f> = FoundRow<'f>;

impl FoundRow<'_> {
    fn host(&self) -> String {
        labels::host(self.cluster, &self.file.node)
    }

    /// `10.0.0.7/4123 err` of a worker, `driver raysubmit_4f1c` of a job, `10.0.0.7 raylet.out` of another file.
    fn source(&self) -> String {
        let name = self.file.name.raw();
        match SubmissionId::of_driver_log(name) {
            Some(id) => format!("driver {id}"),
            None => labels::log_file(self.cluster, &self.file.node, &self.file.name),
        }
    }
}

impl<'f> FoundRow<'f> {
    /// The text of the line without what other columns show; if there is no room, from shortly before the match.
    fn line_cell(&self, context: &CellContext<'_>) -> Cell<'f> {
        let whole = self.line.line.text();
        let text = prefixed(whole).text;
        let text = if self.line.time.is_some() { untimed(text) } else { text };
        let cell = Cell::new(text, line_role(whole));
        let sought = context.fleet.searched.as_ref().and_then(|s| Pattern::parse(&s.sought).ok());
        let at =
            sought.and_then(|sought| sought.matches_in(text).first().map(|found| found.start)).unwrap_or(0);
        let from = text[..at].char_indices().rev().nth(CHARACTERS_BEFORE).map_or(0, |(from, _)| from);
        if from == 0 { cell } else { cell.or(format!("…{}", &text[from..])) }
    }
}

/// The log that contains a line of a cluster: that of a job, if Ray lists the job, or else the file.
pub fn log_of(cluster: &Cluster, file: &FileMatches) -> LogSource {
    let listed = |id: &SubmissionId| cluster.snapshot.jobs.iter().any(|job| job.submission_id() == Some(id));
    match SubmissionId::of_driver_log(file.name.raw()).filter(listed) {
        Some(id) => LogSource::Job(id),
        None => LogSource::File { node: file.node, name: file.name.clone() },
    }
}

/// What could not be searched in the last search, by cluster, in a sentence each that is safe to print.
pub fn unsearched(fleet: &Fleet, of: Option<usize>) -> Vec<String> {
    let of_cluster = |(_, cluster): (usize, &Cluster)| {
        let all = cluster.found.unsearched().iter();
        all.map(|why| printable(&format!("{}: {why}", cluster.name())).into_owned()).collect::<Vec<_>>()
    };
    fleet.each(of).flat_map(of_cluster).collect()
}

/// The beginning of a text that is too long for the title.
fn short(text: &str) -> String {
    match text.char_indices().nth(PATTERN_WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Kind for FoundLines {
    type Row<'f> = FoundRow<'f>;
    /// Its number among those of its cluster, which never changes.
    type Key = usize;

    const LACKS: &'static str = "no lines";
    const FIELDS: &'static [&'static str] = &["line", "file", "cluster"];
    const BELOW: Option<&'static str> = Some("line");

    fn title(_: Option<usize>) -> &'static str {
        "Search results"
    }

    fn name(_: Option<usize>) -> &'static str {
        PAGE.opener.name
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let Some(searched) = &context.fleet.searched else { return Cell::default() };
        let clusters = || context.fleet.each(of).map(|(_, cluster)| &cluster.found);
        let lines: usize = clusters().map(Found::len).sum();
        let files: usize = clusters().map(|found| found.files().len()).sum();
        let more: usize = clusters().flat_map(Found::files).map(|file| file.more).sum();
        let sought = printable(&searched.sought);
        // Omissions come first, because a small window has no room for everything.
        let sum = |of: fn(&SearchTally) -> usize| clusters().filter_map(Found::tally).map(of).sum::<usize>();
        let (all, whole) = (sum(|tally| tally.files), sum(|tally| tally.whole));
        let mut parts = Vec::new();
        let is_searching = clusters().any(Found::is_searching);
        if is_searching {
            // Clusters that are done count as well, so that the numbers only rise.
            let done: usize = clusters().map(|found| found.progress().0).sum();
            let nodes: usize = clusters().map(|found| found.progress().1).sum();
            parts.push(format!("searched {} of {}", grouped(done), counted(nodes, "node")));
        } else if clusters().any(|found| found.tally().is_some()) {
            parts.push("done".to_owned());
        }
        if whole < all {
            let ends = counted(all - whole, "file");
            parts.push(format!("only the last {} lines of {ends}", grouped(searched.lines as usize)));
        }
        let failed = clusters().filter(|found| matches!(found.state, SearchState::Failed(_))).count();
        let is_incomplete = clusters().filter_map(Found::tally).any(|tally| !tally.incomplete.is_empty());
        let compressed = sum(|tally| tally.compressed.len());
        parts.extend(
            (compressed > 0).then(|| format!("{} not searched", counted(compressed, "compressed file"))),
        );
        parts.extend((failed > 0).then(|| format!("{} not searched", counted(failed, "cluster"))));
        parts.extend(is_incomplete.then(|| "incomplete".to_owned()));
        parts.push(format!("`{}` in {}", short(&sought), searched.of));
        parts.push(format!("{} of {}", counted(lines, "line"), counted(files, "file")));
        parts.extend((more > 0).then(|| format!("{} more", grouped(more))));
        if !is_searching {
            let all_of = if whole == all { "all of " } else { "" };
            parts.push(format!("searched {all_of}{}", counted(all, "file")));
        }
        parts.extend(first_of(&unsearched(context.fleet, of)));
        Cell::new(parts.join(" · "), if failed > 0 || is_incomplete { Role::Warn } else { Role::Dim })
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        let key = context.keymap.key_of(Action::SearchLogs);
        if context.fleet.searched.is_none() {
            return format!("no search yet; {key} in the fleet or in a table starts one");
        }
        let state =
            |wanted: fn(&SearchState) -> bool| context.fleet.each(of).any(|(_, c)| wanted(&c.found.state));
        match () {
            () if state(|state| matches!(state, SearchState::Searching(_))) => {
                "searching the files on their hosts".to_owned()
            }
            () if !state(|state| matches!(state, SearchState::Done(_))) => {
                "no clusters were searched; see the messages for the reason".to_owned()
            }
            () if context.fleet.each(of).filter_map(|(_, c)| c.found.tally()).all(|t| t.whole == t.files) => {
                "no matches in the files".to_owned()
            }
            () => {
                "no matches; only the last lines of some files were searched, see the title and the messages"
                    .to_owned()
            }
        }
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.found.len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let (file, line) = cluster.found.line(number)?;
        Some(Row { cluster, cluster_index, number, file, line })
    }

    fn key(row: &Row<'_>) -> usize {
        row.number
    }

    /// By cluster, host and file; lines of a file in their order.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        let by_file = || {
            let is_same = a.file.node == b.file.node;
            let by_host = || if is_same { Ordering::Equal } else { natural(&a.host(), &b.host()) };
            by_host()
                .then_with(|| a.file.node.cmp(&b.file.node))
                .then_with(|| a.file.name.raw().cmp(b.file.name.raw()))
        };
        a.cluster_index.cmp(&b.cluster_index).then_with(by_file).then(a.number.cmp(&b.number))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("line", row.line.line.text()),
            ("file", row.file.name.raw()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Cluster(row.cluster_index)
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("line", row.line.line.text().to_owned()))
    }
}

const COLUMNS: &[Column<FoundLines>] = &[
    Column {
        id: "cluster",
        title: "CLUSTER",
        width: Width::text(8, 24, 1).firm(24),
        visibility: Visibility::AllClusters,
        cell: |row, context| {
            let name = row.cluster.name();
            let short = context.fleet.short_name(name).unwrap_or_else(|| name.to_string());
            Cell::text(printable(&short).into_owned()).named()
        },
        order: Some(|a, b| a.cluster.name().cmp(b.cluster.name())),
    },
    Column {
        id: "file",
        title: "FILE",
        width: Width::text(12, 36, 0).firm(24),
        visibility: Visibility::Always,
        cell: |row, _| Cell::new(row.source(), Role::Text).ending(),
        order: None,
    },
    Column {
        id: "time",
        title: "TIME",
        width: Width::text(8, 18, 2).firm(18).hiding(),
        visibility: Visibility::Always,
        cell: |row, context| {
            let time = row.line.time.map(|at| clock(at, context.now));
            Cell::new(time.unwrap_or_default(), Role::Dim)
        },
        order: Some(|a, b| a.line.time.cmp(&b.line.time)),
    },
    Column {
        id: "line",
        title: "LINE",
        width: Width::rest(20, 400, 0),
        visibility: Visibility::Always,
        cell: |row, context| row.line_cell(context),
        order: None,
    },
];
