//! The names of clusters in a column: a prefix common to all is cut when there is no room for it.

use crate::app::{App, Cluster};
use crate::model::text::printable;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// A prefix shorter than this is not worth an ellipsis.
const WORTH: usize = 3;

/// How the names of clusters are shown.
pub struct Names {
    /// Bytes left out at their beginning.
    cut: usize,
    /// Width of the longest, as it is shown.
    pub width: u16,
}

impl Names {
    /// For a column of at most `most` cells.
    pub fn of(app: &App, most: u16) -> Self {
        let names = || app.clusters().iter().map(|c| c.name().as_str());
        let files = app.broken().iter().map(|(file, _)| file.rsplit('/').next().unwrap_or(file));
        let longest = names().chain(files).map(UnicodeWidthStr::width).max().unwrap_or(0);
        let shared = if longest > usize::from(most) { shared(names()) } else { 0 };
        // The ellipsis takes a cell of its own.
        let shown = if shared > 0 { longest + 1 - shared } else { longest };
        Self { cut: shared, width: u16::try_from(shown).unwrap_or(most).clamp(8, most) }
    }

    /// A cluster's name as the column shows it.
    pub fn shown<'c>(&self, cluster: &'c Cluster) -> Cow<'c, str> {
        let name = cluster.name().as_str();
        match name.get(self.cut..).filter(|_| self.cut > 0) {
            Some(rest) => Cow::Owned(format!("…{}", printable(rest))),
            None => printable(name),
        }
    }
}

/// Bytes that all names begin with, up to a hyphen.
fn shared<'a>(mut names: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = names.next() else { return 0 };
    let mut prefix = first;
    let mut others = 0;
    for name in names {
        others += 1;
        let same = prefix.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let hyphen = prefix.as_bytes()[..same].iter().rposition(|b| *b == b'-');
        prefix = &prefix[..hyphen.map_or(0, |at| at + 1)];
    }
    if others > 0 && prefix.len() > WORTH { prefix.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn only_what_all_names_begin_with_can_be_left_out() {
        assert_eq!(
            shared(["marin-us-east1", "marin-us-east5", "marin-eu-west4"].into_iter()),
            "marin-".len()
        );
        assert_eq!(shared(["marin-a", "marin-a-vllm"].into_iter()), "marin-".len());
        assert_eq!(shared(["marin-a", "lab"].into_iter()), 0);
        assert_eq!(shared(["marin-a"].into_iter()), 0, "an only name is shown as it is");
        assert_eq!(shared(["é-a", "ê-b"].into_iter()), 0);
        assert_eq!(shared([].into_iter()), 0);
    }
}
