//! Splits a byte stream into lines.

use crate::model::Line;

/// Splits a byte stream into lines that are safe for a terminal. Bytes that are not UTF-8 become `U+FFFD`, a line
/// beyond the limit is cut with a mark that shows how much is missing, and the lines of Ray's workers that Ray's log
/// monitor does not show either (`:job_id:01000000`) are left out.
#[derive(Debug)]
pub struct LineSplitter {
    longest: usize,
    line: Vec<u8>,
    cut: usize,
    /// Whether the last byte was a carriage return: the next bytes overwrite the line, as on a terminal.
    overwrites: bool,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new(Self::ON_A_SCREEN)
    }
}

impl LineSplitter {
    /// Maximum bytes of a line for display.
    pub const ON_A_SCREEN: usize = 16 << 10;
    /// Maximum bytes of a complete line; longer ones are cut, to bound memory.
    pub const MAX_LINE: usize = 64 << 20;

    /// A splitter with this limit in bytes.
    pub const fn new(longest: usize) -> Self {
        Self { longest, line: Vec::new(), cut: 0, overwrites: false }
    }

    /// Adds bytes and returns the lines that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut pieces = bytes.split(|b| *b == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            self.append(piece);
            if pieces.peek().is_some() {
                lines.extend(self.take());
            }
        }
        lines
    }

    /// The unfinished last line at the end of the log; `None` when the last byte ended a line.
    pub fn finish(&mut self) -> Option<Line> {
        if self.line.is_empty() { None } else { self.take() }
    }

    /// The line so far, if it is worth showing.
    fn take(&mut self) -> Option<Line> {
        self.overwrites = false;
        let cut = std::mem::take(&mut self.cut);
        let line = std::mem::take(&mut self.line);
        if cut == 0 && is_magic(&line) {
            return None;
        }
        let line = Line::cleaned(&String::from_utf8_lossy(&narrowed(line)));
        Some(if cut > 0 { line.and(&format!(" ... ({cut} more bytes)")) } else { line })
    }

    /// Overwrites the line after a carriage return, so that the output of a progress bar does not accumulate.
    fn append(&mut self, piece: &[u8]) {
        let text = piece.iter().rposition(|b| *b != b'\r').map_or(0, |last| last + 1);
        if text > 0 {
            let from = piece[..text].iter().rposition(|b| *b == b'\r').map_or(0, |at| at + 1);
            if self.overwrites || from > 0 {
                self.line.clear();
                self.cut = 0;
            }
            let room = self.longest.saturating_sub(self.line.len());
            let kept = room.min(text - from);
            self.line.extend_from_slice(&piece[from..from + kept]);
            self.cut += text - from - kept;
            self.overwrites = text < piece.len();
        } else if !piece.is_empty() {
            self.overwrites = true;
        }
    }
}

/// Converts a line in UTF-16 to ASCII: every second byte is a NUL, including half of the line break. Letters other than
/// ASCII are lost.
fn narrowed(mut line: Vec<u8>) -> Vec<u8> {
    let mark = if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) { 2 } else { 0 };
    let nuls = line.split(|b| *b == 0).count() - 1;
    let half = (line.len() - mark) / 2;
    if nuls > 0 && (half..=half + 1).contains(&nuls) {
        line.drain(..mark);
        line.retain(|b| *b != 0);
    }
    line
}

/// Starts of the lines that a worker writes for Ray's log monitor (`log_monitor.py` of Ray 2.60), which shows all
/// others.
const MAGIC: [&[u8]; 3] = [b":actor_name:", b":task_name:", b":job_id:"];

/// Whether it is a line for Ray's log monitor: `:job_id:01000000`, `:actor_name:Holder`.
fn is_magic(line: &[u8]) -> bool {
    MAGIC.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = LineSplitter::default();
        let mut lines: Vec<_> = chunks.iter().flat_map(|c| splitter.push(c)).collect();
        lines.extend(splitter.finish());
        lines.iter().map(Line::to_string).collect()
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        assert_eq!(all(&[b"a", b"b\nc", b"\n", b"\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(all(&["é\n".as_bytes().split_at(1).0, "é\n".as_bytes().split_at(1).1]), ["é"]);
        assert_eq!(all(&[b"x\xffy\n"]), ["x\u{fffd}y"]);
    }

    #[test]
    fn a_log_in_utf_16_can_be_read() {
        for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let log: Vec<u8> = "\u{feff}step 1\nERROR: no\n\n".encode_utf16().flat_map(bytes).collect();
            let lines = all(&[&log]);
            assert_eq!(lines[..3], ["step 1", "ERROR: no", ""]);
        }
        assert_eq!(all(&[b"a\0\0b, a hole\n"]), ["a··b, a hole"]);
    }

    #[test]
    fn marks_of_the_log_monitor_are_left_out() {
        assert_eq!(
            all(&[b":job_id:01000000\n:actor_name:Holder\n:task_name:train\nreal\n:not magic:\n::\n"]),
            ["real", ":not magic:", "::"]
        );
        // Restructured text, and other words of Ray that its log monitor shows.
        let shown =
            [":class:`Trainer` is deprecated", ":event_summary:Resized to 8 CPUs.", ":job_id", " :job_id:1"];
        assert_eq!(all(&[shown.join("\n").as_bytes()]), shown);
    }

    #[test]
    fn a_long_line_is_truncated_with_a_note() {
        let megabyte = vec![b'x'; 1 << 20];
        let lines = all(&[&megabyte, b"\nnext\n"]);
        assert_eq!(lines.len(), 2);
        let mark = format!(" ... ({} more bytes)", (1 << 20) - LineSplitter::ON_A_SCREEN);
        assert!(lines[0].ends_with(&mark) && lines[0].len() == LineSplitter::ON_A_SCREEN + mark.len());
        assert_eq!(lines[1], "next");
    }

    #[test]
    fn an_endless_progress_bar_keeps_its_last_state() {
        let mut splitter = LineSplitter::default();
        for percent in 0..20_000 {
            assert!(splitter.push(format!("\r{percent} steps").as_bytes()).is_empty());
            assert!(splitter.line.len() <= LineSplitter::ON_A_SCREEN);
        }
        assert_eq!(splitter.push(b"\n"), [Line::from("19999 steps")]);
    }

    #[test]
    fn a_long_line_is_overwritten_wherever_it_is_truncated() {
        let log = [&b"x".repeat(17_000)[..], b"\r10%\r20%\r\n"].concat();
        for cut in [0, 16_384, 17_000, 17_001, 17_004, 17_005, log.len() - 1] {
            let (a, b) = log.split_at(cut);
            assert_eq!(all(&[a, b]), ["20%"], "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn the_division_into_blocks_does_not_matter(
            text in "[a-zé\\n :_]{0,80}", cuts in prop::collection::vec(0usize..80, 0..6)
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<_> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(all(&chunks), all(&[bytes]));
        }
    }
}
