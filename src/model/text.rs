//! Text received from a cluster: untrusted until cleaned by this module.
//!
//! A job's name may contain an escape sequence that retitles the terminal, a bidi override that reverses a row, or a
//! newline that breaks a table. [`Text`] keeps it verbatim for requests and cleans it whenever it is displayed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::{Borrow, Cow};
use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock};
use unicode_width::UnicodeWidthStr;

/// A string received from a cluster. `Display` is safe for a terminal; [`Text::raw`] is verbatim, for requests only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// Wraps a string received from a cluster.
    pub fn new(s: impl Into<Arc<str>>) -> Self {
        Self(s.into())
    }

    /// The text verbatim: for URLs, request bodies and comparisons, never for a screen.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// The text with all characters that a terminal would interpret replaced; borrowed if nothing was replaced.
    pub fn shown(&self) -> Cow<'_, str> {
        printable(&self.0)
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Text {
    fn default() -> Self {
        /// Shared, because many fields of many rows are empty.
        static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
        Self(EMPTY.clone())
    }
}

/// Equality, order and hash are those of the string, so that sets of texts can be queried with a string.
impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.shown())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Verbatim, for this program's own files.
impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

impl From<&str> for Text {
    fn from(s: &str) -> Self {
        if s.is_empty() { Self::default() } else { Self::new(s) }
    }
}

impl From<String> for Text {
    fn from(s: String) -> Self {
        Self::new(s)
    }
}

/// Characters that move the cursor, reorder or hide text: C0 and C1 controls, bidi controls, zero-width and tag
/// characters (Unicode categories Cc and the harmful part of Cf).
fn is_hostile(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Bytes in hexadecimal, two lower-case digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether the text is printable ASCII, with one screen cell per byte. Nearly every text is.
pub fn is_plain(s: &str) -> bool {
    s.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Width of a text in screen cells.
pub fn width(s: &str) -> usize {
    if is_plain(s) { s.len() } else { s.width() }
}

/// One line that is safe to print: tabs and line breaks become a space, and other characters that a terminal would
/// interpret become `·`.
pub fn printable(s: &str) -> Cow<'_, str> {
    if is_plain(s) || !s.chars().any(is_hostile) {
        return Cow::Borrowed(s);
    }
    let shown = s.chars().map(|c| match c {
        '\t' | '\n' | '\r' => ' ',
        c if is_hostile(c) => '·',
        c => c,
    });
    Cow::Owned(shown.collect())
}

/// Several lines that are safe to print: like [`printable`], except that tabs and line feeds are kept.
pub fn printable_lines(s: &str) -> Cow<'_, str> {
    if !s.chars().any(acts_in_lines) {
        return Cow::Borrowed(s);
    }
    let shown = s.chars().map(|c| match c {
        '\r' => ' ',
        c if acts_in_lines(c) => '·',
        c => c,
    });
    Cow::Owned(shown.collect())
}

/// Serialized JSON that is safe to print and has the same value: control characters become `\u` escapes (RFC 8259,
/// section 7). Such characters occur only inside strings.
pub fn printable_json(s: &str) -> Cow<'_, str> {
    if !s.chars().any(acts_in_lines) {
        return Cow::Borrowed(s);
    }
    let mut shown = String::with_capacity(s.len() + 16);
    for c in s.chars() {
        if acts_in_lines(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn acts_in_lines(c: char) -> bool {
    is_hostile(c) && !matches!(c, '\t' | '\n')
}

/// A log line without escape sequences (ECMA-48 CSI, OSC and the other string sequences), made [`printable`]. Text
/// before a lone `\r` was overwritten on the program's own terminal (progress bars), so only the text after the last
/// one is kept. Tabs advance to the next multiple of eight.
pub fn log_line(s: &str) -> String {
    colored_line(s, |_, _| ())
}

/// Like [`log_line`]; `on_sgr` receives the parameters of each sequence that sets colors (SGR), with the byte offset
/// in the cleaned line from which they apply.
pub(super) fn colored_line(s: &str, mut on_sgr: impl FnMut(usize, &str)) -> String {
    let s = s.trim_end_matches(['\r', '\n']);
    let s = s.rsplit('\r').next().unwrap_or(s);
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    let mut column = 0usize;
    while let Some(c) = chars.next() {
        match c {
            '\x1b' | '\u{9b}' => {
                let sequence = chars.as_str();
                if c == '\x1b' {
                    skip_escape(&mut chars);
                } else {
                    skip_csi(&mut chars);
                }
                let sequence = &sequence[..sequence.len() - chars.as_str().len()];
                let csi = if c == '\x1b' { sequence.strip_prefix('[') } else { Some(sequence) };
                if let Some(parameters) = csi.and_then(|csi| csi.strip_suffix('m')) {
                    on_sgr(out.len(), parameters);
                }
            }
            '\t' => {
                let fill = 8 - column % 8;
                out.extend(std::iter::repeat_n(' ', fill));
                column += fill;
            }
            c => {
                out.push(if is_hostile(c) { '·' } else { c });
                column += 1;
            }
        }
    }
    out
}

type Chars<'a> = std::str::Chars<'a>;

/// Skips the characters for which `skips` holds.
fn skip_while(chars: &mut Chars<'_>, skips: impl Fn(char) -> bool) {
    *chars = chars.as_str().trim_start_matches(skips).chars();
}

/// Skips one character if `skips` holds for it; returns whether it did.
fn skip_if(chars: &mut Chars<'_>, skips: impl Fn(char) -> bool) -> bool {
    let is_next = chars.clone().next().is_some_and(skips);
    if is_next {
        chars.next();
    }
    is_next
}

fn skip_escape(chars: &mut Chars<'_>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        // OSC, DCS, SOS, PM, APC: a string up to BEL or ST (`ESC \`).
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next() {
                if c == '\x07' || c == '\u{9c}' || (c == '\x1b' && skip_if(chars, |c| c == '\\')) {
                    break;
                }
            }
        }
        // Charset selection and similar sequences: intermediates, then one final byte.
        Some('\x20'..='\x2f') => {
            skip_while(chars, |c| ('\x20'..='\x2f').contains(&c));
            chars.next();
        }
        _ => {}
    }
}

/// Skips parameters and intermediates, then one final byte in `@..=~`.
fn skip_csi(chars: &mut Chars<'_>) {
    skip_while(chars, |c| ('\x20'..='\x3f').contains(&c));
    skip_if(chars, |c| ('@'..='~').contains(&c));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(Text::from("exp1395 ünïcode 日本").shown(), Cow::Borrowed(_)));
    }

    #[test]
    fn escapes_and_bidi_never_reach_the_terminal() {
        let t = Text::from("a\x1b]0;owned\x07b\u{202e}c\u{9b}31m\nd");
        assert_eq!(t.to_string(), "a·]0;owned·b·c·31m d");
        assert_eq!(t.raw(), "a\x1b]0;owned\x07b\u{202e}c\u{9b}31m\nd");
    }

    #[test]
    fn lines_and_json_keep_their_layout() {
        assert_eq!(printable_lines("a\tb\r\n\x1b[31m\u{9b}c\u{202e}"), "a\tb \n·[31m·c·");
        assert_eq!(
            printable_json("{\n\t\"\u{9b}\u{202e}\u{e0001}é\"}"),
            "{\n\t\"\\u009b\\u202e\\udb40\\udc01é\"}"
        );
        assert!(matches!(printable_lines("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn display_respects_the_width() {
        assert_eq!(format!("{:>4}|{:<4}|", Text::from("ab"), Text::from("cd")), "  ab|cd  |");
    }

    #[test]
    fn log_lines_lose_colors_and_keep_text() {
        assert_eq!(
            log_line("\x1b[1;31mERROR\x1b[0m at \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"),
            "ERROR at link"
        );
        assert_eq!(log_line(" 10%\r 50%\r100%\r\n"), "100%");
        assert_eq!(log_line("a\tb"), "a       b");
        assert_eq!(log_line("cut off \x1b[3"), "cut off ");
        assert_eq!(log_line("\x1b(Bok"), "ok");
    }

    proptest! {
        #[test]
        fn hostile_characters_are_removed(s in "\\PC*|[\\x00-\\x7f\u{80}-\u{9f}\u{200b}-\u{202e}]*") {
            prop_assert!(!printable(&s).chars().any(is_hostile));
            prop_assert!(!log_line(&s).chars().any(is_hostile));
            prop_assert!(!printable_lines(&s).chars().any(acts_in_lines));
            let json = serde_json::to_string_pretty(&[&s]).unwrap();
            let shown = printable_json(&json);
            prop_assert!(!shown.chars().any(acts_in_lines));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [s]);
        }
    }
}
