//! What a file was: where it lay and what stood in it, as a hash.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// SHA-256 of a file's place and text, as `sha256:` and 64 digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// Of a file that lies there, links resolved, with this text.
    pub fn of(place: &[u8], text: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length keeps a byte from counting once as the path's and once as the text's.
        hash.update((place.len() as u64).to_be_bytes());
        hash.update(place);
        hash.update(text);
        let hex = hash.finalize().0.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        Self(format!("sha256:{hex}"))
    }

    /// As a record keeps it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_and_text_both_count() {
        let of = |place: &str, text: &str| Digest::of(place.as_bytes(), text.as_bytes());
        assert_eq!(of("/a", "b"), of("/a", "b"));
        assert_ne!(of("/a", "b"), of("/", "ab"));
        assert_ne!(of("/a", "b"), of("/c", "b"));
        // Of eight zero bytes, the length of an empty place: `head -c8 /dev/zero | sha256sum`.
        let zeros = "sha256:af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc";
        assert_eq!(of("", "").as_str(), zeros);
    }
}
