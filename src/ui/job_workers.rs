//! The workers of a job: tabs for the four tables, the coverage of the reading, and the table.

use super::grid::put;
use super::part::{DrawContext, split_top};
use super::table;
use crate::app::{Area, Areas, Cluster, WorkersPage, WorkersView};
use crate::job_workers::{DEFAULT_LINES, WorkersAnswer, WorkersReading, lost_workers_text};
use crate::model::amount::counted;
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

/// Draws the page; records the areas of the tabs and the rows.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, page): (&Cluster, &WorkersPage),
    areas: &mut Areas,
) {
    let (tabs, rest) = split_top(area, 1);
    areas.worker_tabs = draw_tabs(buf, tabs, d, page.view);
    let note = note(cluster, page.view, d);
    let (line, rest) = split_top(rest, u16::from(note.is_some()));
    if let Some((note, style)) = note {
        put(buf, line.x + 1, line.y, line.width.saturating_sub(1), false, &note, style);
    }
    areas.table = Some(table::page(buf, rest, d, page.table()));
}

fn draw_tabs(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    here: WorkersView,
) -> Vec<(WorkersView, Area)> {
    let mut x = area.x + 1;
    let mut tabs = Vec::new();
    for (number, view) in (1..).zip(WorkersView::ALL) {
        if number > 1 {
            put(buf, x, area.y, area.right().saturating_sub(x), false, " │ ", d.theme.border);
            x = x.saturating_add(3);
        }
        let text = format!("{number} {}", view.text());
        let width = u16::try_from(text.width()).unwrap_or(0).min(area.right().saturating_sub(x));
        let style = if view == here { d.theme.accent.add_modifier(Modifier::BOLD) } else { d.theme.dim };
        put(buf, x, area.y, width, false, &text, style);
        tabs.push((view, Area { x, y: area.y, width, height: 1 }));
        x = x.saturating_add(width);
    }
    tabs
}

/// The gaps and the coverage of the reading.
fn note(cluster: &Cluster, view: WorkersView, d: &DrawContext<'_>) -> Option<(String, Style)> {
    let slot = cluster.job_workers.slot(view.part());
    let mut parts = Vec::new();
    let mut is_lacking = false;
    if let (Some(problem), Some(_)) = (&slot.problem, &slot.reading) {
        is_lacking = true;
        parts.push(format!("not refreshed: {}", printable(&problem.what)));
    }
    if let Some(reading) = &slot.reading {
        let lost = lost_workers_text(&reading.job_workers.workers);
        let unread =
            reading.job_workers.incomplete.first().map(|first| match reading.job_workers.incomplete.len() {
                1 => first.clone(),
                n => format!("{first} and {} more", n - 1),
            });
        is_lacking |= lost.is_some() || unread.is_some();
        parts
            .extend(lost.into_iter().chain(unread).map(|words| format!("incomplete: {}", printable(&words))));
        parts.extend(covers(reading));
    }
    let style = if is_lacking { d.theme.warn } else { d.theme.dim };
    (!parts.is_empty()).then(|| (parts.join(" · "), style))
}

/// The content of a reading.
fn covers(reading: &WorkersReading) -> Option<String> {
    match &reading.what {
        WorkersAnswer::Overview { .. } if reading.idle > 0 => {
            Some(format!("{} that no longer run anything are hidden", counted(reading.idle, "worker")))
        }
        WorkersAnswer::Lines { whole_since, .. } => {
            let since =
                whole_since.map(|at| format!("; complete since {}", reading.job_workers.clock.text(at)));
            Some(format!("the last {DEFAULT_LINES} lines of each file{}", since.unwrap_or_default()))
        }
        WorkersAnswer::Overview { .. } | WorkersAnswer::Cause(_) => None,
    }
}
