//! The output of a job's workers, with equal lines of several workers in one row.

use super::common::{WorkerPosition, hue, in_file, of_job, role, state, why_empty};
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::job::workers::{FoldedLine, Watched};
use crate::app::log::LineTarget;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::job_workers::{JobWorkers, NamedWorker, Part, Peers, WorkerLine};
use crate::logs::{Member, Row as Alike, untimed};
use crate::model::Timestamp;
use crate::model::amount::{counted, grouped};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The folded lines of a job's workers.
#[derive(Debug)]
pub struct FoldedLines;

/// A row, or a line of an expanded row.
#[derive(Clone, Copy, Debug)]
pub struct FoldedRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    job_workers: &'f JobWorkers,
    lines: &'f [WorkerLine],
    alike: &'f Alike,
    among: &'f Peers,
    mark: u64,
    /// The line within the row.
    pub line: FoldedLine,
}

type Row<'f> = FoldedRow<'f>;

/// Up to this many hosts of a row are named.
const MAX_NAMED_HOSTS: usize = 3;

impl<'f> FoldedRow<'f> {
    /// The worker and time of the row; if it is of several workers, those of the first one.
    pub fn position(&self) -> Option<WorkerPosition> {
        if let FoldedLine::Missing(_, worker) = self.line {
            return Some(WorkerPosition {
                worker,
                time: self.alike.time.map(|(first, _)| first),
                is_err: None,
            });
        }
        let member = self.member().or_else(|| self.alike.members().first())?;
        let is_err = self.line_of(member).map(|line| line.is_err);
        Some(WorkerPosition { worker: member.source as usize, time: member.time, is_err })
    }

    /// Whether it can be expanded: it is of several workers, or it is a traceback.
    pub fn is_of_many(&self) -> bool {
        self.alike.members().len() > 1 || !self.alike.trace.is_empty()
    }

    fn member(&self) -> Option<&'f Member> {
        let FoldedLine::Member(_, member) = self.line else { return None };
        self.alike.members().get(member)
    }

    /// The line in the file of the worker under the cursor; `None` for a worker that did not write it.
    pub fn line_target(&self) -> Option<LineTarget> {
        if let FoldedLine::Missing(..) = self.line {
            return None;
        }
        let member = self.member().or_else(|| self.alike.members().first())?;
        let first = in_file(self.lines, self.line_index_of(member)?)?;
        let FoldedLine::Trace(_, line) = self.line else { return Some(first) };
        // The other lines have the same order in the file.
        let (above, rest) = self.alike.trace.split_at_checked(line)?;
        Some(LineTarget { text: rest.first()?.clone(), before: above.to_vec(), at: None })
    }

    /// The line of a member.
    fn line_of(&self, member: &Member) -> Option<&'f WorkerLine> {
        self.lines.get(self.line_index_of(member)?)
    }

    /// The index of that line among all lines.
    fn line_index_of(&self, member: &Member) -> Option<usize> {
        // Lines with the same time are adjacent.
        let from = self.lines.partition_point(|line| line.time < member.time);
        let is_it = |line: &WorkerLine| line.worker == member.source as usize && line.number == member.line;
        let at = self.lines[from..].iter().take_while(|line| line.time == member.time).position(is_it)?;
        Some(from + at)
    }

    fn worker(&self) -> Option<&'f NamedWorker> {
        let worker = match self.line {
            FoldedLine::Missing(_, worker) => worker,
            _ => self.member()?.source as usize,
        };
        self.job_workers.workers.get(worker)
    }

    /// The workers with the line if there are few, or those without it if there are few of them.
    fn who(&self) -> String {
        let (members, missing) = (self.alike.members(), self.among.notable());
        let name = |worker: usize| {
            let worker = self.job_workers.workers.get(worker);
            worker.map(|worker| self.job_workers.short_host(&worker.host)).unwrap_or_default()
        };
        if members.len() <= MAX_NAMED_HOSTS && self.among.workers > MAX_NAMED_HOSTS {
            return members.iter().map(|m| name(m.source as usize)).collect::<Vec<_>>().join(", ");
        }
        if missing.is_empty() {
            return String::new();
        }
        let named: Vec<&str> =
            missing.iter().take(MAX_NAMED_HOSTS).map(|worker| name(*worker as usize)).collect();
        match missing.len() - named.len() {
            0 => format!("not {}", named.join(", ")),
            more => format!("not {} and {more} more", named.join(", ")),
        }
    }

    fn text(&self) -> Cow<'f, str> {
        match self.line {
            FoldedLine::Row(row) if self.is_of_many() => {
                let glyph = if self.cluster.job_workers.is_open(row) { "▾" } else { "▸" };
                Cow::Owned(format!("{glyph} {}", untimed(&self.alike.text)))
            }
            FoldedLine::Row(_) => Cow::Owned(format!("  {}", untimed(&self.alike.text))),
            FoldedLine::Trace(_, line) => Cow::Owned(format!("    {}", self.alike.trace[line])),
            FoldedLine::Missing(..) => Cow::Borrowed("    did not write it"),
            FoldedLine::Member(..) => {
                let line = self.member().and_then(|member| self.line_of(member));
                Cow::Owned(format!("    {}", line.map(|line| untimed(line.line.text())).unwrap_or_default()))
            }
        }
    }
}

/// The row with a line of that worker that is closest to that time.
pub(super) fn nearest(watched: &Watched, worker: usize, time: Option<Timestamp>) -> Option<(u64, usize)> {
    let (_, _, folded) = watched.lines()?;
    let own = |row: &Alike| row.members().iter().find(|m| m.source as usize == worker).copied();
    let own = folded.rows.iter().enumerate().filter_map(|(number, row)| Some((number, own(row)?)));
    let away = |member: &Member| match (member.time, time) {
        (Some(a), Some(b)) => a.age(b).max(b.age(a)),
        _ => std::time::Duration::MAX,
    };
    let (number, _) = own.min_by_key(|(number, member)| (away(member), usize::MAX - number))?;
    Some((folded.marks[number], 0))
}

impl Kind for FoldedLines {
    type Row<'f> = FoldedRow<'f>;
    /// The mark of the row, and the number of the line in it: 0 is the row itself.
    type Key = (u64, usize);

    const LACKS: &'static str = "no lines";
    const FIELDS: &'static [&'static str] = &["line", "host", "cluster"];
    const BELOW: Option<&'static str> = Some("line");

    fn title(_: Option<usize>) -> &'static str {
        "Folded lines"
    }

    fn name(_: Option<usize>) -> &'static str {
        "folded-lines"
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let lines =
            of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)?.job_workers.lines());
        let (lines, rows) = lines.map_or((0, 0), |(_, lines, folded)| (lines.len(), folded.rows.len()));
        state(context, of, Part::Lines, |job_workers| {
            let workers = job_workers.count_text();
            format!("{} lines of {workers} in {}", grouped(lines), counted(rows, "row"))
        })
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        why_empty(context, of, Part::Lines)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.job_workers.folded().len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let (job_workers, lines, folded) = cluster.job_workers.lines()?;
        let line = *cluster.job_workers.folded().get(number)?;
        let (alike, mark) = (folded.rows.get(line.row())?, *folded.marks.get(line.row())?);
        let among = folded.among.get(line.row())?;
        Some(Row { cluster, cluster_index, number, job_workers, lines, alike, among, mark, line })
    }

    fn key(row: &Row<'_>) -> Self::Key {
        let line = match row.line {
            FoldedLine::Row(_) => 0,
            FoldedLine::Trace(_, line) => 1 + line,
            // Above the number of lines of the longest traceback.
            FoldedLine::Missing(_, worker) => 100_000 + worker,
            FoldedLine::Member(_, member) => 1_000_000 + member,
        };
        (row.mark, line)
    }

    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        a.number.cmp(&b.number)
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        let text = match row.line {
            FoldedLine::Trace(_, line) => row.alike.trace[line].as_str(),
            _ => row.alike.text.as_str(),
        };
        let members =
            row.alike.members().iter().filter_map(|m| row.job_workers.workers.get(m.source as usize));
        let hosts = members.map(|worker| ("host", worker.host.as_str()));
        [("line", text), ("cluster", row.cluster.name().as_str())].into_iter().chain(hosts)
    }

    fn target(row: &Row<'_>) -> Target {
        of_job(row.cluster, row.cluster_index)
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("line", row.text().trim_start_matches(['▸', '▾', ' ']).to_owned()))
    }
}

const COLUMNS: &[Column<FoldedLines>] = &[
    Column {
        id: "time",
        title: "TIME",
        width: Width::text(12, 18, 1).firm(18),
        visibility: Visibility::Always,
        cell: |row, _| {
            let time = match row.line {
                FoldedLine::Row(_) => row.alike.time.map(|(first, _)| first),
                _ => row.member().and_then(|member| member.time),
            };
            let time = time.map(|at| row.job_workers.clock.text(at)).unwrap_or_default();
            Cell::new(time, Role::Dim)
        },
        order: None,
    },
    Column {
        id: "workers",
        title: "WORKERS",
        width: Width::text(10, 28, 0).firm(20),
        visibility: Visibility::Always,
        cell: |row, _| match row.worker() {
            Some(worker) if matches!(row.line, FoldedLine::Missing(..)) => {
                Cell::new(worker.who(), Role::Warn).ending()
            }
            Some(worker) => {
                let hue = row.position().map_or(Role::Text, |spot| hue(spot.worker));
                Cell::new(worker.who(), hue).ending()
            }
            None if matches!(row.line, FoldedLine::Row(_)) => {
                Cell::text(format!("{} of {}", row.alike.members().len(), row.among.workers))
            }
            None => Cell::default(),
        },
        order: Some(|a, b| {
            b.alike.members().len().cmp(&a.alike.members().len()).then(a.number.cmp(&b.number))
        }),
    },
    Column {
        id: "hosts",
        title: "HOSTS",
        width: Width::text(8, 36, 2).firm(20).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| {
            let is_row = matches!(row.line, FoldedLine::Row(_));
            Cell::new(if is_row { row.who() } else { String::new() }, Role::Warn)
        },
        order: None,
    },
    Column {
        id: "line",
        title: "LINE",
        width: Width::rest(20, 400, 0),
        visibility: Visibility::Always,
        cell: |row, _| {
            let role = match row.line {
                FoldedLine::Row(_) if !row.alike.trace.is_empty() => Role::Bad,
                FoldedLine::Row(_) => role(&row.alike.text),
                _ => Role::Dim,
            };
            Cell::new(row.text(), role)
        },
        order: None,
    },
];
