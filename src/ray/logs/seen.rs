//! Where a read of a file's end stands in the file: Ray's state API gives lines from the end and no positions, so that
//! what is known is recognized by its last bytes.

use std::ops::Range;

/// The last known bytes of a file, and the position behind them.
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
    /// Behind so many bytes of the read, and nowhere else.
    At(usize),
    /// At several places, the last one being this: the log repeats itself. A longer read may tell.
    Somewhere(usize),
    /// Not in it.
    Nowhere,
}

impl Seen {
    /// Bytes that are compared, and that have to match unless the file has fewer.
    const REMEMBERED: usize = 16 << 10;
    const ENOUGH: usize = 2 << 10;

    /// Nothing of a file, whose lines shall begin at that position.
    pub const fn nothing(at: u64) -> Self {
        Self { end: Vec::new(), at, begin: None }
    }

    /// The file begins at that position.
    pub fn begins(&mut self, at: u64) {
        self.begin = Some(at);
    }

    /// Position behind what is known.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Adds whole lines that follow.
    pub fn advance(&mut self, lines: &[u8]) {
        self.at += lines.len() as u64;
        self.end.extend_from_slice(&lines[lines.len().saturating_sub(Self::REMEMBERED)..]);
        let surplus = self.end.len().saturating_sub(Self::REMEMBERED);
        self.end.drain(..surplus);
    }

    /// Looks for the known end in whole lines that were read from the file's end: each line break that has the known
    /// bytes before it, as far as the read goes back. In a read of the whole file it is where it was.
    pub fn find(&self, now: &[u8], is_all: bool) -> Found {
        let needed = self.end.len().min(Self::ENOUGH);
        let is_end = |end: usize| {
            let common = end.min(self.end.len());
            common >= needed && now[end - common..end] == self.end[self.end.len() - common..]
        };
        if self.end.is_empty() {
            return Found::At(0);
        }
        let known = self.begin.and_then(|begin| usize::try_from(self.at - begin).ok());
        if let Some(end) = known.filter(|end| is_all && *end <= now.len() && is_end(*end)) {
            return Found::At(end);
        }
        let breaks = now.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        let mut found = breaks.filter(|end| is_end(*end));
        match (found.next(), found.next()) {
            // Few bytes may be there twice.
            (Some(last), None) if is_all || needed == Self::ENOUGH => Found::At(last),
            (Some(last), _) => Found::Somewhere(last),
            (None, _) => Found::Nowhere,
        }
    }

    /// The position of each byte of a read in which the known end is behind `found` bytes: that of the first one. What
    /// would be before position 0 is left out.
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
    fn what_is_known_is_found_by_its_end() {
        let known = seen(b"a\nb\n");
        assert_eq!((known.at(), known.find(b"a\nb\n", true)), (1004, Found::At(4)));
        assert_eq!(known.find(b"x\na\nb\nc\n", true), Found::At(6));
        assert_eq!(known.find(b"x\na\nb\nc\n", false), Found::Somewhere(6), "it may be there twice");
        assert_eq!(known.find(b"b\nc\n", false), Found::Nowhere, "the read does not reach back far enough");
        assert_eq!(known.positions(6, b"x\na\nb\nc\n"), 998..1006);
        assert_eq!(Seen::nothing(0).find(b"a\n", false), Found::At(0), "all of it is new");
        let lines: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let known = seen(&lines);
        assert_eq!(known.find(&lines[4000..], false), Found::At(lines.len() - 4000), "enough to be sure");
    }

    #[test]
    fn a_log_that_repeats_itself_is_told_by_what_stands_before() {
        let dots = b".\n".repeat(4000);
        let mut known = seen(&[b"begin\n", &dots[..6000]].concat());
        assert!(matches!(known.find(&dots, false), Found::Somewhere(_)), "any of them may be the last one");
        assert_eq!(known.find(&[b"begin\n", &dots[..]].concat(), true), Found::At(6006));
        known = seen(&dots[..6000]);
        known.begins(1000);
        assert_eq!(known.find(&dots, true), Found::At(6000), "where it was in the whole file");
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
