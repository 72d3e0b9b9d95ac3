//! The list of clusters, and the files that could not be read.

use super::frame::{Title, pane};
use super::grid::{Cell, Column, Grid};
use super::{Draw, filtered, words};
use crate::app::{Area, Cluster};
use crate::model::text::printable;
use crate::model::{AutoscalerVersion, Link, Problem};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const COLUMNS: [Column; 6] = [
    Column::rest("CLUSTER", 20, 0),
    Column::text("LINK", 28, 0),
    Column::text("NODES", 11, 1),
    Column::text("JOBS", 11, 1),
    Column::number("DATA", 6, 3),
    Column::rest("SAYS", 20, 2),
];

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>) -> Area {
    let list = d.app.list();
    let (clusters, broken) = (d.app.clusters(), d.app.broken());
    let many = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let mut counts = vec![many(clusters.len(), "cluster")];
    counts.extend((!broken.is_empty()).then(|| many(broken.len(), "broken file")));
    let title = filtered("Clusters", list.filter().text(), list.len());
    let counts = counts.join(" · ");
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &counts, tone: None, focused: true });
    let grid = Grid {
        columns: &COLUMNS,
        sort: list.sort(),
        sortable: &["CLUSTER"],
        top: list.window(usize::from(inner.height.saturating_sub(1))),
        rows: list.len(),
        selected: Some((list.cursor(), d.theme.selected)),
    };
    grid.draw(buf, inner, d.theme, |position| {
        let Some(i) = list.row(position) else { return Vec::new() };
        match clusters.get(i) {
            Some(cluster) => row(cluster, d),
            None => broken
                .get(i - clusters.len())
                .map(|(file, problem)| broken_row(file, problem, d))
                .unwrap_or_default(),
        }
    })
}

fn row<'a>(cluster: &'a Cluster, d: &Draw<'_>) -> Vec<Cell<'a>> {
    let (link, tone) = words::link(cluster, d.now, d.theme);
    let text = if cluster.is_stale(d.now) { d.theme.dim } else { d.theme.text };
    let (alive, joining, dead) = cluster.node_counts();
    let (running, waiting, failed) = cluster.job_counts(d.now);
    let counted = |n: usize, glyph: &str| if n > 0 { format!(" {glyph}{n}") } else { String::new() };
    let (nodes, jobs) = if cluster.known {
        (
            format!("{alive}{}{}", counted(joining, "+"), counted(dead, "✕")),
            format!("{running}{}{}", counted(waiting, "◐"), counted(failed, "✕")),
        )
    } else {
        ("?".into(), "?".into())
    };
    let (says, says_tone) = says(cluster, d);
    vec![
        Cell::new(printable(cluster.name().as_str()), text),
        Cell::new(link, tone),
        Cell::new(nodes, text),
        Cell::new(jobs, text),
        Cell::new(words::age(cluster.age(d.now), d.app.fresh()), text),
        Cell::new(says, says_tone),
    ]
}

/// What needs attention first.
fn says(cluster: &Cluster, d: &Draw<'_>) -> (String, Style) {
    let report = &cluster.snapshot.autoscaler;
    let wanted: u64 = report.demands.iter().map(|x| x.count).sum();
    match (&cluster.link, cluster.problem()) {
        (_, Some(problem)) => (problem.what.clone(), d.theme.bad),
        (Some(Link::Up { .. }), None) if !report.failures.is_empty() => {
            (format!("launches fail: {}", report.failures[0].node_type), d.theme.warn)
        }
        (Some(Link::Up { .. }), None) if wanted > 0 => (format!("wants {wanted} more"), d.theme.warn),
        (Some(Link::Up { .. }), None) if report.version == AutoscalerVersion::None => {
            ("no autoscaler".into(), d.theme.dim)
        }
        _ => ("-".into(), d.theme.dim),
    }
}

fn broken_row<'a>(file: &'a str, problem: &'a Problem, d: &Draw<'_>) -> Vec<Cell<'a>> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let mut cells = vec![Cell::new(printable(name), d.theme.text), Cell::new("✕ broken file", d.theme.bad)];
    cells.extend(["-"; 3].map(|s| Cell::new(s, d.theme.dim)));
    // The name stands in the first column already.
    let what = problem.what.strip_prefix(file).map_or(problem.what.as_str(), |w| w.trim_start_matches(':'));
    cells.push(Cell::new(what.trim_start(), d.theme.bad));
    cells
}
