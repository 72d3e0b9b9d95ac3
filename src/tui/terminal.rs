//! The terminal while the console has it: raw mode, the alternate screen, mouse and bracketed paste. All of it is
//! restored on every way out, panics included.

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;

/// What draws to the real terminal. Buffered: a frame goes out in one write.
pub type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal in the console's modes until dropped.
pub struct Guard {
    // None only while it is dropped.
    screen: Option<Screen>,
}

impl Guard {
    /// Takes the terminal over. `mouse` captures the mouse (and takes the terminal's own text selection away).
    pub fn take(mouse: bool) -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // From here on a failure must put raw mode back: the guard does, once it exists.
        let mut screen =
            Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout())))
                .inspect_err(|_| restore())?;
        // Not `Terminal::clear`: that asks the terminal where its cursor is and waits 2 s for the answer, which may be
        // slow to come, or swallowed with keys typed ahead.
        let out = screen.backend_mut();
        let entered = execute!(out, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)
            .and_then(|()| if mouse { execute!(out, EnableMouseCapture) } else { Ok(()) });
        let guard = Self { screen: Some(screen) };
        entered.map(|()| guard)
    }

    /// What to draw through.
    pub fn screen(&mut self) -> io::Result<&mut Screen> {
        self.screen.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends the terminal a question, which it answers among its keys or not at all. Nothing is awaited.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        let out = self.screen()?.backend_mut();
        out.write_all(question.as_bytes())?;
        Write::flush(out)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
        // On a terminal that is gone, ratatui's own way out writes to a standard error that is gone, too, and panics.
        if let Some(mut screen) = self.screen.take()
            && screen.show_cursor().is_err()
        {
            std::mem::forget(screen);
        }
    }
}

/// Restores the terminal's modes. Harmless when repeated; errors are ignored, as a terminal that is gone (SIGHUP)
/// cannot show them.
fn restore() {
    let mut out = io::stdout();
    let _ = execute!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

/// A panic anywhere, in a background task too, must leave a usable terminal with its message on the normal screen: the
/// process ends with it.
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
