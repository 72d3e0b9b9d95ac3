//! Natural order of names.

use std::cmp::Ordering;

/// Compares names in natural order: runs of digits compare as numbers, so that `w-2` comes before `w-10`.
pub fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    loop {
        let (run, other) = (digits(left), digits(right));
        let by = if run > 0 && other > 0 {
            let (number, against) = (significant(&left[..run]), significant(&right[..other]));
            number.len().cmp(&against.len()).then_with(|| number.cmp(against))
        } else if let (Some(b'0'..=b'9'), Some(b'0'..=b'9')) = (left.first(), right.first())
            && (run > 0) != (other > 0)
        {
            // Numbers come before hexadecimal names: comparing their digits would not be a total order.
            other.cmp(&run)
        } else {
            left.first().cmp(&right.first())
        };
        if by != Ordering::Equal || left.is_empty() {
            return by;
        }
        (left, right) =
            if run > 0 && other > 0 { (&left[run..], &right[other..]) } else { (&left[1..], &right[1..]) };
    }
}

/// The number of digits that a text begins with; 0 if a letter follows, as in the hexadecimal names of machines.
fn digits(text: &[u8]) -> usize {
    let run = text.iter().take_while(|c| c.is_ascii_digit()).count();
    if text.get(run).is_some_and(u8::is_ascii_alphabetic) { 0 } else { run }
}

/// Digits without leading zeros.
fn significant(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|c| **c == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["w-10", "w-2", "w-1", "w-100", "w-1-b", "w", "", "x-01", "w-1-a", "w-020"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["", "w", "w-1", "w-1-a", "w-1-b", "w-2", "w-10", "w-020", "w-100", "x-01"]);
        // A sort may panic if this is not a total order.
        let names = ["w-9", "w-10", "w-1a", "w-10a", "w-9b", "w-1", "w-a", "w", "w-1-a", "w-01"];
        for a in names {
            for b in names {
                assert_eq!(natural(a, b), natural(b, a).reverse(), "{a} {b}");
                for c in names.into_iter().filter(|c| natural(a, b).is_lt() && natural(b, c).is_le()) {
                    assert_eq!(natural(a, c), Ordering::Less, "{a} {b} {c}");
                }
            }
        }
        assert_eq!(natural("w-0afe", "w-07fe"), Ordering::Greater, "hexadecimal");
        assert_eq!(natural("w-01", "w-1"), Ordering::Equal, "the id of the node decides");
        assert_eq!(natural("99999999999999999999999", "100000000000000000000000"), Ordering::Less);
    }
}
