//! Everything that needs a terminal: the loop, signals, the clipboard, the browser, a shell on a head.
//!
//! A key press is one call stack: input -> `App::update` -> effects -> draw. Events arrive through one bounded channel.
//! Handling a key press never waits: slow work runs outside the loop and returns as an event.

mod background;
mod clipboard;
mod files;
mod foreground;
mod input;
mod layout;
mod perform;
mod terminal;
mod typed;

pub use background::{Background, ThemeChoice};
pub use clipboard::{Copier, Multiplexer, ON_CLIPBOARD, TerminalEnv, terminal};
pub use input::{Inputs, QuitSignals, quit_signals};
use perform::Turn;
pub use perform::{Exit, Performer, start_browser};
pub use terminal::{Guard, Screen, terminal_width};

use crate::app::{App, Effect, Event, Outcome};
use crate::config::{self, TypedLines};
use crate::model::Timestamp;
use crate::operation::Environment;
use crate::state::Update;
use crate::supervisor::Supervisor;
use crate::ui::{self, Theme};
use futures_util::{Stream, StreamExt};
use input::SignalRequest;
use ratatui::Terminal;
use ratatui::backend::Backend;
use rustix::io::Errno;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Minimum interval between frames that are drawn because of events only. After a key, a frame is drawn at once.
const FRAME: Duration = Duration::from_millis(16);
/// Maximum number of events handled before the next key is read.
const BATCH: usize = 32;

/// Runs the console on the real terminal until it is quit.
pub async fn run(
    app: &mut App,
    first: Vec<Effect>,
    choice: &ThemeChoice,
    (supervisor, environment, typed): (Supervisor, Environment, Option<TypedLines>),
    mut updates: mpsc::Receiver<Update>,
    mouse: bool,
) -> io::Result<()> {
    let mut signals = QuitSignals::listen()?;
    let mut performer = Performer::new(supervisor, TerminalEnv::detect(|name| std::env::var(name).ok()));
    performer =
        performer.keeping(config::layout_file(&environment.state)).operating(environment).saving(typed);
    performer.perform_all(first);
    let (themes, mut theme) = watch::channel(choice.on(choice.guess));
    let mut asks = choice.asks;
    loop {
        let mut request = SignalRequest::Quit;
        let exit = {
            let mut guard = terminal::Guard::take(mouse)?;
            let quit = pin!(async { request = signals.received().await });
            let asks = std::mem::take(&mut asks);
            let (choice, themes) = (*choice, themes.clone());
            let keys = input::Keys::read(asks, move |background| _ = themes.send(choice.on(background)))?;
            if asks {
                guard.ask(background::QUESTION)?;
                let _ = tokio::time::timeout(background::ANSWER_TIMEOUT, theme.changed()).await;
            }
            let mut inputs = Inputs { keys, quit, updates: &mut updates };
            match event_loop(guard.screen()?, app, &mut theme, &mut performer, &mut inputs).await {
                // The window was closed during a frame, before the signal arrived.
                Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => Exit::Quit,
                exit => exit?,
            }
        };
        match exit {
            Exit::Quit if request == SignalRequest::Quit => break,
            Exit::Quit | Exit::Stop => {
                signals.stop().await;
                // The window may have another size now; everything is redrawn.
                app.update(Event::Resize, Timestamp::now());
            }
            Exit::HandOver(command) => {
                let handed = foreground::hand_over(*command, &mut signals);
                let outcome = meanwhile(handed, app, &mut performer, &mut updates).await;
                performer.take_back();
                let Some(outcome) = outcome else { break };
                app.update(Event::Done(outcome), Timestamp::now());
            }
        }
    }
    performer.shutdown().await;
    Ok(())
}

/// The loop, for any terminal and any source of input; tests run this function. The theme may change in the meantime,
/// because a terminal may report its background late.
pub async fn event_loop<B, K, Q>(
    screen: &mut Terminal<B>,
    app: &mut App,
    theme: &mut watch::Receiver<Theme>,
    performer: &mut Performer,
    inputs: &mut Inputs<'_, K, Q>,
) -> io::Result<Exit>
where
    B: Backend<Error = io::Error>,
    K: Stream<Item = io::Result<crossterm::event::Event>> + Unpin,
    Q: Future<Output = ()> + Unpin,
{
    let mut frames = Frames { last: None, is_urgent: true };
    loop {
        if frames.is_due(app) {
            draw_frame(screen, app, theme, performer)?;
            frames = Frames { last: Some(Instant::now()), is_urgent: false };
        }
        let wait = frames.wait(app);
        if let Some(command) = performer.take_login() {
            if app.dialog().is_none() && app.prompt().is_none() {
                return Ok(Exit::HandOver(Box::new(command)));
            }
            // Text typed now must not go to another host or program.
            performer.take_back();
            let why = "cancelled: a dialog or a prompt was opened before the program could start; try again";
            app.update(Event::Done(Outcome::Failed(why.into())), Timestamp::now());
            continue;
        }
        let effects = tokio::select! {
            biased;
            () = &mut inputs.quit => return Ok(Exit::Quit),
            input = inputs.keys.next() => {
                let Some(input) = input else { return Ok(Exit::Quit) };
                frames.is_urgent = true;
                app.update(Event::from(input?), Timestamp::now())
            }
            event = performer.done() => app.update(event, Timestamp::now()),
            update = inputs.updates.recv() => {
                let Some(update) = update else { return Ok(Exit::Quit) };
                apply_updates(app, update, inputs.updates)
            }
            // Everything is redrawn, as after a resize.
            Ok(()) = theme.changed() => app.update(Event::Resize, Timestamp::now()),
            () = sleep_or_forever(wait) => app.update(Event::Tick, Timestamp::now()),
        };
        performer.perform_all(effects);
        while let Some(turn) = performer.turn() {
            match turn {
                Turn::Exit(exit) => return Ok(exit),
                // Clears the screen and discards the last frame. `clear` would also query the cursor position.
                Turn::Redraw => screen.resize(screen.size()?.into())?,
            }
        }
    }
}

/// The last frame, and when the next one is drawn.
struct Frames {
    last: Option<Instant>,
    /// Whether a key was handled since the last frame: the next one is then drawn at once.
    is_urgent: bool,
}

impl Frames {
    /// Whether a frame is to be drawn now.
    fn is_due(&self, app: &App) -> bool {
        app.is_dirty() && (self.is_urgent || self.last.is_none_or(|t| t.elapsed() >= FRAME))
    }

    /// Time until the next tick; `None` if only other events may change the screen.
    fn wait(&self, app: &App) -> Option<Duration> {
        if app.is_at_work() {
            Some(Duration::ZERO)
        } else if app.is_dirty() {
            Some(FRAME.saturating_sub(self.last.map_or(FRAME, |t| t.elapsed())))
        } else {
            app.next_change(Timestamp::now())
        }
    }
}

fn draw_frame<B: Backend<Error = io::Error>>(
    screen: &mut Terminal<B>,
    app: &mut App,
    theme: &watch::Receiver<Theme>,
    performer: &mut Performer,
) -> io::Result<()> {
    let now = Timestamp::now();
    let mut drawn = None;
    let theme = *theme.borrow();
    screen.draw(|frame| drawn = Some(ui::draw(frame, app, &theme, now)))?;
    if let Some(areas) = drawn {
        let effects = app.drawn(areas);
        performer.perform_all(effects);
    }
    Ok(())
}

/// Applies an update and those that have arrived since, up to [`BATCH`] in total; returns their effects.
fn apply_updates(app: &mut App, first: Update, others: &mut mpsc::Receiver<Update>) -> Vec<Effect> {
    let mut effects = app.update(Event::Update(first), Timestamp::now());
    for _ in 1..BATCH {
        let Ok(update) = others.try_recv() else { break };
        effects.extend(app.update(Event::Update(update), Timestamp::now()));
    }
    effects
}

/// Waits for a program that uses the terminal, and handles events meanwhile, so that no cluster task is blocked and
/// the screen is up to date afterwards.
pub async fn meanwhile<T>(
    ended: impl Future<Output = T>,
    app: &mut App,
    performer: &mut Performer,
    updates: &mut mpsc::Receiver<Update>,
) -> T {
    let mut ended = pin!(ended);
    loop {
        let effects = tokio::select! {
            biased;
            outcome = &mut ended => return outcome,
            Some(update) = updates.recv() => app.update(Event::Update(update), Timestamp::now()),
            event = performer.beside_a_program() => app.update(event, Timestamp::now()),
        };
        performer.perform_all(effects);
    }
}

async fn sleep_or_forever(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
