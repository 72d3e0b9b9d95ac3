//! The shape of lines: lines that differ only in numbers, addresses and host names have the same shape.

use super::prefix::{beginning, prefixed};
use std::borrow::Cow;

/// The shape of a line as a hash: equal for lines that differ only in what [`normal`] leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape(pub u64);

/// Number of bytes of a line that determine its shape.
const MAX_BYTES: usize = 2048;

/// The shape of a line without Ray's prefix.
pub fn shape(line: &str) -> Shape {
    let mut hash = Fnv::default();
    pieces(beginning(prefixed(line).text, MAX_BYTES), |piece| hash.add(piece));
    Shape(hash.0)
}

/// The shape of a traceback. Frames are not normalized: workers that fail in the same way fail at the same line of the
/// same file.
pub(super) fn shape_of_trace<'a>(lines: impl IntoIterator<Item = &'a str>) -> Shape {
    let mut hash = Fnv::default();
    for line in lines {
        hash.add(b"\n");
        if line.starts_with([' ', '\t']) {
            hash.add(line.as_bytes());
        } else {
            pieces(beginning(line, MAX_BYTES), |piece| hash.add(piece));
        }
    }
    Shape(hash.0)
}

/// The line with `#` for numbers, hexadecimal ids, UUIDs and addresses, one blank for several, and without Ray's
/// prefix. `nan` and `inf` are kept: the line of a worker whose loss is not finite differs from the
/// others'.
pub fn normal(line: &str) -> Cow<'_, str> {
    let text = beginning(prefixed(line).text, MAX_BYTES);
    let mut out = Vec::with_capacity(text.len());
    pieces(text, |piece| out.extend_from_slice(piece));
    if out == text.as_bytes() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// FNV-1a (draft-eastlake-fnv): short inputs, no attacker who gains from a collision, and the same on every machine.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Class of a byte in the shape of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Digit,
    Letter,
    Blank,
    Other,
}

const fn class(byte: u8) -> Class {
    match byte {
        b'0'..=b'9' => Class::Digit,
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => Class::Letter,
        b' ' | b'\t' => Class::Blank,
        _ => Class::Other,
    }
}

/// Passes the parts of the normalized text to `out`, which concatenates them.
fn pieces(text: &str, mut out: impl FnMut(&[u8])) {
    let bytes = text.trim_end().as_bytes();
    let mut at = 0;
    // Whether the last part was a placeholder: `10.0.0.7` and `1,200` are one.
    let mut is_after_number = false;
    while at < bytes.len() {
        let rest = &bytes[at..];
        match class(rest[0]) {
            Class::Blank => {
                out(b" ");
                at += rest.iter().take_while(|b| class(**b) == Class::Blank).count();
                is_after_number = false;
            }
            Class::Digit | Class::Letter => {
                let is_word = |b: &u8| matches!(class(*b), Class::Digit | Class::Letter);
                let len = rest.iter().take_while(|b| is_word(b)).count();
                let word = &rest[..len];
                if is_id(word) || is_after_number && is_group(word) {
                    if !is_after_number {
                        out(b"#");
                    }
                    is_after_number = true;
                } else {
                    is_after_number = parts(word, is_after_number, &mut out);
                }
                at += len;
            }
            Class::Other => {
                let next = rest.get(1).copied().map_or(Class::Other, class);
                let joins = match rest[0] {
                    // A sign, and what is within a number, an address or a UUID.
                    b'.' | b',' | b':' | b'-' => is_after_number && begins_id(&rest[1..]),
                    _ => false,
                };
                let is_sign = matches!(rest[0], b'-' | b'+')
                    && next == Class::Digit
                    && at.checked_sub(1).is_none_or(|before| !matches!(class(bytes[before]), Class::Letter));
                // Bars of tqdm are as long as they are full.
                let is_bar = rest[0] == b'#';
                if is_bar && !is_after_number {
                    out(b"#");
                } else if !(joins || is_sign || is_bar) {
                    out(&rest[..1]);
                }
                is_after_number = (is_after_number && joins) || is_bar;
                at += 1;
            }
        }
    }
}

/// Whether a part of a number, an address or a UUID begins here.
fn begins_id(rest: &[u8]) -> bool {
    let len = rest.iter().take_while(|b| matches!(class(**b), Class::Digit | Class::Letter)).count();
    rest.first().is_some_and(u8::is_ascii_digit) || is_group(&rest[..len])
}

/// A group of a UUID after the first one.
fn is_group(word: &[u8]) -> bool {
    matches!(word.len(), 4 | 12) && word.iter().all(u8::is_ascii_hexdigit)
}

/// A hexadecimal number or id: `0x7f6a2b72718b`, `3f2a9c01`, also numbers alone.
fn is_id(word: &[u8]) -> bool {
    let (digits, least) = match word {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 1),
        all => (all, 6),
    };
    digits.len() >= least
        && digits.iter().all(u8::is_ascii_hexdigit)
        && (least == 1 || digits.iter().any(u8::is_ascii_digit))
}

/// A word with digits in it: `worker7` is `worker#`; `2.31e-05` is a number. Whether it ends in one.
fn parts(word: &[u8], mut is_after_number: bool, out: &mut impl FnMut(&[u8])) -> bool {
    // The exponent of a number that began before the point.
    if is_after_number
        && let [b'e' | b'E', rest @ ..] = word
        && rest.iter().all(u8::is_ascii_digit)
    {
        return true;
    }
    for part in word.chunk_by(|a, b| class(*a) == class(*b)) {
        let is_number = class(part[0]) == Class::Digit;
        match (is_number, is_after_number) {
            (true, true) => {}
            (true, false) => out(b"#"),
            (false, _) if is_after_number && matches!(part, b"e" | b"E") => continue,
            (false, _) => out(part),
        }
        is_after_number = is_number;
    }
    is_after_number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_addresses_and_ids_are_left_out() {
        for (line, expected) in [
            ("step 1,200 loss 2.31 lr 3e-05 left 12%", "step # loss # lr # left #%"),
            ("(train pid=7, ip=10.0.0.7) step 3", "step #"),
            ("I1121 08:11:00.582 123 train.py:88] rank=3 (-1.5)", "I# # # train.py:#] rank=# (#)"),
            ("2026-11-21 13:58:14,123 - INFO - 0x7f6a2b72718b", "# # - INFO - #"),
            ("10.0.0.7:8476 and fd00::7", "# and fd#::#"),
            ("at t1v-n-3f2a9c01-w-7 of worker-12", "at t#v-n-#-w-# of worker-#"),
            ("id 123e4567-e89b-12d3-a456-426614174000", "id #"),
            ("node 4d1f6c0e9a7b8c5d2e3f4a5b6c7d8e9f0a1b2c3d", "node #"),
            (" 45%|####5     | 45/100 [00:10<00:12,  4.5it/s]", " #%|# | #/# [#<#, #it/s]"),
            ("loss nan, loss -inf", "loss nan, loss -inf"),
            ("a   b  ", "a b"),
            ("no numbers, e.g. none", "no numbers, e.g. none"),
            ("well-known: a-b, c:d", "well-known: a-b, c:d"),
            ("", ""),
        ] {
            assert_eq!(normal(line), expected, "{line}");
        }
        assert!(matches!(normal("plain words"), Cow::Borrowed("plain words")));
    }

    #[test]
    fn a_shape_is_that_of_the_normal_line() {
        let alike = [
            "(a pid=1) step 9 loss 2.31",
            "step 10 loss 12.5",
            "(b pid=2, ip=10.0.0.1) step 1,000 loss 3e-05",
        ];
        assert!(alike.iter().all(|line| shape(line) == shape(alike[0])));
        assert_ne!(shape("step 9 loss nan"), shape(alike[0]));
        assert_ne!(shape("step 9 los 2.31"), shape(alike[0]));
    }

    #[test]
    fn frames_count_as_they_are() {
        let of = |line: u32, index: u32| {
            let frame = format!("  File \"a.py\", line {line}, in f");
            let said = format!("IndexError: {index} is too much");
            shape_of_trace(["Traceback (most recent call last):", &frame, &said])
        };
        assert_eq!(of(3, 7), of(3, 256));
        assert_ne!(of(3, 7), of(4, 7));
    }

    proptest! {
        #[test]
        fn equal_normal_lines_have_equal_shapes(text in "[a-c0-9 .,:#e+-]{0,40}", other in "[a-c0-9 .,:#e+-]{0,40}") {
            prop_assert_eq!(normal(&text) == normal(&other), shape(&text) == shape(&other));
        }

        #[test]
        fn any_number_gives_the_same_shape(a in 0u64..10_000_000, b in 0u64..10_000_000, x in -1e3f64..1e3) {
            let line = |n: u64, x: f64| format!("worker-{n} at step {n}/{n}: loss={x:.4} ({n}ms)");
            prop_assert_eq!(shape(&line(a, x)), shape(&line(b, -x)));
        }
    }
}
