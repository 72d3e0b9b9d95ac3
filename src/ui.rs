//! Drawing: turns the state of the screen into cells. No clock, no I/O, no changes of state.
//!
//! ```text
//!  header     fleet › us-central2            ● up 12 ms  Ray 2.60.0  token ok  data <5 s
//!  banner     the problem, since when, and a hint (only if there is one)
//!  ╭ 1 Nodes ───────────────╮╭ 4 Autoscaler ─────────╮      below 110 columns: a line of
//!  ╰────────────────────────╯╰───────────────────────╯      tabs, the focused pane, and the
//!  ╭ 2 Jobs ────────────────╮╭ 3 Log ────────────────╮      log under it
//!  ╰────────────────────────╯╰───────────────────────╯
//!  footer     keys valid now, or the prompt
//! ```

mod alerts;
mod autoscaler;
mod buttons;
mod chrome;
mod columns;
mod details;
mod dialog;
mod fleet;
mod form;
mod frame;
mod glyphs;
mod grid;
mod job_workers;
mod line;
mod log;
mod operation;
mod palette;
mod part;
mod plan;
mod prompt;
mod sentence;
mod slice;
mod table;
mod text;
mod theme;
mod tpus;
mod worker;

pub use glyphs::Glyphs;
pub use text::capitalized;
pub use theme::file::{BUILT_IN, ThemeFile};
pub use theme::{Colors, Theme};

use crate::app::{App, Area, Areas, Page, Pane, PaneBorders, View};
use crate::model::Timestamp;
use part::{DrawContext, Shown, split_bottom, split_top};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// From this width on, all four panes are shown side by side.
const MIN_WIDTH_OF_FOUR_PANES: u16 = 110;
/// Minimum size of the screen.
const MIN_SIZE: (u16, u16) = (40, 10);

/// Draws everything; returns the areas of the parts, for the mouse.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: &Theme, now: Timestamp) -> Areas {
    let areas = draw_parts(frame, app, theme, now);
    let buf = frame.buffer_mut();
    theme.fill(buf);
    theme.glyphs.apply(buf);
    areas
}

fn draw_parts(frame: &mut Frame<'_>, app: &App, theme: &Theme, now: Timestamp) -> Areas {
    let area = frame.area();
    let buf = frame.buffer_mut();
    // A frozen screen shows the ages at the time of freezing.
    let d = DrawContext { app, theme, now: app.frozen_since().unwrap_or(now) };
    let mut areas = Areas::default();
    let mut cursor = None;
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let (width, height) = MIN_SIZE;
        let text = format!("enlarge the window: at least {width}x{height}");
        for (y, line) in (area.y..area.bottom()).zip(text::wrap(&text, area.width.into())) {
            grid::put(buf, area.x, y, area.width, false, &line, theme.warn);
        }
        areas.is_too_small = true;
        return areas;
    }
    let (header, rest) = split_top(area, 1);
    let (footer, body) = split_bottom(rest, 1);
    chrome::header(buf, header, &d, now);
    draw_page(buf, body, &d, &mut areas);
    let list = app.offer_list();
    chrome::toasts(buf, palette::above(body, &list), &d, &areas);
    if let Some(dialog) = app.dialog() {
        cursor = dialog::draw(buf, body, &d, dialog, &mut areas);
    }
    palette::draw(buf, body, &d, &list, &mut areas);
    if let Some(column) = chrome::footer(buf, footer, &d, &mut areas) {
        cursor = Some((column, footer.y));
    }
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
    areas
}

fn draw_page(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, areas: &mut Areas) {
    match (d.app.view(), d.app.current()) {
        (View::Cluster(cluster_index), Some(cluster)) => {
            if let Some(page) = d.app.pages().cluster.get(*cluster_index) {
                draw_cluster(buf, area, d, (cluster, page), areas);
            }
        }
        (View::Log(cluster_index), Some(cluster)) => {
            let area = chrome::banner(buf, area, d, cluster);
            if let Some(page) = d.app.pages().cluster.get(*cluster_index) {
                areas.log = Some(log::draw(buf, area, d, (cluster, page), true));
            }
        }
        (View::JobWorkers(cluster_index), Some(cluster)) => {
            let area = chrome::banner(buf, area, d, cluster);
            if let Some(page) = d.app.pages().job_workers.get(*cluster_index) {
                job_workers::draw(buf, area, d, (cluster, page), areas);
            }
        }
        (View::Tpus(cluster_index), Some(cluster)) => {
            if let Some(page) = d.app.pages().tpus.get(*cluster_index) {
                let (rows, types_last) = tpus::draw(buf, area, d, cluster, page);
                (areas.table, areas.tpu_types_last) = (Some(rows), types_last);
            }
        }
        (View::Slice(cluster_index, hosts), Some(cluster)) => {
            if let Some(page) = &d.app.pages().slice {
                areas.table = Some(slice::draw(buf, area, d, (cluster, *cluster_index, hosts), page));
            }
        }
        (View::Operation(cluster_index), Some(cluster)) => {
            if let Some(page) = d.app.pages().cluster.get(*cluster_index) {
                operation::draw(buf, area, d, (cluster, page), areas);
            }
        }
        (View::Details(page), _) => details::draw(buf, area, d, page, areas),
        (View::Clusters, _) => areas.table = Some(fleet::draw(buf, area, d)),
        _ => areas.table = d.app.listing().map(|listing| table::page(buf, area, d, listing)),
    }
}

fn draw_cluster(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, cluster: Shown<'_>, areas: &mut Areas) {
    let area = chrome::banner(buf, area, d, cluster.0);
    if d.app.is_zoomed() {
        return draw_pane(buf, area, d, cluster, d.app.pane(), areas);
    }
    if area.width >= MIN_WIDTH_OF_FOUR_PANES && area.height >= 16 {
        let panes = d.app.panes();
        let (left, upper) = (panes.left_of(area.width), panes.upper_of(area.height));
        areas.seams = Some(seams(area, Some(left), upper));
        let (top, bottom) = split_top(area, upper);
        let halves =
            |r: Rect| (Rect { width: left, ..r }, Rect { x: r.x + left, width: r.width - left, ..r });
        let ((nodes, scaler), (jobs, log)) = (halves(top), halves(bottom));
        for (pane, area) in
            [(Pane::Nodes, nodes), (Pane::Autoscaler, scaler), (Pane::Jobs, jobs), (Pane::Log, log)]
        {
            draw_pane(buf, area, d, cluster, pane, areas);
        }
        return;
    }
    let (tabs, area) = split_top(area, 1);
    areas.tabs = chrome::tabs(buf, tabs, d, cluster);
    let pane = d.app.pane();
    if pane == Pane::Log || area.height < 14 {
        return draw_pane(buf, area, d, cluster, pane, areas);
    }
    let (lower, upper) = split_bottom(area, d.app.panes().log_of(area.height));
    areas.seams = Some(seams(area, None, upper.height));
    draw_pane(buf, upper, d, cluster, pane, areas);
    draw_pane(buf, lower, d, cluster, Pane::Log, areas);
}

/// The borders between panes, for these sizes of the left and upper ones.
fn seams(area: Rect, left: Option<u16>, upper: u16) -> PaneBorders {
    let Rect { x, y, width, height } = area;
    PaneBorders { area: Area { x, y, width, height }, right: left.map(|left| x + left), lower: y + upper }
}

fn draw_pane(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    cluster: Shown<'_>,
    pane: Pane,
    areas: &mut Areas,
) {
    match pane {
        Pane::Nodes => {
            let listing = cluster.1.listing(pane).unwrap_or(&cluster.1.nodes);
            areas.nodes = Some(table::in_pane(buf, area, d, listing, (1, pane)));
        }
        Pane::Jobs => areas.jobs = Some(table::in_pane(buf, area, d, &cluster.1.jobs, (2, pane))),
        Pane::Log => areas.log = Some(log::draw(buf, area, d, cluster, false)),
        Pane::Autoscaler => {
            let (area, last) = autoscaler::draw(buf, area, d, cluster);
            (areas.autoscaler, areas.autoscaler_last) = (Some(area), last);
        }
    }
}
