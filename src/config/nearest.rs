//! "Did you mean": the known word that is nearest to a mistyped one.

/// The candidate within two edits (or a third of the word's length), nearest first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let scored = candidates.into_iter().map(|c| (distance(word, c), c)).filter(|(d, _)| *d <= limit);
    scored.min().map(|(_, c)| c)
}

/// Edits (insert, delete, replace) that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_nonsense_none() {
        let words = ["infra", "clusters", "theme"];
        assert_eq!(nearest("infar", words), Some("infra"));
        assert_eq!(nearest("cluster", words), Some("clusters"));
        assert_eq!(nearest("zzzzzz", words), None);
    }
}
