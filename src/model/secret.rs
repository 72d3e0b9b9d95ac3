//! A value that must never be seen: tokens.

use std::fmt;
use std::sync::Arc;

/// A secret string. Prints as `***` everywhere; [`Secret::expose`] is called only where it goes on the wire or to
/// the clipboard.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret value.
    pub fn new(s: impl Into<Arc<str>>) -> Self {
        Self(s.into())
    }

    /// Returns the secret value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Beginnings of secrets that their issuers mark, and what each of them is.
const SIGNS: [(&str, &str); 5] = [
    ("hf_", "Hugging Face token"),
    ("AIza", "Google API key"),
    ("ghp_", "GitHub token"),
    ("sk-", "API key"),
    ("ya29.", "Google access token"),
];
/// Characters that a secret has at least after its beginning.
const SHORTEST: usize = 16;
/// A line of a private key's file.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
/// Words in the names of variables and options whose values are secret.
const NAMES: [&str; 7] = ["token", "secret", "password", "passwd", "key", "apikey", "credentials"];

/// What kind of secret a line seems to contain, by the form that its issuer gives it; none when none is seen.
pub fn marked_secret(line: &str) -> Option<&'static str> {
    if line.contains(PRIVATE_KEY) {
        return Some("private key");
    }
    let mut words = line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ':'));
    let sign = |word: &str| {
        let is = |sign: &str| word.starts_with(sign) && word.len() >= sign.len() + SHORTEST;
        SIGNS.iter().find(|(it, _)| is(it)).map(|(_, what)| *what)
    };
    words.find_map(sign)
}

/// Whether a command line seems to contain a secret: by its form, or as the value of a variable or an option whose name
/// says so, such as `WANDB_API_KEY=...` and `--token ...`.
pub fn is_secret_in(line: &str) -> bool {
    let is_name = |word: &str| {
        let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| NAMES.iter().any(|name| name.eq_ignore_ascii_case(part)))
    };
    let mut words = line.split_whitespace();
    let is_given = words.any(|word| match word.split_once(['=', ':']) {
        Some((name, value)) => is_name(name) && !value.is_empty(),
        None => word.starts_with('-') && is_name(word),
    });
    is_given || marked_secret(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_seen_by_their_form_and_their_name() {
        for line in [
            "WANDB_API_KEY=0123 python train.py",
            "python train.py --token abc",
            "curl -H authorization-token:abc",
            "DB_PASSWORD=x run",
            "echo hf_abcdefghijklmnop",
            "x --api-key=1",
        ] {
            assert!(is_secret_in(line), "{line}");
        }
        for line in [
            "python train.py --steps 10",
            "owner:dara !token",
            "key",
            "train.py --max-tokens 5 --tokenizer=x",
            "job:7 KEY=",
        ] {
            assert!(!is_secret_in(line), "{line}");
        }
        assert_eq!(marked_secret("key: \"sk-0123456789abcdef\""), Some("API key"));
        assert_eq!(marked_secret("sk-short"), None);
    }

    #[test]
    fn a_secret_prints_as_stars() {
        let s = Secret::new("hunter2");
        assert_eq!(format!("{s} {s:?} {:?}", Some(&s)), "*** *** Some(***)");
    }
}
