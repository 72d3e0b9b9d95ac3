//! "Did you mean": the known word that is nearest to a mistyped one.

use strsim::osa_distance;

/// The candidate within two edits (or a third of the word's length), nearest first. Two adjacent letters that are
/// swapped count as one edit.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let scored = candidates.into_iter().map(|c| (osa_distance(word, c), c)).filter(|(d, _)| *d <= limit);
    scored.min().map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_word_and_nonsense_finds_none() {
        let words = ["infra", "clusters", "theme"];
        assert_eq!(nearest("infar", words), Some("infra"));
        assert_eq!(nearest("cluster", words), Some("clusters"));
        assert_eq!(nearest("zzzzzz", words), None);
    }
}
