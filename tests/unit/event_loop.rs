//! The production event loop, with simulated key presses and a terminal in memory: a flood of events delays no key,
//! and needs few frames.

use crate::sample;
use crossterm::event::{Event as Input, KeyCode, KeyEvent};
use futures_util::Stream;
use marin_tui::app::{Effect, Entered, Event, Outcome, View};
use marin_tui::config::{Env, Folders, Settings, TypedLines};
use marin_tui::model::*;
use marin_tui::state::{ClusterState, Update};
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token;
use marin_tui::tui::{Exit, Inputs, Multiplexer, Performer, TerminalEnv, event_loop, meanwhile};
use marin_tui::ui::{Colors, Theme};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

const CLUSTER: &str = "marin-us-central2";
const DEADLINE: Duration = Duration::from_secs(30);
const SIZE: (u16, u16) = (160, 50);

/// Every draw begins with this, whether it changes a cell or not: the loop never shows a cursor here.
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";

/// The output of the loop so far.
#[derive(Clone)]
struct Seen(Arc<Mutex<(vt100::Parser, usize)>>);

impl Seen {
    fn new() -> Self {
        let (cols, rows) = (NonZero::new(SIZE.0).unwrap(), NonZero::new(SIZE.1).unwrap());
        Self(Arc::new(Mutex::new((vt100::Parser::new(rows, cols, 0), 0))))
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().0.screen().contents()
    }

    /// The number of frames drawn.
    fn frames(&self) -> usize {
        self.0.lock().unwrap().1
    }

    async fn wait(&self, needle: &str) {
        let end = Instant::now() + DEADLINE;
        while !self.text().contains(needle) {
            assert!(Instant::now() < end, "no {needle}; the screen:\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A frame is held back until it is complete, like in the buffer of the real terminal.
struct Screen {
    seen: Seen,
    frame: Vec<u8>,
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut seen = self.seen.0.lock().unwrap();
        seen.1 += self.frame.windows(HIDE_CURSOR.len()).filter(|bytes| *bytes == HIDE_CURSOR).count();
        seen.0.process(&std::mem::take(&mut self.frame));
        Ok(())
    }
}

/// A running event loop.
struct Console {
    keys: mpsc::UnboundedSender<Input>,
    updates: mpsc::Sender<Update>,
    quit: oneshot::Sender<()>,
    seen: Seen,
    stream: StreamId,
    state: Arc<ClusterState>,
    done: tokio::task::JoinHandle<Exit>,
}

impl Console {
    /// No cluster is connected: the tests send the events.
    fn start(home: &std::path::Path) -> Self {
        Self::start_with(home, Vec::new(), token::TokenSources::default())
    }

    fn start_with(home: &std::path::Path, clusters: Vec<ClusterSpec>, tokens: token::TokenSources) -> Self {
        let env = Env::new(&[("HOME", home.to_str().unwrap())], home);
        let options = Options::new(&Settings::default(), &Folders::new(&env), tokens);
        let (updates, mut receiver) = mpsc::channel(256);
        let (keys, mut pressed) = mpsc::unbounded_channel();
        let (quit, quits) = oneshot::channel::<()>();
        let seen = Seen::new();
        let mut app = sample::shown();
        let stream = app.log().unwrap().stream();
        let state = Arc::clone(app.clusters()[0].state());
        let screen = Screen { seen: seen.clone(), frame: Vec::new() };
        let supervisor = Supervisor::start(clusters, options, &updates);
        let done = tokio::spawn(async move {
            let viewport = Viewport::Fixed(Rect::new(0, 0, SIZE.0, SIZE.1));
            let backend = CrosstermBackend::new(screen);
            let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport }).unwrap();
            let terminal_env = TerminalEnv { remote: true, multiplexer: Multiplexer::None };
            let mut performer = Performer::new(supervisor, terminal_env);
            let keys: std::pin::Pin<Box<dyn Stream<Item = io::Result<Input>> + Send>> =
                Box::pin(futures_util::stream::poll_fn(move |cx| {
                    pressed.poll_recv(cx).map(|key| key.map(Ok))
                }));
            let quit = Box::pin(async move { drop(quits.await) });
            let mut inputs = Inputs { keys, quit, updates: &mut receiver };
            let (_themes, mut theme) = watch::channel(Theme::new(Colors::Full));
            let exit =
                event_loop(&mut terminal, &mut app, &mut theme, &mut performer, &mut inputs).await.unwrap();
            performer.shutdown().await;
            assert_eq!(app.view().clone(), View::Cluster(0));
            exit
        });
        Self { keys, updates, quit, seen, stream, state, done }
    }

    fn press(&self, key: char) {
        self.keys.send(Input::Key(KeyEvent::from(KeyCode::Char(key)))).unwrap();
    }

    async fn line(&self, line: String) {
        let batch = LogBatch { stream: self.stream, part: vec![Line::from(line)].into(), end: LogEnd::Open };
        self.send(ClusterEvent::Log(batch)).await;
    }

    async fn send(&self, event: ClusterEvent) {
        let state = Arc::clone(&self.state);
        let update = Update { cluster: ClusterName::new(CLUSTER), event, state };
        self.updates.send(update).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_handled_during_a_flood_of_events() {
    let home = tempfile::tempdir().unwrap();
    let console = Console::start(home.path());
    console.seen.wait("eval-tulu-99").await;
    console.press('?');
    let flood = async {
        for n in 0_u64.. {
            console.line(format!("line {n}")).await;
        }
    };
    tokio::select! {
        () = flood => {}
        () = console.seen.wait("(stop-job)") => {}
    }
    console.press('q');
    console.press('q');
    let exit = tokio::time::timeout(DEADLINE, console.done).await.unwrap().unwrap();
    assert!(matches!(exit, Exit::Quit));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_events_does_not_exceed_the_frame_rate() {
    const LINES: u128 = 20_000;
    let home = tempfile::tempdir().unwrap();
    let console = Console::start(home.path());
    console.seen.wait("eval-tulu-99").await;
    let (before, began) = (console.seen.frames(), Instant::now());
    for n in 0..LINES {
        console.line(format!("line {n}")).await;
    }
    console.seen.wait("line 19999").await;
    let frames = (console.seen.frames() - before) as u128;
    let most = began.elapsed().as_millis() / 16 + 2;
    assert!(frames >= 1 && frames <= most, "{frames} frames, at most {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_without_changes_draw_nothing() {
    const EVENTS: u64 = 50;
    let home = tempfile::tempdir().unwrap();
    let console = Console::start(home.path());
    console.seen.wait("eval-tulu-99").await;
    console.line("first".into()).await;
    console.seen.wait("first").await;
    let (before, began) = (console.seen.frames(), Instant::now());
    for _ in 0..EVENTS {
        console.send(ClusterEvent::Cost(Cost::default())).await;
        // Long enough for a separate frame.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let frames = console.seen.frames() - before;
    // Texts with an age change once a second.
    let most = began.elapsed().as_secs() + 1;
    assert!(frames as u64 <= most && most < EVENTS, "{frames} frames, at most {most}");
    console.line("the very end".into()).await;
    console.seen.wait("the very end").await;
    assert!(console.seen.frames() - before > frames, "the frames are counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_and_a_closed_input_end_the_loop() {
    let home = tempfile::tempdir().unwrap();
    let console = Console::start(home.path());
    console.seen.wait("eval-tulu-99").await;
    console.quit.send(()).unwrap();
    assert!(matches!(tokio::time::timeout(DEADLINE, console.done).await.unwrap().unwrap(), Exit::Quit));
    let console = Console::start(home.path());
    drop(console.keys);
    assert!(matches!(tokio::time::timeout(DEADLINE, console.done).await.unwrap().unwrap(), Exit::Quit));
}

/// The tasks of clusters do not block while an SSH session is open.
#[tokio::test]
async fn events_are_processed_while_another_program_has_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
    let options = Options::new(&Settings::default(), &Folders::new(&env), token::TokenSources::default());
    let (updates, mut receiver) = mpsc::channel(4);
    let supervisor = Supervisor::start(Vec::new(), options, &updates);
    let terminal_env = TerminalEnv { remote: true, multiplexer: Multiplexer::None };
    let mut performer = Performer::new(supervisor, terminal_env);
    let mut app = sample::shown();
    let stream = app.log().unwrap().stream();
    let state = Arc::clone(app.clusters()[0].state());
    let send_all = async {
        for number in 0..100 {
            let batch = LogBatch {
                stream,
                part: vec![Line::from(format!("line {number}"))].into(),
                end: LogEnd::Open,
            };
            let state = Arc::clone(&state);
            let update =
                Update { cluster: ClusterName::new(CLUSTER), event: ClusterEvent::Log(batch), state };
            updates.send(update).await.unwrap();
        }
        "ssh exited"
    };
    let ended = meanwhile(send_all, &mut app, &mut performer, &mut receiver);
    assert_eq!(tokio::time::timeout(DEADLINE, ended).await.unwrap(), "ssh exited");
    performer.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_file_that_is_a_pipe_is_refused_and_does_not_block_keys() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("token");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let token_sources =
        token::TokenSources { path_variable: Some(pipe.clone()), ..token::TokenSources::default() };
    let nowhere = HeadAddress::Direct { dashboard: "http://127.0.0.1:9".into(), gcs: None };
    let spec = ClusterSpec { head: nowhere, ..sample::spec(CLUSTER) };
    let console = Console::start_with(home.path(), vec![spec], token_sources);
    console.seen.wait("eval-tulu-99").await;
    console.press('t');
    console.seen.wait("it is not a regular").await;
    console.press('?');
    console.seen.wait("(stop-job)").await;
    console.press('q');
    console.press('q');
    let exit = tokio::time::timeout(DEADLINE, console.done).await.unwrap().unwrap();
    assert!(matches!(exit, Exit::Quit));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_replaces_a_copied_token_only_on_the_second_request() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("token");
    std::fs::write(&file, "0123456789abcdef").unwrap();
    let token_sources = token::TokenSources { path_variable: Some(file), ..token::TokenSources::default() };
    let nowhere = HeadAddress::Direct { dashboard: "http://127.0.0.1:9".into(), gcs: None };
    let spec = ClusterSpec { head: nowhere, ..sample::spec(CLUSTER) };
    let console = Console::start_with(home.path(), vec![spec], token_sources);
    console.seen.wait("eval-tulu-99").await;
    for (key, message) in [('t', "copied token"), ('o', "to replace it"), ('o', "instead")] {
        console.press(key);
        console.seen.wait(message).await;
    }
    console.press('q');
    let exit = tokio::time::timeout(DEADLINE, console.done).await.unwrap().unwrap();
    assert!(matches!(exit, Exit::Quit));
}

#[tokio::test]
async fn typed_lines_are_written_before_the_console_quits_and_a_failure_is_reported_once() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
    let typed = TypedLines::new(home.path());
    let performer = || {
        let options = Options::new(&Settings::default(), &Folders::new(&env), token::TokenSources::default());
        let supervisor = Supervisor::start(Vec::new(), options, &mpsc::channel(1).0);
        let terminal_env = TerminalEnv { remote: true, multiplexer: Multiplexer::None };
        Performer::new(supervisor, terminal_env).saving(Some(typed.clone()))
    };
    let mut writes = performer();
    for text in ["dara", "alice"] {
        writes.perform(Effect::Save(Entered::Filter, text.to_owned()));
    }
    writes.shutdown().await;
    let kept: Vec<String> = typed.read().unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(kept, ["dara", "alice"]);
    std::fs::remove_file(typed.path()).unwrap();
    std::fs::create_dir(typed.path()).unwrap();
    let mut fails = performer();
    for text in ["dara", "alice"] {
        fails.perform(Effect::Save(Entered::Filter, text.to_owned()));
    }
    let event = tokio::time::timeout(DEADLINE, fails.done()).await.unwrap();
    assert!(
        matches!(&event, Event::Done(Outcome::Failed(why)) if why.contains("cannot save the input history")),
        "{event:?}"
    );
    fails.shutdown().await;
}
