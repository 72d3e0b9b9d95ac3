//! The terminal while the console uses it: raw mode, the alternate screen, mouse and bracketed paste. All of it is
//! restored on every exit, including panics.

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;

/// The width of the terminal in columns; `None` if there is none.
pub fn terminal_width() -> Option<u16> {
    size().ok().map(|(columns, _)| columns)
}

/// Draws to the real terminal. Buffered: a frame is sent in one write.
pub type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal in the console's modes until dropped.
pub struct Guard {
    // `None` only while it is being dropped.
    screen: Option<Screen>,
}

impl Guard {
    /// Takes over the terminal. `mouse` captures the mouse (which disables the terminal's own text selection).
    pub fn take(mouse: bool) -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // After this, a failure must restore the mode: the guard does, once it exists.
        let mut screen =
            Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout())))
                .inspect_err(|_| restore())?;
        // Not `Terminal::clear`: that queries the cursor position and waits 2 s for the answer, which may be slow, or
        // lost among keys typed ahead.
        let out = screen.backend_mut();
        let entered = execute!(out, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)
            .and_then(|()| if mouse { execute!(out, EnableMouseCapture) } else { Ok(()) });
        let guard = Self { screen: Some(screen) };
        entered.map(|()| guard)
    }

    /// The screen to draw on.
    pub fn screen(&mut self) -> io::Result<&mut Screen> {
        self.screen.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a query to the terminal, which answers among its keys or not at all. Does not wait.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        let out = self.screen()?.backend_mut();
        out.write_all(question.as_bytes())?;
        Write::flush(out)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
        // If the terminal is gone, ratatui's drop handler writes to a standard error that is gone too, and panics.
        if let Some(mut screen) = self.screen.take()
            && screen.show_cursor().is_err()
        {
            std::mem::forget(screen);
        }
    }
}

/// Restores the modes of the terminal. Safe to repeat; errors are ignored, because a terminal that is gone (SIGHUP)
/// cannot show them.
fn restore() {
    let mut out = io::stdout();
    let _ = execute!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// A panic anywhere, including background tasks, must leave a usable terminal with its message on the normal screen; it
/// ends the process.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            report(panic);
            std::process::exit(101);
        }));
    });
}
