//! Everything that needs a terminal: the loop, signals, the clipboard, the browser, a shell on a head.
//!
//! A key press is one call stack: input -> `App::update` -> effects -> draw. News come through one bounded channel.
//! A key press awaits nothing: work that may take time runs beside the loop and comes back as an event.

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
pub use clipboard::{Copier, Multiplexer, ON_CLIPBOARD, Place, terminal};
pub use input::{Inputs, QuitSignals, quit_signals};
use perform::Turn;
pub use perform::{Exit, Performer, start_browser};
pub use terminal::{Guard, Screen};

use crate::app::{App, Effect, Event, Outcome};
use crate::config::{self, TypedLines};
use crate::model::Timestamp;
use crate::operation::Environment;
use crate::state::Update;
use crate::supervisor::Supervisor;
use crate::ui::{self, Theme};
use futures_util::{Stream, StreamExt};
use input::Asked;
use ratatui::Terminal;
use ratatui::backend::Backend;
use rustix::io::Errno;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Shortest time between two frames that only news cause. A key is drawn at once.
const FRAME: Duration = Duration::from_millis(16);
/// News taken in before the next key is read.
const BATCH: usize = 32;

/// Runs the console on the real terminal until it is quit.
pub async fn run(
    app: &mut App,
    first: Vec<Effect>,
    looks: &ThemeChoice,
    (supervisor, environment, typed): (Supervisor, Environment, Option<TypedLines>),
    mut updates: mpsc::Receiver<Update>,
    mouse: bool,
) -> io::Result<()> {
    let mut signals = QuitSignals::listen()?;
    let mut performer = Performer::new(supervisor, Place::detect(|name| std::env::var(name).ok()));
    performer =
        performer.keeping(config::layout_file(&environment.state)).operating(environment).saving(typed);
    performer.perform_all(first);
    let (themes, mut theme) = watch::channel(looks.on(looks.guess));
    let mut asks = looks.asks;
    loop {
        let mut asked = Asked::Leave;
        let exit = {
            let mut guard = terminal::Guard::take(mouse)?;
            let quit = pin!(async { asked = signals.asked().await });
            let asks = std::mem::take(&mut asks);
            let (looks, themes) = (*looks, themes.clone());
            let keys = input::Keys::read(asks, move |background| _ = themes.send(looks.on(background)))?;
            if asks {
                guard.ask(background::QUESTION)?;
                let _ = tokio::time::timeout(background::WAIT, theme.changed()).await;
            }
            let mut inputs = Inputs { keys, quit, updates: &mut updates };
            match event_loop(guard.screen()?, app, &mut theme, &mut performer, &mut inputs).await {
                // The window was closed during a frame, before its signal came.
                Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => Exit::Quit,
                exit => exit?,
            }
        };
        match exit {
            Exit::Quit if asked == Asked::Leave => break,
            Exit::Quit | Exit::Stop => {
                signals.stop().await;
                // The window may have another size by now; all of it is drawn.
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

/// The loop, over any terminal and any source of input: the tests drive this very function. The theme may change
/// meanwhile: a terminal may say late what its background is.
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
    let mut last_frame: Option<Instant> = None;
    let mut urgent = true;
    loop {
        if app.is_dirty() && (urgent || last_frame.is_none_or(|t| t.elapsed() >= FRAME)) {
            let now = Timestamp::now();
            let mut drawn = None;
            let theme = *theme.borrow();
            screen.draw(|frame| drawn = Some(ui::draw(frame, app, &theme, now)))?;
            if let Some(areas) = drawn {
                let effects = app.drawn(areas);
                performer.perform_all(effects);
            }
            last_frame = Some(Instant::now());
            urgent = false;
        }
        let wait = if app.is_at_work() {
            Some(Duration::ZERO)
        } else if app.is_dirty() {
            Some(FRAME.saturating_sub(last_frame.map_or(FRAME, |t| t.elapsed())))
        } else {
            app.next_change(Timestamp::now())
        };
        if let Some(command) = performer.take_login() {
            if app.dialog().is_none() && app.prompt().is_none() {
                return Ok(Exit::HandOver(Box::new(command)));
            }
            // Text typed now must not go to another machine or program.
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
                urgent = true;
                app.update(Event::from(input?), Timestamp::now())
            }
            event = performer.done() => app.update(event, Timestamp::now()),
            update = inputs.updates.recv() => {
                let Some(update) = update else { return Ok(Exit::Quit) };
                let mut effects = app.update(Event::Update(update), Timestamp::now());
                for _ in 1..BATCH {
                    let Ok(update) = inputs.updates.try_recv() else { break };
                    effects.extend(app.update(Event::Update(update), Timestamp::now()));
                }
                effects
            }
            // As after a resize, all of it is drawn again.
            Ok(()) = theme.changed() => app.update(Event::Resize, Timestamp::now()),
            () = sleep_or_forever(wait) => app.update(Event::Tick, Timestamp::now()),
        };
        performer.perform_all(effects);
        while let Some(turn) = performer.turn() {
            match turn {
                Turn::Exit(exit) => return Ok(exit),
                // Clears and forgets what was drawn. `clear` would ask the terminal for its cursor, too.
                Turn::Redraw => screen.resize(screen.size()?.into())?,
            }
        }
    }
}

/// Waits for a program that has the terminal and takes in news until then, so that no cluster's task is blocked and the
/// screen is up to date afterwards.
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
