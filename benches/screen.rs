//! The screen with 1,024 nodes and 10,000 jobs: applying a snapshot, handling a key, drawing a frame. Also a fleet of
//! 14 clusters with 1,024 nodes and 1,000 jobs each: the home page, opening the nodes and the jobs of all clusters,
//! filtering.

mod fleet;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fleet::Fleet;
use marin_tui::app::{App, Event, Keymap, Listed, actions};
use marin_tui::model::{
    ClusterEvent, ClusterName, ClusterSpec, GoogleNames, HeadAddress, HostName, Provider, Snapshot, SshAuth,
    Timestamp,
};
use marin_tui::state::{ClusterState, Update};
use marin_tui::ui::{Colors, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Runtime;

const NAME: &str = "marin-us-central2";
const SIZE: (u16, u16) = (200, 60);

/// Two snapshots of a cluster, five seconds apart, as the poller produces them.
fn snapshots(jobs: usize) -> [Arc<Snapshot>; 2] {
    Runtime::new().expect("a runtime").block_on(async {
        let fleet = Fleet::start(jobs).await;
        let mut poller = fleet.poller(true);
        let first = poller.refresh().await.expect("the head answers");
        (0..5).for_each(|_| fleet.tick());
        [first, poller.refresh().await.expect("the head answers")].map(Arc::new)
    })
}

/// A snapshot as the cluster's task sends it, with the state derived from the previous one.
fn event(app: &App, cluster: &str, snapshot: &Arc<Snapshot>) -> Event {
    let name = ClusterName::new(cluster);
    let before = app.fleet().named(&name).expect("a cluster of the list");
    let (mut state, event) = (ClusterState::clone(before.state()), ClusterEvent::Snapshot(snapshot.clone()));
    state.apply(&event);
    Event::Update(Update { cluster: name, event, state: Arc::new(state) })
}

fn spec(name: &str) -> ClusterSpec {
    let head = HeadAddress::Ssh(HostName::parse("10.128.0.1").expect("the address is valid"));
    ClusterSpec {
        name: ClusterName::new(name),
        file: None,
        accepted: None,
        provider: Provider::None,
        zone: None,
        head,
        auth: SshAuth::default(),
        node_types: Vec::new(),
        max_workers: None,
        google: GoogleNames::default(),
    }
}

fn keymap() -> Keymap {
    Keymap::with_changes(actions(), &BTreeMap::new()).expect("the default keymap is valid")
}

fn app() -> App {
    let mut app = App::new(vec![Listed::Cluster(spec(NAME))], keymap());
    app.start(None);
    app
}

fn press(app: &mut App, key: char, now: Timestamp) {
    app.update(Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)), now);
}

fn frame(app: &mut App, terminal: &mut Terminal<TestBackend>, theme: &Theme, now: Timestamp) {
    let mut areas = None;
    // A test backend writes to memory and cannot fail.
    let _ = terminal.draw(|f| areas = Some(draw(f, app, theme, now)));
    app.drawn(areas.expect("the frame was drawn"));
}

fn bench(c: &mut Criterion) {
    let [first, second] = snapshots(10_000);
    let (now, theme) = (second.taken, Theme::new(Colors::Full));
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("a terminal in memory");
    let mut group = c.benchmark_group("1,024 nodes, 10,000 jobs");

    let known = || {
        let mut app = app();
        let first = event(&app, NAME, &first);
        app.update(first, now);
        app
    };
    let with = |app: App, snapshot| (event(&app, NAME, snapshot), app);
    let take = |(event, mut app): (Event, App)| {
        app.update(event, now);
        app
    };
    group.bench_function("first snapshot", |b| {
        b.iter_batched(|| with(app(), &first), take, BatchSize::LargeInput);
    });
    group.bench_function("next snapshot", |b| {
        b.iter_batched(|| with(known(), &second), take, BatchSize::LargeInput);
    });

    let mut app = known();
    frame(&mut app, &mut terminal, &theme, now);
    group.bench_function("frame at 200x60", |b| b.iter(|| frame(&mut app, &mut terminal, &theme, now)));

    let mut keys = ['j', 'k'].into_iter().cycle();
    group.bench_function("key and frame", |b| {
        b.iter(|| {
            press(&mut app, keys.next().expect("a cycle has no end"), now);
            frame(&mut app, &mut terminal, &theme, now);
        });
    });
    group.finish();
}

fn bench_fleet(c: &mut Criterion) {
    let [first, second] = snapshots(1_000);
    let (now, theme) = (second.taken, Theme::new(Colors::Full));
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).expect("a terminal in memory");
    let names: Vec<String> = (0..14).map(|n| format!("marin-cluster-{n}")).collect();
    let mut app = App::new(names.iter().map(|n| Listed::Cluster(spec(n))).collect(), keymap());
    for name in &names {
        let first = event(&app, name, &first);
        app.update(first, now);
    }
    let mut group = c.benchmark_group("14 clusters of 1,024 nodes, 1,000 jobs");
    frame(&mut app, &mut terminal, &theme, now);
    group.bench_function("home at 200x60", |b| b.iter(|| frame(&mut app, &mut terminal, &theme, now)));
    for (key, what) in [('N', "nodes"), ('J', "jobs")] {
        group.bench_function(format!("open {what} of all and draw"), |b| {
            b.iter(|| {
                press(&mut app, key, now);
                frame(&mut app, &mut terminal, &theme, now);
            });
        });
        group.bench_function(format!("type a filter over {what} of all and draw"), |b| {
            b.iter(|| {
                "/e5x".chars().for_each(|c| press(&mut app, c, now));
                frame(&mut app, &mut terminal, &theme, now);
                app.update(Event::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), now);
            });
        });
    }
    let mut both = [&second, &first].into_iter().cycle();
    group.bench_function("next snapshot under the jobs of all", |b| {
        b.iter(|| {
            let next = event(&app, &names[7], both.next().expect("a cycle has no end"));
            app.update(next, now)
        });
    });
    group.finish();
}

criterion_group!(benches, bench, bench_fleet);
criterion_main!(benches);
