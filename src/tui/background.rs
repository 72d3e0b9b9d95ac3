//! The background color of the terminal, and the theme that suits it.
//!
//! It is queried with OSC 11 (xterm control sequences), which tmux also answers, and which works over ssh. The answer
//! arrives among the keys, at any time after the query or never. It is removed from them whenever it arrives; the keys
//! before and after it are passed on.

use crate::ui::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

/// Queries the background color.
pub(super) const QUESTION: &str = "\x1b]11;?\x07";
/// How long the first frame waits for the answer. A later answer changes the theme.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(150);
/// How long after the query a lone Esc is held back: the network may have split the answer after its first byte.
const ESC_TIMEOUT: Duration = Duration::from_secs(2);
/// The rest of an answer arrives within this time; otherwise its first byte was a key.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// Maximum length of an answer, without its introducer and terminator.
const MAX_ANSWER_LENGTH: usize = 64;

/// A terminal's background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

impl Background {
    /// From the variable `COLORFGBG` of rxvt and others, e.g. `15;0`: the last number is the background color.
    pub fn of_colorfgbg(value: &str) -> Option<Self> {
        match value.rsplit(';').next()?.parse().ok()? {
            7 | 9..=15 => Some(Self::Light),
            0..=6 | 8 => Some(Self::Dark),
            _ => None,
        }
    }

    /// From the answer to [`QUESTION`] without introducer and terminator: `11;rgb:ffff/ffff/dddd`, with one to four
    /// digits per component.
    fn of_answer(text: &str) -> Option<Self> {
        let color = text.strip_prefix("11;")?;
        let parts = color.strip_prefix("rgb:").or_else(|| color.strip_prefix("rgba:"))?;
        let part = |digits: &str| {
            let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1)?;
            let value = u32::from_str_radix(digits, 16).ok()?;
            (1..=4).contains(&digits.len()).then(|| f64::from(value) / f64::from(most))
        };
        let mut parts = parts.split('/').map(part);
        let (r, g, b) = (parts.next()??, parts.next()??, parts.next()??);
        // Perceived brightness (ITU-R BT.601).
        let light = 0.299 * r + 0.587 * g + 0.114 * b > 0.5;
        Some(if light { Self::Light } else { Self::Dark })
    }
}

/// The themes for both backgrounds.
#[derive(Clone, Copy, Debug)]
pub struct ThemeChoice {
    /// The theme on a dark background.
    pub dark: Theme,
    /// The theme on a light one.
    pub light: Theme,
    /// The assumed background until the terminal has answered.
    pub guess: Background,
    /// Whether the terminal is queried.
    pub asks: bool,
}

impl ThemeChoice {
    /// The theme for that background.
    pub fn on(&self, background: Background) -> Theme {
        match background {
            Background::Dark => self.dark,
            Background::Light => self.light,
        }
    }
}

/// Removes the terminal's answers from its keys.
#[derive(Debug)]
pub(super) struct Answers {
    /// Until this time an Esc may be the first byte of an answer.
    expected: Option<Instant>,
    /// Events that may be an answer, as they arrived.
    held: Vec<Event>,
    /// The text of the answer so far, once it has begun.
    text: Option<String>,
}

impl Answers {
    /// With `is_queried`, an answer is expected.
    pub fn new(is_queried: bool) -> Self {
        Self { expected: is_queried.then(|| Instant::now() + ESC_TIMEOUT), held: Vec::new(), text: None }
    }

    /// Whether events are held back that may not be part of an answer.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty() && !self.is_answer()
    }

    /// Handles an event. Returns the events that are not part of an answer, and the background if an answer ends here.
    pub fn take(&mut self, event: Event) -> (Vec<Event>, Option<Background>) {
        let Event::Key(key) = event else { return (self.and(event), None) };
        let Some(text) = &mut self.text else {
            let after_esc = self.is_holding();
            if is(key, ']', KeyModifiers::ALT) || (after_esc && is(key, ']', KeyModifiers::NONE)) {
                self.held.push(event);
                self.text = Some(String::new());
                return (Vec::new(), None);
            }
            let mut out = std::mem::take(&mut self.held);
            if key.code == KeyCode::Esc && self.expected.is_some_and(|until| Instant::now() < until) {
                self.held.push(event);
            } else {
                out.push(event);
            }
            return (out, None);
        };
        let after_esc = matches!(self.held.last(), Some(Event::Key(key)) if key.code == KeyCode::Esc);
        // The terminator: BEL, or ESC and a backslash, which the network may have split.
        let ends = is(key, 'g', KeyModifiers::CONTROL)
            || is(key, '\\', KeyModifiers::ALT)
            || (after_esc && is(key, '\\', KeyModifiers::NONE));
        if ends && text.starts_with("11;") {
            let background = Background::of_answer(text);
            *self = Self { expected: None, held: Vec::new(), text: None };
            return (Vec::new(), background);
        }
        match key.code {
            KeyCode::Esc if !text.is_empty() => {}
            KeyCode::Char(c)
                if (c.is_ascii_alphanumeric() || ";:/".contains(c))
                    && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
                    && "11;".starts_with(&text[..text.len().min(3)])
                    && text.len() < MAX_ANSWER_LENGTH =>
            {
                text.push(c);
            }
            _ => return (self.and(event), None),
        }
        self.held.push(event);
        (Vec::new(), None)
    }

    /// Called when nothing has followed for [`PAUSE`]: returns the events that were held back, unless they begin an
    /// answer.
    pub fn pause(&mut self) -> Vec<Event> {
        if self.is_answer() { Vec::new() } else { self.release() }
    }

    /// Whether the events held back are certainly an answer: nobody types `11;` after Alt-].
    fn is_answer(&self) -> bool {
        self.text.as_deref().is_some_and(|text| text.starts_with("11;"))
    }

    fn release(&mut self) -> Vec<Event> {
        self.text = None;
        std::mem::take(&mut self.held)
    }

    /// Ends what was held back: returns its keys, unless they were an answer, and this event.
    fn and(&mut self, event: Event) -> Vec<Event> {
        let broken = self.is_answer();
        let mut out = self.release();
        if broken {
            out.clear();
        }
        out.push(event);
        out
    }
}

fn is(key: KeyEvent, c: char, modifiers: KeyModifiers) -> bool {
    key.code == KeyCode::Char(c) && key.modifiers == modifiers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    /// The events for these bytes: an ESC forms one with the byte after it, unless nothing follows in this read.
    fn events(bytes: &str) -> Vec<Event> {
        let mut characters = bytes.chars().peekable();
        let mut events = Vec::new();
        while let Some(c) = characters.next() {
            events.push(match (c, characters.peek()) {
                ('\x1b', None | Some('\x1b')) => key(KeyCode::Esc, KeyModifiers::NONE),
                ('\x1b', Some(next)) => {
                    let alt = key(KeyCode::Char(*next), KeyModifiers::ALT);
                    characters.next();
                    alt
                }
                ('\x07', _) => key(KeyCode::Char('g'), KeyModifiers::CONTROL),
                (c, _) => key(KeyCode::Char(c), KeyModifiers::NONE),
            });
        }
        events
    }

    fn take(answers: &mut Answers, events: Vec<Event>) -> (Vec<Event>, Option<Background>) {
        let (mut keys, mut background) = (Vec::new(), None);
        for event in events {
            let (passed, answer) = answers.take(event);
            keys.extend(passed);
            background = background.or(answer);
        }
        (keys, background)
    }

    #[test]
    fn colors_are_dark_or_light() {
        let of = |text: &str| Background::of_answer(text);
        for light in ["11;rgb:ffff/ffff/dddd", "11;rgb:f/f/f", "11;rgba:ee/ee/ee/ff", "11;rgb:fdf6/f6f6/e3e3"]
        {
            assert_eq!(of(light), Some(Background::Light), "{light}");
        }
        for dark in ["11;rgb:0000/0000/0000", "11;rgb:1e/1e/2e", "11;rgb:0000/2b2b/3636"] {
            assert_eq!(of(dark), Some(Background::Dark), "{dark}");
        }
        for wrong in ["10;rgb:0/0/0", "11;rgb:0/0", "11;rgb://", "11;?", "11;rgb:00000/0/0", "11;rgb:é/0/0"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let of = |value: &str| Background::of_colorfgbg(value);
        assert_eq!((of("15;0"), of("0;default;15")), (Some(Background::Dark), Some(Background::Light)));
        assert_eq!((of("15;default"), of("")), (None, None));
    }

    #[test]
    fn an_answer_is_removed_wherever_the_network_splits_it() {
        for end in ["\x07", "\x1b\\"] {
            let answer = format!("\x1b]11;rgb:ffff/ffff/ffff{end}");
            for at in 0..=answer.len() {
                let mut answers = Answers::new(true);
                let (first, rest) = answer.split_at(at);
                let (mut keys, mut background) = take(&mut answers, events(&format!("j{first}")));
                let (more, later) = take(&mut answers, events(&format!("{rest}k")));
                keys.extend(more);
                background = background.or(later);
                assert_eq!(
                    (keys, background),
                    (events("jk"), Some(Background::Light)),
                    "{end:?} cut at {at}"
                );
                assert!(!answers.is_holding());
            }
        }
    }

    #[test]
    fn other_keys_are_passed_on() {
        for typed in
            ["\x1b", "\x1bx", "\x1b]q", "]11", "\x1b]1\x1b", "\x1b]12", "\x07", "\x1b\x1b", "\x1b]j11;"]
        {
            let mut answers = Answers::new(true);
            let (mut keys, background) = take(&mut answers, events(typed));
            keys.extend(answers.pause());
            assert_eq!((keys, background), (events(typed), None), "{typed:?}");
        }
        // Without a query, Esc is passed on at once.
        assert_eq!(take(&mut Answers::new(false), events("\x1b")).0.len(), 1);
    }

    #[test]
    fn a_broken_answer_never_becomes_keys() {
        for broken in ["\x1b]11;rgb:ff", "\x1b]11;rgb:ffff/ffff/ffff\x1b", "\x1b]11;"] {
            let mut answers = Answers::new(true);
            let (keys, background) = take(&mut answers, events(broken));
            assert_eq!((keys, background, answers.pause()), (Vec::new(), None, Vec::new()));
            let click = Event::FocusGained;
            assert_eq!(take(&mut answers, vec![click.clone()]).0, [click], "{broken:?}");
        }
    }
}
