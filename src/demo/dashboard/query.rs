//! The query string of a request, parsed as aiohttp does.

use percent_encoding::percent_decode_str;

/// Decoded key-value pairs, in order.
pub(in crate::demo) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after `?`.
    pub fn new(text: &str) -> Self {
        let pairs = text.split('&').filter(|p| !p.is_empty());
        let pair = |p: &str| {
            let (k, v) = p.split_once('=').unwrap_or((p, ""));
            (unescape(&k.replace('+', " ")), unescape(&v.replace('+', " ")))
        };
        Self(pairs.map(pair).collect())
    }

    /// The first value of `key`.
    pub fn get<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).next()
    }

    /// All values of `key`.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Whether `key` has a value that Ray interprets as true.
    pub fn is_set(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "1" | "true"))
    }
}

/// Percent-decodes `text`.
pub(super) fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
