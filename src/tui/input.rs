//! The inputs of the loop: keys and signals.

use super::background::{Answers, Background, PAUSE};
use crate::state::Update;
use crossterm::event::{self, Event};
use crossterm::terminal;
use futures_util::{FutureExt, Stream};
use nix::unistd::{getpgid, getppid, getsid};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{getpid, kill_process};
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// How long to wait for the reading thread to end.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// How long after an event the terminal is polled again, in case the poll after the event was cut short.
const RECHECK_AFTER: Duration = Duration::from_millis(5);

/// The loop's event sources, generic so that tests can supply keys.
pub struct Inputs<'a, K, Q> {
    /// Keys, mouse, paste and resize.
    pub keys: K,
    /// Resolves when a signal asks the console to quit.
    pub quit: Q,
    /// Events from the supervisor.
    pub updates: &'a mut mpsc::Receiver<Update>,
}

/// Keys, mouse, paste and resize of the terminal; ends when the terminal is gone.
///
/// Does not use crossterm's stream: it reads inside the loop, and never returns at the end of input, which is all that
/// a terminal delivers once its window is closed (`UnixInternalEventSource::try_read` in crossterm 0.29).
pub struct Keys {
    events: mpsc::UnboundedReceiver<io::Result<Event>>,
    resized: Signal,
    /// Closing it ends the thread.
    stop: Option<io::PipeWriter>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Keys {
    /// Reads standard input until dropped. The background that the terminal reports goes to `report`; with `is_queried`, a
    /// report is expected.
    pub fn read(is_queried: bool, report: impl Fn(Background) + Send + 'static) -> io::Result<Self> {
        let resized = signal(SignalKind::window_change())?;
        let (stopped, stop) = io::pipe()?;
        let (send, events) = mpsc::unbounded_channel();
        let (end, ended) = channel();
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            let _end: std::sync::mpsc::Sender<()> = end;
            forward(&stopped, &send, Answers::new(is_queried), report);
        })?;
        Ok(Self { events, resized, stop: Some(stop), ended })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // Another program may read the terminal next: the thread must have ended by then.
        self.stop = None;
        let _ = self.ended.recv_timeout(STOP_TIMEOUT);
    }
}

impl Stream for Keys {
    type Item = io::Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.resized.poll_recv(cx).is_ready() {
            let size = terminal::size().map(|(columns, rows)| Event::Resize(columns, rows));
            return Poll::Ready(Some(size));
        }
        self.events.poll_recv(cx)
    }
}

/// Sends events until the terminal is gone or `stopped` is closed.
fn forward(
    stopped: &io::PipeReader,
    send: &mpsc::UnboundedSender<io::Result<Event>>,
    mut answers: Answers,
    report: impl Fn(Background),
) {
    let pause = |length: Duration| Timespec { tv_sec: 0, tv_nsec: i64::from(length.subsec_nanos()) };
    let terminal = io::stdin();
    // Whether the last poll found nothing.
    let mut is_quiet = true;
    loop {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let wait = match (answers.is_holding(), is_quiet) {
            (true, _) => Some(pause(PAUSE)),
            (false, true) => None,
            (false, false) => Some(pause(RECHECK_AFTER)),
        };
        match rustix::event::poll(&mut ready, wait.as_ref()) {
            Ok(0) if answers.pause().into_iter().any(|event| send.send(Ok(event)).is_err()) => return,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return drop(send.send(Err(e.into()))),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if !ready[1].revents().is_empty() || ready[0].revents().intersects(gone) {
            return;
        }
        is_quiet = true;
        while let Some(event) = next_event().transpose() {
            is_quiet = false;
            let event = match event {
                Ok(event) => event,
                Err(e) => return drop(send.send(Err(e))),
            };
            let (events, background) = answers.take(event);
            if events.into_iter().any(|event| send.send(Ok(event)).is_err()) {
                return;
            }
            background.into_iter().for_each(&report);
        }
    }
}

/// The next event of the terminal, if there is one already.
///
/// Uses crossterm's `use-dev-tty`: its other event source uses an edge-triggered epoll, and after a window resize
/// leaves a pending key unread until another one arrives. This one busy-waits until its timeout, which delays a frame
/// on the other core: the timeout is therefore short, and an event may be missed if this thread is interrupted
/// in the meantime.
fn next_event() -> io::Result<Option<Event>> {
    if event::poll(Duration::from_micros(50))? { event::read().map(Some) } else { Ok(None) }
}

/// The signals that ask the console to quit or to stop.
pub struct QuitSignals {
    /// Sent to this process only: SIGTERM, and SIGHUP when the terminal is gone.
    ends: [Signal; 2],
    /// Also sent by a key to every program in the terminal's foreground: SIGINT (^C) and SIGQUIT (^\). In raw mode
    /// these arrive as keys.
    interrupts: [Signal; 2],
    /// Asks the console to stop until it is continued: SIGTSTP, sent with kill, or by a key (^Z) to every program in
    /// the terminal's foreground.
    stops: Signal,
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// Quit: a terminating signal was received, or the terminal is gone.
    Quit,
    /// Stop until the process is continued.
    Stop,
}

impl QuitSignals {
    /// Starts listening; the signals then no longer end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            ends: [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?],
            interrupts: [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?],
            stops: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    /// Resolves when any of them arrives.
    pub async fn received(&mut self) -> SignalRequest {
        let [interrupt, quit] = &mut self.interrupts;
        tokio::select! {
            () = ended(&mut self.ends) => SignalRequest::Quit,
            _ = interrupt.recv() => SignalRequest::Quit,
            _ = quit.recv() => SignalRequest::Quit,
            _ = self.stops.recv() => SignalRequest::Stop,
        }
    }

    /// Stops this process until it is continued. The terminal must have been released before.
    pub async fn stop(&mut self) {
        // The process may run for a moment after the signal: wait until it is continued.
        if let Ok(mut continued) = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))
            && kill_process(getpid(), rustix::process::Signal::STOP).is_ok()
        {
            continued.recv().await;
        }
        // A signal that arrived in the meantime was part of the same stop.
        while self.stops.recv().now_or_never().flatten().is_some() {}
    }

    /// Resolves when a signal arrives that is not sent by a key, or one that asks to stop.
    pub async fn ended_or_stopped(&mut self) -> SignalRequest {
        tokio::select! {
            () = ended(&mut self.ends) => SignalRequest::Quit,
            _ = self.stops.recv() => SignalRequest::Stop,
        }
    }

    /// Discards interrupts that were meant for another program in the foreground, which has exited.
    pub async fn forget_interrupts(&mut self) {
        // Signals are delivered with a delay. Once this one has been, the earlier ones have been too.
        if let Ok(mut last) = signal(SignalKind::window_change())
            && kill_process(getpid(), rustix::process::Signal::WINCH).is_ok()
        {
            last.recv().await;
        }
        for interrupt in &mut self.interrupts {
            while interrupt.recv().now_or_never().flatten().is_some() {}
        }
    }
}

async fn ended([terminate, hangup]: &mut [Signal; 2]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// Resolves when a signal asks the console to quit.
pub fn quit_signals() -> io::Result<impl Future<Output = ()>> {
    let mut signals = QuitSignals::listen()?;
    Ok(async move { while signals.received().await != SignalRequest::Quit {} })
}

/// Whether a shell with job control started the console and can continue it. A console started directly by a terminal
/// could only be killed once stopped.
pub fn is_shell_job() -> bool {
    // In a container the session leader or the parent's process group may be outside and have the number 0, which
    // rustix's Pid cannot hold.
    let parent = Some(getppid());
    getsid(parent).is_ok_and(|its| getsid(None) == Ok(its))
        && getpgid(parent).is_ok_and(|its| getpgid(None) != Ok(its))
}
