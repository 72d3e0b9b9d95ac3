//! Converts responses to the model. Pure: bytes and messages in, plain data out.
//!
//! Both channels yield the same model; fields that a channel does not have are optional.

pub mod demand;
pub mod envelope;
pub mod host;
pub mod interner;
pub mod jobs;
pub mod names;
pub mod nodes;
pub mod physical;
pub mod report;
pub mod state;
pub mod status_text;

use crate::model::sort;
use crate::model::{Autoscaler, NodeTypeCount, Text};
use std::collections::BTreeMap;

/// At most `limit` bytes of `s`, cut between characters.
pub fn cut(s: &str, limit: usize) -> &str {
    if s.len() <= limit {
        return s;
    }
    let end = (0..=limit).rev().find(|i| s.is_char_boundary(*i)).unwrap_or(0);
    &s[..end]
}

/// Counts by node type while a report is read.
#[derive(Default)]
pub struct Types(BTreeMap<String, NodeTypeCount>);

impl Types {
    /// The counts of one type.
    pub fn of(&mut self, name: &str) -> &mut NodeTypeCount {
        self.0
            .entry(name.to_owned())
            .or_insert_with(|| NodeTypeCount { name: Text::from(name), ..NodeTypeCount::default() })
    }

    /// Busiest first.
    pub fn finish(self) -> Vec<NodeTypeCount> {
        let mut types: Vec<_> = self.0.into_values().collect();
        sort::by_key(&mut types, |t| {
            std::cmp::Reverse(t.active + t.idle + t.pending + t.launching + t.failed)
        });
        types
    }
}

/// Maximum plausible count of machines or jobs in a report: larger ones are wrong and would overflow sums.
const MAX_COUNT: u32 = 1_000_000;

/// Adds to a count, up to the maximum plausible one.
pub fn add(count: &mut u32, more: u32) {
    *count = count.saturating_add(more).min(MAX_COUNT);
}

/// Sorts demands largest first and failures newest first.
pub fn in_order(mut report: Autoscaler) -> Autoscaler {
    report.demands.iter_mut().for_each(|d| d.count = d.count.min(MAX_COUNT.into()));
    sort::by_key(&mut report.demands, |d| std::cmp::Reverse(d.count));
    sort::by_key(&mut report.failures, |f| std::cmp::Reverse(f.at));
    report
}

#[cfg(test)]
pub(super) mod fixtures {
    //! Recorded responses of real heads.
    use std::fs;
    use std::path::Path;

    /// The Ray versions whose responses were recorded.
    pub const VERSIONS: [&str; 2] = ["2.53.0", "2.60.0"];

    /// The body of one recorded response, as text.
    pub fn text(version: &str, name: &str) -> String {
        String::from_utf8(body(version, name)).unwrap()
    }

    /// The body of one recorded response.
    pub fn body(version: &str, name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(version)
            .join(format!("{name}.http.json"));
        let text = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let recorded: serde_json::Value = serde_json::from_slice(&text).unwrap();
        match &recorded["body"] {
            serde_json::Value::String(text) => text.clone().into_bytes(),
            json => serde_json::to_vec(json).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("", 0)), ("a", "aé", ""));
    }
}
