//! A hash of a file's path and content.

use super::text::hex;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// SHA-256 of a file's path and content, as `sha256:` and 64 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// The digest of a file with this path, symbolic links resolved, and this content.
    pub fn of(path: &[u8], text: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length separates the path from the content.
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(path);
        hash.update(text);
        Self(format!("sha256:{}", hex(&hash.finalize())))
    }

    /// The digest as it is stored.
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
    fn path_and_content_both_count() {
        let of = |path: &str, text: &str| Digest::of(path.as_bytes(), text.as_bytes());
        assert_eq!(of("/a", "b"), of("/a", "b"));
        assert_ne!(of("/a", "b"), of("/", "ab"));
        assert_ne!(of("/a", "b"), of("/c", "b"));
        // The hash of eight zero bytes, the length of an empty path: `head -c8 /dev/zero | sha256sum`.
        let zeros = "sha256:af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc";
        assert_eq!(of("", "").as_str(), zeros);
    }
}
