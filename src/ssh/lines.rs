//! A program's output, line by line, in bounded memory.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longer lines are cut.
const LINE_MAX: usize = 2000;

/// One line, as bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The line without its line end; at most its first 2000 bytes.
    pub bytes: Vec<u8>,
    /// Whether a carriage return alone ended it: the next line overwrites it, as with progress bars.
    pub is_passing: bool,
}

/// The lines of a stream.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    chunk: Vec<u8>,
    at: usize,
    line: Vec<u8>,
    /// Whether the last byte read was a carriage return.
    is_returned: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads the lines of this stream.
    pub fn new(from: R) -> Self {
        Self { from, chunk: Vec::new(), at: 0, line: Vec::new(), is_returned: false }
    }

    /// The next line; `None` at the end. Dropping the future loses no bytes.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            while let Some(&byte) = self.chunk.get(self.at) {
                let was_returned = std::mem::replace(&mut self.is_returned, byte == b'\r');
                if byte == b'\n' || (was_returned && byte != b'\r') {
                    // The byte after a lone carriage return belongs to the next line.
                    self.at += usize::from(byte == b'\n');
                    return Some(self.cut(byte != b'\n'));
                }
                self.at += 1;
                if byte != b'\r' && self.line.len() < LINE_MAX {
                    self.line.push(byte);
                }
            }
            self.chunk.resize(4096, 0);
            self.at = 0;
            let n = self.from.read(&mut self.chunk).await.unwrap_or(0);
            self.chunk.truncate(n);
            if n == 0 {
                return (!self.line.is_empty()).then(|| self.cut(false));
            }
        }
    }

    fn cut(&mut self, is_passing: bool) -> Line {
        Line { bytes: std::mem::take(&mut self.line), is_passing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<(String, bool)> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push((String::from_utf8(line.bytes).unwrap(), line.is_passing));
        }
        all
    }

    #[tokio::test]
    async fn lines_end_at_line_feeds_and_lone_carriage_returns() {
        let of = |all: &[(&str, bool)]| all.iter().map(|(t, p)| ((*t).to_owned(), *p)).collect::<Vec<_>>();
        assert_eq!(lines(b"a\r\n\nb").await, of(&[("a", false), ("", false), ("b", false)]));
        assert_eq!(lines(b"1%\r2%\r\r3%\n").await, of(&[("1%", true), ("2%", true), ("3%", false)]));
        assert_eq!(lines(b"1%\r").await, of(&[("1%", false)]));
        assert_eq!(lines(b"").await, of(&[]));
    }

    #[tokio::test]
    async fn a_line_without_a_line_end_is_cut() {
        let long = vec![b'x'; 1 << 20];
        assert_eq!(lines(&long).await[0].0.len(), LINE_MAX);
        let crossing = [&long[..4095], b"\r\nb\n"].concat();
        assert_eq!(lines(&crossing).await[1].0, "b");
    }
}
