//! Events in, state and effects out: keys, the mouse and events, without a terminal and without a cluster.

mod columns;
mod consent;
mod copy;
mod feed;
mod fixes;
mod fleet;
mod form;
mod freeze;
mod inspect;
mod issues;
mod job_workers;
mod jobs;
mod keys;
mod login;
mod mouse;
mod operate;
mod palette;
mod screen;
mod searches;
mod slices;
mod stacks;
mod tpus;
mod typing;
mod workers;

use crate::sample::*;
use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use marin_tui::app::pages::{ALL_JOBS, ALL_NODES};
use marin_tui::app::{
    App, Area, ClusterPage, Context, Dialog, Effect, Event, Listing, Outcome, Pane, Sum, TablePage, Target,
    View, actions,
};
use marin_tui::model::*;
use marin_tui::ui::{Colors, Theme, draw};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: &str = "marin-us-central2";
/// In the order of the jobs pane: jobs that have not ended first, newest first.
const JOBS: [&str; 6] = [
    "eval-tulu-99",
    "tokenize-fineweb-a28167",
    "04000000",
    "ray-run-alice-exp1395_qwen3_32b-4f1c",
    "dclm-run-02",
    "exp600_tootsie-77a1",
];

/// Draws a frame as the event loop does; returns the effects of drawing, and the footer.
fn paint(app: &mut App, width: u16, height: u16) -> (Vec<Effect>, String) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut areas = None;
    terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
    let effects = app.drawn(areas.unwrap());
    let buffer = terminal.backend().buffer();
    let footer = (0..width).map(|x| buffer[(x, height - 1)].symbol()).collect();
    (effects, footer)
}

fn footer(app: &mut App) -> String {
    paint(app, 200, 60).1
}

/// The focused table of a page of all clusters.
fn table<'a>(app: &'a App, page: &'static TablePage) -> &'a dyn Listing {
    app.pages().across(page).and_then(|page| page.listing(app.pane())).unwrap()
}

fn page(app: &App) -> &ClusterPage {
    &app.pages().cluster[app.view().cluster_index().unwrap()]
}

fn selected(app: &App) -> Option<String> {
    page(app).jobs.selected(app.fleet()).map(|row| row.job.key.to_string())
}

/// The key of each row of a table, from first to last.
fn keys(app: &App, listing: &dyn Listing) -> Vec<String> {
    let word = |target| match target {
        Target::Cluster(cluster_index) => app.clusters()[cluster_index].name().to_string(),
        Target::Broken(_) => "broken".to_owned(),
        Target::Node(cluster_index, id) => app.clusters()[cluster_index].node(&id).unwrap().name.to_string(),
        Target::Job(_, key) => key.to_string(),
        Target::Tpu(_, name) => name.to_string(),
        Target::Hosts(_, key) => key.name.to_string(),
        Target::Stacks(..) | Target::Chips(..) | Target::Messages => unreachable!("not the target of a row"),
    };
    (0..listing.len()).map(|p| word(listing.target_at(app.fleet(), p).unwrap())).collect()
}

fn rows(app: &App) -> Vec<String> {
    keys(app, &page(app).jobs)
}

/// The lines of the details page on the screen.
fn details(app: &App) -> Vec<(String, String)> {
    let View::Details(page) = app.view() else { panic!("{:?}", app.view()) };
    marin_tui::app::text::details::lines(&app.cell_context(NOW), page).1
}

fn asks(request: Request) -> Effect {
    Effect::Ask(ClusterName::new(CLUSTER), request)
}

/// The order that the dialog gives to start a task, once it was confirmed and allowed for jobs of these people.
fn begins(task: Task, others: Others) -> Order {
    let confirmed = match task {
        Task::Restart { .. } | Task::Stop => Confirmed::Typed(CLUSTER.into()),
        _ => Confirmed::Yes,
    };
    let now = !task.kind().is_of_cluster();
    Order::Begin(task, Consent { others, now, confirmed, ..Consent::default() })
}

/// The consent of an operator who resumes the restart on the screen.
fn consent() -> Consent {
    Consent { expected_kind: Some(OperationKind::Restart), ..Consent::default() }
}

fn id(name: &str) -> SubmissionId {
    SubmissionId(name.into())
}

/// The latest message, including answers that the list of messages does not keep.
fn said(app: &App) -> &str {
    let shown = app.toasts().shown().last();
    &shown.or_else(|| app.toasts().messages().next()).unwrap().text
}

fn point(app: &mut App, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    app.update(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), NOW)
}

const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

/// The areas of the screen, from a drawn frame.
fn areas(app: &App, width: u16, height: u16) -> marin_tui::app::Areas {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut areas = None;
    terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
    areas.unwrap()
}

fn jobs_snapshot(ids: &[u8]) -> Snapshot {
    let jobs = ids.iter().map(|n| {
        Arc::new(job(&format!("job-{n}"), JobStatus::Running, ["alice", "bo"][usize::from(n % 2)], 60))
    });
    Snapshot { jobs: Arc::new(jobs.collect()), ..snapshot() }
}

fn asks_focus(name: &str) -> Effect {
    Effect::Ask(ClusterName::new(name), Request::Focus(true))
}
