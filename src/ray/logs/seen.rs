//! The position of a read within a file: Ray's state API returns lines from the end without positions, so the known
//! part is recognized by its last bytes.

use std::ops::Range;

/// The last known bytes of a file, and the position after them.
#[derive(Debug)]
pub struct Seen {
    end: Vec<u8>,
    at: u64,
    /// Position of the file's first byte, once known.
    begin: Option<u64>,
}

/// Where the known end of a file is in a new read of the file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// After so many bytes of the read, and nowhere else.
    At(usize),
    /// Possibly at several places, of which this is the last: the log repeats itself. A longer read may decide.
    Somewhere(usize),
    /// Not in it.
    Nowhere,
}

impl Seen {
    /// Maximum number of bytes that are compared, and number that must match unless fewer are known.
    const MAX_COMPARED_BYTES: usize = 16 << 10;
    const MAX_NEEDED: usize = 2 << 10;

    /// No known bytes of a file; its next lines begin at this position.
    pub const fn nothing(at: u64) -> Self {
        Self { end: Vec::new(), at, begin: None }
    }

    /// Sets the position of the file's first byte.
    pub fn begins(&mut self, at: u64) {
        self.begin = Some(at);
    }

    /// Position after the known bytes.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Adds the whole lines that follow.
    pub fn advance(&mut self, lines: &[u8]) {
        self.at += lines.len() as u64;
        self.add_known(lines);
    }

    /// Adds the whole lines before the position, by which it is found although they were not passed on.
    pub fn add_known(&mut self, lines: &[u8]) {
        self.end.extend_from_slice(&lines[lines.len().saturating_sub(Self::MAX_COMPARED_BYTES)..]);
        let surplus = self.end.len().saturating_sub(Self::MAX_COMPARED_BYTES);
        self.end.drain(..surplus);
    }

    /// Searches for the known end in whole lines that were read from the file's end: after each line break that the
    /// known bytes precede, as far as the read goes back. In a read of the whole file, its known position is tried
    /// first. Without known bytes, only the whole file shows where the new lines begin.
    pub fn find(&self, now: &[u8], is_all: bool) -> Found {
        let needed = self.end.len().min(Self::MAX_NEEDED);
        let is_end = |end: usize| {
            let common = end.min(self.end.len());
            common >= needed && now[end - common..end] == self.end[self.end.len() - common..]
        };
        if self.end.is_empty() {
            return if is_all { Found::At(0) } else { Found::Nowhere };
        }
        let known = self.begin.and_then(|begin| usize::try_from(self.at - begin).ok());
        if let Some(end) = known.filter(|end| is_all && *end <= now.len() && is_end(*end)) {
            return Found::At(end);
        }
        let breaks = now.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        let mut found = breaks.filter(|end| is_end(*end));
        match (found.next(), found.next()) {
            // A short end may occur twice.
            (Some(last), None) if is_all || needed == Self::MAX_NEEDED => Found::At(last),
            (Some(last), _) => Found::Somewhere(last),
            (None, _) => Found::Nowhere,
        }
    }

    /// The positions of a read in which the known end is after `found` bytes. They do not begin before position 0.
    pub fn positions(&self, found: usize, now: &[u8]) -> Range<u64> {
        let start = self.at.saturating_sub(found as u64);
        start..start + now.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(lines: &[u8]) -> Seen {
        let mut seen = Seen::nothing(1000);
        seen.advance(lines);
        seen
    }

    #[test]
    fn the_known_part_is_found_by_its_end() {
        let known = seen(b"a\nb\n");
        assert_eq!((known.at(), known.find(b"a\nb\n", true)), (1004, Found::At(4)));
        assert_eq!(known.find(b"x\na\nb\nc\n", true), Found::At(6));
        assert_eq!(known.find(b"x\na\nb\nc\n", false), Found::Somewhere(6), "it may occur twice");
        assert_eq!(known.find(b"b\nc\n", false), Found::Nowhere, "the read does not reach back far enough");
        assert_eq!(known.positions(6, b"x\na\nb\nc\n"), 998..1006);
        let nothing = Seen::nothing(0);
        assert_eq!(nothing.find(b"a\n", true), Found::At(0), "all of it is new");
        assert_eq!(nothing.find(b"a\n", false), Found::Nowhere, "there may be new lines before it");
        let lines: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let known = seen(&lines);
        assert_eq!(known.find(&lines[4000..], false), Found::At(lines.len() - 4000), "enough to be sure");
    }

    #[test]
    fn lines_that_were_not_passed_on_do_not_move_the_position() {
        let mut known = Seen::nothing(1000);
        known.add_known(b"a\n");
        assert_eq!((known.at(), known.find(b"a\nb\n", true)), (1000, Found::At(2)));
        assert_eq!(known.positions(2, b"a\nb\n"), 998..1002);
        known.advance(b"b\n");
        assert_eq!((known.at(), known.find(b"a\nb\nc\n", true)), (1002, Found::At(4)));
    }

    #[test]
    fn a_log_that_repeats_itself_is_found_by_the_lines_before() {
        let dots = b".\n".repeat(4000);
        let mut known = seen(&[b"begin\n", &dots[..6000]].concat());
        assert!(matches!(known.find(&dots, false), Found::Somewhere(_)), "any of them may be the last one");
        assert_eq!(known.find(&[b"begin\n", &dots[..]].concat(), true), Found::At(6006));
        known = seen(&dots[..6000]);
        known.begins(1000);
        assert_eq!(known.find(&dots, true), Found::At(6000), "at its position in the whole file");
    }

    proptest! {
        #[test]
        fn the_end_is_found_wherever_the_read_begins(
            known in "([ab]{0,2}\n){1,30}", more in "([ab]{0,2}\n){0,10}", back in 0usize..60
        ) {
            let mut all = known.clone().into_bytes();
            all.extend(more.bytes());
            let from = known.len().saturating_sub(back);
            let mut seen = seen(known.as_bytes());
            seen.begins(1000);
            match seen.find(&all[from..], from == 0) {
                Found::At(found) => prop_assert_eq!(found, known.len() - from),
                Found::Somewhere(_) | Found::Nowhere => prop_assert!(from > 0),
            }
        }
    }
}
