//! The frame around the panes: header, banner, tabs, footer, toasts.

use super::frame::{Title, clear, pane};
use super::grid::{cut, cut_middle, put};
use super::part::{DrawContext, Shown};
use super::{autoscaler, log, prompt, sentence};
use crate::app::action::list::label_in;
use crate::app::operation::confirmation::Control;
use crate::app::pages::issues;
use crate::app::text::labels;
use crate::app::{
    Action, App, Area, Areas, Cluster, Context, Dialog, MessageKind, OperationProgress, Page, Pane, Target,
    View,
};
use crate::diagnose::FindingKind;
use crate::model::amount::{bytes, counted, grouped};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{JobStatus, Link, SnapshotPart, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// The current view on the left; on the right the state of the connection and the age of the data, which are never
/// dropped. On a frozen screen, its own age replaces that of the data.
pub fn header(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, now: Timestamp) {
    let here = d.app.current();
    let crumbs = crumbs(d.app);
    let crumb_index =
        here.and_then(|cluster| crumbs.iter().rposition(|crumb| crumb == cluster.name().as_str()));
    let way = crumbs.join(" › ").width();
    let mut parts = here.map_or_else(|| fleet_parts(d), |cluster| cluster_parts(cluster, area.width, d));
    if let Some(since) = d.app.frozen_since() {
        let text = format!(
            "FROZEN {}, {} for live",
            labels::minutes(since.age(now)),
            d.app.keymap().key_of(Action::Freeze)
        );
        parts.push((text, d.theme.warn.add_modifier(Modifier::BOLD)));
    } else {
        parts.extend(here.map_or_else(|| oldest_age(d), |cluster| Some(data_age(cluster, d))));
    }
    // Parts are dropped from the left, where the less important ones are.
    let room = usize::from(area.width.saturating_sub(2));
    while parts.len() > 2 && width_of(&parts) + way + 2 > room {
        parts.remove(1);
    }
    // Next, the state of the connection drops its details in favor of the cluster's name.
    let name = crumb_index.map_or(0, |index| crumbs[index].width());
    let free = room.saturating_sub(width_of(&parts));
    if let Some((state, details)) = parts[0].0.split_once(',')
        && (free..=free + details.width()).contains(&name)
    {
        let end = state.len();
        parts[0].0.truncate(end);
    }
    let spans: Vec<Span> =
        parts.iter().flat_map(|(t, s)| [Span::raw("  "), Span::styled(t.as_str(), *s)]).collect();
    let left = u16::try_from(room.saturating_sub(width_of(&parts))).unwrap_or(0);
    let way = self::way(&crumbs, crumb_index, left.into());
    put(buf, area.x + 1, area.y, left, false, &way, d.theme.text.add_modifier(Modifier::BOLD));
    let at = area.x + 1 + left;
    buf.set_line(at, area.y, &Line::from(spans), area.right().saturating_sub(at));
}

/// The width of the right side of the header, with two spaces before each part.
fn width_of(parts: &[(String, Style)]) -> usize {
    parts.iter().map(|(text, _)| text.width() + 2).sum()
}

/// The right side of the header on a page of a cluster, without the age of the data.
fn cluster_parts(cluster: &Cluster, width: u16, d: &DrawContext<'_>) -> Vec<(String, Style)> {
    let mut parts = vec![d.styled(labels::link(cluster, d.now))];
    if !cluster.snapshot.ray_version.is_empty() {
        parts.push((format!("Ray {}", cluster.snapshot.ray_version), d.theme.dim));
    }
    parts.extend(token(cluster, d));
    if cluster.is_up() && !cluster.ports.is_empty() {
        let ports: Vec<_> = cluster.ports.values().map(u16::to_string).collect();
        parts.push((format!("local ports {}", ports.join(" ")), d.theme.dim));
    }
    if let Some(Link::Up { gcs: false, .. }) = cluster.link {
        parts.push(("over HTTP".into(), d.theme.dim));
    }
    if width >= 140 {
        let cost = cluster.cost;
        let text =
            format!("{} req/min {}/min", cost.requests_per_minute, bytes(cost.bytes_per_minute as f64));
        parts.push((text, d.theme.dim));
    }
    parts.extend(read_only(d));
    parts
}

/// The age of the data of a cluster.
fn data_age(cluster: &Cluster, d: &DrawContext<'_>) -> (String, Style) {
    let tone = if cluster.is_stale(d.now) { d.theme.warn } else { d.theme.dim };
    match cluster.age(d.now) {
        Some(age) => (format!("data {} old", labels::age(Some(age), d.app.fresh())), tone),
        None => ("no data".to_owned(), tone),
    }
}

/// The right side of the header on a page of the fleet, without the age of the data.
fn fleet_parts(d: &DrawContext<'_>) -> Vec<(String, Style)> {
    let up = d.app.clusters().iter().filter(|c| c.is_up()).count();
    let mut parts = vec![(format!("{up} of {} up", d.app.clusters().len()), d.theme.dim)];
    parts.extend(read_only(d));
    parts
}

/// The age of the oldest data in a table of all clusters.
fn oldest_age(d: &DrawContext<'_>) -> Option<(String, Style)> {
    let is_table = matches!(d.app.view(), View::Table(_));
    let oldest = d.app.clusters().iter().filter_map(|c| c.age(d.now)).max().filter(|_| is_table)?;
    let tone = if oldest >= d.app.fresh() { d.theme.warn } else { d.theme.dim };
    Some((format!("oldest data {}", labels::age(Some(oldest), d.app.fresh())), tone))
}

/// The mark of read-only mode. Only the age comes after it, so that it is dropped after all other parts.
fn read_only(d: &DrawContext<'_>) -> Option<(String, Style)> {
    d.app.is_read_only().then(|| ("read-only".to_owned(), d.theme.accent))
}

/// The path to the page on the screen: `fleet › us-central2 › job raysubmit_4f1c`. If there is no room, its beginning
/// is cut: `… › us-central2 › job raysubmit_4f1c`. The name of the cluster, which is at position `cluster`, is kept
/// longest.
fn way(crumbs: &[String], cluster: Option<usize>, room: usize) -> String {
    /// Minimum width of the page's name next to that of its cluster.
    const MIN_NAME_WIDTH: usize = 8;
    let from =
        |first: usize| format!("{}{}", if first > 0 { "… › " } else { "" }, crumbs[first..].join(" › "));
    let firsts = 0..=cluster.unwrap_or_else(|| crumbs.len().saturating_sub(1));
    if let Some(way) = firsts.map(from).find(|way| way.width() <= room) {
        return way;
    }
    let Some(cluster) = cluster else { return cut(&from(crumbs.len().saturating_sub(1)), room).into_owned() };
    let name = &crumbs[cluster];
    let beside = room.saturating_sub(name.width() + " › ".width());
    match crumbs.last().filter(|_| cluster + 1 < crumbs.len() && beside >= MIN_NAME_WIDTH) {
        // Ids of jobs and names of hosts differ at their ends.
        Some(last) => format!("{name} › {}", cut_middle(last, beside)),
        None => cut_middle(name, room).into_owned(),
    }
}

/// The pages below the one on the screen, and that page.
fn crumbs(app: &App) -> Vec<String> {
    let mut crumbs = Vec::new();
    let mut named = None;
    for view in app.stack() {
        // A page that was not opened from its cluster's page names the cluster itself.
        let cluster = view
            .cluster_index()
            .filter(|cluster_index| named != Some(*cluster_index) && !matches!(view, View::Cluster(_)));
        crumbs.extend(cluster.map(|cluster_index| app.clusters()[cluster_index].name().to_string()));
        crumbs.push(view.crumb(app.fleet()));
        named = view.cluster_index().or(named);
    }
    crumbs
}

fn token(cluster: &Cluster, d: &DrawContext<'_>) -> Option<(String, Style)> {
    match cluster.link.as_ref()? {
        Link::Up { token_auth: true, .. } => Some(("token ok".into(), d.theme.dim)),
        Link::Up { token_auth: false, .. } => Some(("no token needed".into(), d.theme.dim)),
        _ => None,
    }
}

/// What is unavailable while the dashboard does not respond.
const WITHOUT_DASHBOARD: &str = "logs, job actions and machine metrics are not available";

/// The problems of the cluster, since when, with hints; draws nothing if there are none. Returns the rest of the area.
pub fn banner(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, cluster: &Cluster) -> Rect {
    let mut lines: Vec<(String, Style)> = Vec::new();
    let operating = cluster.operating();
    if let Some(running) = operating {
        let (glyph, tone) =
            if running.is_interrupted() { ("▲", d.theme.bad) } else { ("◐", d.theme.accent) };
        let what = running.step().map_or_else(String::new, |s| format!(": {}", s.what()));
        let more = format!("; {} shows it", d.app.keymap().key_of(Action::Progress));
        lines.push((format!("{glyph} {}{what}{more}", running.brief()), tone));
    }
    if let Some(lock) = cluster.locked_by_others() {
        let (since, key) =
            (labels::minutes(lock.since().age(d.now)), d.app.keymap().key_of(Action::Progress));
        let line = format!("◐ {} ({}, started {since} ago); {key} shows more", lock.brief(d.now), lock.who);
        lines.push((line, d.theme.accent));
    }
    if operating.is_some_and(OperationProgress::takes_down) && cluster.problem().is_some() {
        // The operation has stopped the cluster: a lost connection is no issue.
        let word = operating.map_or("", |running| running.operation.kind().label());
        lines.push((format!("  cluster is down during the {word} (expected)"), d.theme.dim));
    } else if let Some(problem) = cluster.problem() {
        let since = labels::minutes(problem.since.age(d.now));
        lines.push((format!("✕ {} (for {since})", problem.what), d.theme.bad));
        let hint = match &cluster.link {
            Some(Link::Retrying { .. } | Link::Connecting { .. }) if problem.hint.is_empty() => {
                format!("retrying automatically; {} reconnects now", d.app.keymap().key_of(Action::Reconnect))
            }
            _ => d.app.hint(&problem.hint),
        };
        lines.push((format!("  {hint}"), d.theme.text));
    } else {
        if let Some(problem) = cluster.silent_dashboard() {
            let since = labels::minutes(problem.since.age(d.now));
            let what =
                format!("! {} (for {since}); cluster state from the GCS; {WITHOUT_DASHBOARD}", problem.what);
            lines.push((what, d.theme.warn));
            lines.push((format!("  {}", d.app.hint(&problem.hint)), d.theme.text));
        }
        if let Some(restarted) = cluster.finding(FindingKind::Restarted) {
            let since = restarted
                .age(d.now)
                .map_or_else(String::new, |age| format!(" ({})", restarted.when(&labels::minutes(age))));
            let tone = d.theme.role(labels::severity(restarted.severity));
            lines.push((format!("! {}{since}", restarted.long), tone));
            if !restarted.hint.is_empty() {
                lines.push((format!("  {}", d.app.hint(&restarted.hint)), d.theme.text));
            }
        }
        let missing = cluster
            .snapshot
            .missing
            .iter()
            .map(|m| (format!("! {}", printable(&m.to_string())), d.theme.warn));
        lines.extend(missing);
    }
    sentence::above(buf, area, lines, d.theme)
}

/// The unit of the counts after the slices in their tab, if there is room.
const HOSTS: &str = " hosts";

/// The panes as tabs, each with its status in a few words. Returns their areas.
pub fn tabs(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, page): Shown<'_>,
) -> Vec<(Pane, Area)> {
    let (_, _, lost) = cluster.node_counts();
    let known = |part, counts: String| if cluster.knows(part) { counts } else { "?".to_owned() };
    let nodes = match page.listing(Pane::Nodes).filter(|_| page.is_by_slice()) {
        Some(slices) => {
            // Joining and lost nodes are hosts.
            let unhealthy = labels::unhealthy_nodes(cluster);
            let hosts = if unhealthy.is_empty() { "" } else { HOSTS };
            let counts = format!("{}{unhealthy}{hosts}", grouped(cluster.slices()));
            format!("1 {} {}", slices.title(), known(SnapshotPart::Nodes, counts))
        }
        None => format!("1 Nodes {}", known(SnapshotPart::Nodes, labels::node_counts(cluster))),
    };
    let jobs = format!("2 Jobs {}", known(SnapshotPart::Jobs, labels::job_counts(cluster, d.now)));
    let (scaler, tone) = autoscaler::summary(cluster, d);
    let scaler = format!("4 Autoscaler {scaler}");
    let log = format!("3 Log {}", log::summary(cluster, &page.log, d));
    // The log pane shows the log's name, so the tab drops it first.
    let have_room =
        |tabs: [&str; 4]| tabs.iter().map(|t| t.width() + 3).sum::<usize>() <= usize::from(area.width);
    let log = if have_room([&nodes, &jobs, &log, &scaler]) { log } else { "3 Log".to_owned() };
    let nodes = match nodes.strip_suffix(HOSTS) {
        Some(brief) if !have_room([&nodes, &jobs, &log, &scaler]) => brief.to_owned(),
        _ => nodes,
    };
    let tabs = [
        (Pane::Nodes, nodes, if lost > 0 { d.theme.bad } else { d.theme.dim }),
        (Pane::Jobs, jobs, d.theme.dim),
        (Pane::Log, log, d.theme.dim),
        (Pane::Autoscaler, scaler, tone),
    ];
    let mut spans: Vec<Span> = Vec::new();
    let mut areas = Vec::new();
    let mut x = area.x;
    for (pane, text, tone) in tabs {
        let style = if d.is_focused(pane) { d.theme.accent.add_modifier(Modifier::BOLD) } else { tone };
        let before = if spans.is_empty() { " " } else { " │ " };
        x = x.saturating_add(columns(before));
        let width = columns(&text).min(area.right().saturating_sub(x));
        areas.push((pane, Area { x, y: area.y, width, height: 1 }));
        x = x.saturating_add(width);
        spans.extend([Span::styled(before, d.theme.border), Span::styled(text, style)]);
    }
    buf.set_line(area.x, area.y, &Line::from(spans), area.width);
    areas
}

/// The width of a text.
fn columns(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// Draws the keys that are valid now, or the prompt, and records their areas. Returns the cursor's column in a prompt.
pub fn footer(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, areas: &mut Areas) -> Option<u16> {
    if let Some(column) = prompt::draw(buf, area, d) {
        return Some(column);
    }
    if !d.app.note().is_empty() {
        let width = area.width.saturating_sub(2);
        sentence::put(buf, (area.x + 1, area.y), width, d.app.note(), d.theme.warn, d.theme);
        return None;
    }
    let area = alerts(buf, area, d, areas);
    let mut x = area.x + 1;
    let hints: Vec<(Action, String, &str)> =
        hints(d).into_iter().map(|(action, label)| (action, d.app.keymap().key_of(action), label)).collect();
    // The last hint, help, is shown at any width.
    let reserve = hints.last().map_or(0, |(_, key, label)| key.width() + label.width() + 1);
    for (i, (action, key, label)) in hints.iter().enumerate() {
        let after = if i + 1 == hints.len() { 0 } else { reserve + 2 };
        let width = columns(key).saturating_add(1).saturating_add(columns(label));
        if usize::from(x.saturating_add(width)) + after > usize::from(area.right()) {
            continue;
        }
        buf.set_string(x, area.y, key, d.theme.accent);
        buf.set_string(x + columns(key) + 1, area.y, label, d.theme.dim);
        areas.hints.push((*action, Area { x, y: area.y, width, height: 1 }));
        x = x.saturating_add(width + 2);
    }
    None
}

/// The number of findings that need action, on the right; a click on it lists them. Returns the rest of the area.
fn alerts(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, areas: &mut Areas) -> Rect {
    let text = match d.app.fleet().alerts() {
        0 => return area,
        n => format!("⚑ {}", counted(n, "issue")),
    };
    let width = u16::try_from(text.width()).unwrap_or(0);
    if area.width < width + 30 {
        return area;
    }
    let x = area.right() - width - 1;
    put(buf, x, area.y, width, false, &text, d.theme.bad);
    if d.app.dialog().is_none() {
        areas.hints.push((issues::PAGE.action(), Area { x, y: area.y, width, height: 1 }));
    }
    Rect { width: area.width - width - 3, ..area }
}

/// Actions and labels, the most useful first, help (or the way out of a dialog) last.
fn hints(d: &DrawContext<'_>) -> Vec<(Action, &'static str)> {
    match d.app.context() {
        Context::Ask => vec![
            (Action::Open, "press button"),
            (Action::NextPane, "next button"),
            (Action::Accept, "confirm"),
            (Action::Back, "cancel"),
        ],
        Context::Form if matches!(d.app.dialog(), Some(Dialog::Form(form)) if form.scroll.is_possible()) => {
            vec![
                (Action::PageDown, "down"),
                (Action::PageUp, "up"),
                (Action::Open, pressed(d)),
                (Action::Back, "cancel"),
            ]
        }
        Context::Form => vec![
            (Action::Open, pressed(d)),
            (Action::PreviousPane, "previous field"),
            (Action::Back, "cancel"),
        ],
        // While the name is typed, space and letters belong to it.
        Context::Plan if matches!(d.app.dialog(), Some(Dialog::Plan(plan)) if plan.control == Control::Name) =>
        {
            vec![(Action::NextPane, "next field"), (Action::Open, "press"), (Action::Back, "cancel")]
        }
        Context::Plan => vec![
            (Action::NextPane, "next field"),
            (Action::Mark, "toggle option"),
            (Action::Open, "press"),
            (Action::Announce, "copy announcement"),
            (Action::Back, "cancel"),
        ],
        Context::Columns => vec![
            (Action::Mark, "show or hide"),
            (Action::Open, "keep"),
            (Action::MoveUp, "move up"),
            (Action::MoveDown, "move down"),
            (Action::Reset, "reset"),
            (Action::Back, "cancel"),
        ],
        Context::Text => {
            let is_help = matches!(d.app.dialog(), Some(Dialog::Text { pages: true, .. }));
            let manual = is_help.then_some((Action::Open, "manual"));
            let scroll = [
                (Action::Down, "down"),
                (Action::Up, "up"),
                (Action::Filter, "search"),
                (Action::Copy, "copy"),
            ];
            scroll.into_iter().chain(manual).chain([(Action::Back, "close")]).collect()
        }
        context => page_hints(d, context),
    }
}

/// The hints of a page, from the keymap.
fn page_hints(d: &DrawContext<'_>, context: Context) -> Vec<(Action, &'static str)> {
    let shown = d.app.keymap().hints(context).filter(|(a, _)| d.app.offers_action(*a) && *a != Action::Help);
    let labelled = shown.map(|(a, _)| (a, label(d, a, context))).filter(|(_, label)| !label.is_empty());
    let mut hints: Vec<_> = labelled.chain([(Action::Help, "help")]).collect();
    // While a connection is down, other hints are useless.
    let is_down = d.app.target_cluster().is_some_and(|cluster| cluster.problem().is_some());
    sort::by_key(&mut hints, |(action, _)| is_down && *action != Action::Reconnect);
    hints
}

/// The label of an action. An action that would open the page on the screen refreshes it; for a failed job, the page of
/// its workers begins with the root cause. The action that shows nodes by slice is labeled with what it switches to.
fn label(d: &DrawContext<'_>, action: Action, context: Context) -> &'static str {
    let shown = match d.app.view() {
        View::Details(page) => Some(&page.target),
        _ => None,
    };
    match (shown, action) {
        (Some(Target::Stacks(..)), Action::Stacks) | (Some(Target::Chips(..)), Action::Chips) => "refresh",
        (_, Action::Workers)
            if d.app.target_job().is_some_and(|(_, job)| job.status == JobStatus::Failed) =>
        {
            "root cause"
        }
        (_, Action::BySlice) if d.app.pages().is_by_slice() => "nodes",
        _ => label_in(action, context),
    }
}

/// The label of Enter in a form: it goes to the next field, or presses the focused button.
fn pressed(d: &DrawContext<'_>) -> &'static str {
    match d.app.dialog() {
        Some(Dialog::Form(form)) if form.button() == Some(true) => "submit",
        Some(Dialog::Worker(form)) if form.button() == Some(true) => "continue",
        Some(Dialog::Form(form)) if form.button().is_none() => "next field",
        Some(Dialog::Worker(form)) if form.button().is_none() => "next field",
        _ => "cancel",
    }
}

/// The screen row of the selected row, if a table or a page with rows that can be selected is on the screen.
fn selected_row(d: &DrawContext<'_>, areas: &Areas) -> Option<u16> {
    if let Some((drawn, area)) = areas.details_rows.as_ref().zip(areas.details) {
        return Some(area.y + u16::try_from(drawn.line? - drawn.top).ok()?);
    }
    let pane = matches!(d.app.view(), View::Cluster(_)).then(|| d.app.pane());
    let (listing, drawn) = (d.app.listing()?, areas.table_of(pane)?);
    let below = listing.cursor().checked_sub(listing.window(drawn.rows.height.into()))?;
    Some(drawn.rows.y + u16::try_from(below).ok().filter(|below| *below < drawn.rows.height)?)
}

/// Draws the messages above the footer on the right: the latest on the lower border of the page if it fits, where it
/// covers no row; the others above it, and above the selected row if they would cover it.
pub fn toasts(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, areas: &Areas) {
    let selected = selected_row(d, areas);
    let mut bottom = area.bottom();
    for toast in d.app.toasts().shown().iter().rev() {
        let (glyph, tone) = match toast.kind {
            MessageKind::Info => ("·", d.theme.accent),
            MessageKind::Good => ("✓", d.theme.good),
            MessageKind::Bad => ("✕", d.theme.bad),
        };
        let hint =
            if toast.kind == MessageKind::Bad { d.app.keymap().key_of(Action::Back) } else { String::new() };
        if bottom == area.bottom()
            && on_border(buf, area, d, (&format!("{glyph} {}", toast.text), &hint), tone)
        {
            bottom -= 1;
            continue;
        }
        let room = area.width.saturating_sub(4).min(76);
        // A service and its address stay on one line.
        let text = toast.text.replace(" 127.", "\u{a0}127.").replace(" http", "\u{a0}http");
        let lines = sentence::wrap(&format!("{glyph} {text}"), usize::from(room.saturating_sub(4)));
        let width = u16::try_from(lines.iter().map(|l| l.width()).max().unwrap_or(0)).unwrap_or(room) + 4;
        let height = u16::try_from(lines.len()).unwrap_or(1) + 2;
        let covers = |bottom: u16, y: u16| y < bottom && y + height >= bottom;
        if let Some(y) = selected.filter(|y| covers(bottom, *y) && *y >= area.y + height) {
            bottom = y;
        }
        if bottom < area.y + height {
            return;
        }
        bottom -= height;
        let frame = Rect {
            x: area.right().saturating_sub(width + 1),
            y: bottom,
            width: width.min(area.width),
            height,
        };
        clear(buf, frame);
        let style = d.theme;
        let inner =
            pane(buf, frame, style, &Title { left: "", right: &hint, tone: Some(tone), focused: false });
        for (y, line) in (inner.y..).zip(&lines) {
            sentence::put(buf, (inner.x, y), inner.width, line, tone, d.theme);
        }
    }
}

/// Writes a message, and the key that dismisses it, on the lower border of the page, as far right as its other texts
/// allow. Returns false if it does not fit there, or if the area ends in the middle of a page.
fn on_border(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (text, key): (&str, &str),
    tone: Style,
) -> bool {
    let last = area.bottom().saturating_sub(1);
    let is = |x: u16, symbol: &str| buf.cell((x, last)).is_some_and(|cell| cell.symbol() == symbol);
    if !is(area.x, "╰") || !is(area.right().saturating_sub(1), "╯") {
        return false;
    }
    let key = if key.is_empty() { String::new() } else { format!("─ {key} ") };
    let text = format!(" {text} ");
    let text_width = sentence::width(&text, d.theme);
    let Ok(width) = u16::try_from(text_width + key.width()) else { return false };
    // A piece of the border on each side separates the message from other texts; panes may meet below it.
    let is_free = |x: &u16| (x - 1..=x + width).all(|x| ["─", "╯", "╰"].iter().any(|piece| is(x, piece)));
    let Some(right) = area.right().checked_sub(width + 1) else { return false };
    let Some(x) = (area.x + 1..right).rev().find(is_free) else { return false };
    clear(buf, Rect { x, y: last, width, height: 1 });
    sentence::put(buf, (x, last), width, &text, tone, d.theme);
    let key_width = u16::try_from(key.width()).unwrap_or(width);
    put(buf, x + width - key_width, last, key_width, false, &key, tone);
    true
}

#[cfg(test)]
mod tests {
    use super::way;

    #[test]
    fn the_cluster_name_is_truncated_last() {
        let crumbs = ["fleet", "us-central2", "job raysubmit_4f1c"].map(str::to_owned);
        for (room, shown) in [
            (80, "fleet › us-central2 › job raysubmit_4f1c"),
            (38, "… › us-central2 › job raysubmit_4f1c"),
            (30, "us-central2 › job rays…it_4f1c"),
            (16, "us-central2"),
            (6, "us-…l2"),
        ] {
            assert_eq!(way(&crumbs, Some(1), room), shown);
        }
        assert_eq!(way(&["fleet".to_owned(), "messages".to_owned()], None, 12), "… › messages");
        assert_eq!(way(&["fleet".to_owned(), "messages".to_owned()], None, 8), "… › mes…");
    }
}
