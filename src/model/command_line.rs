//! Command lines suggested in hints: each can be pasted into the shell in which the program was started.

use super::text::printable;
use super::{ClusterName, shown_address};
use std::path::Path;
use std::sync::OnceLock;

/// The options of this program's own command line, set once when it starts.
static GIVEN: OnceLock<Given> = OnceLock::new();

/// Options that select the clusters and settings. A suggested command line without them would use other clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    options: String,
    /// Whether they select exactly one cluster, so that `-c` is not needed.
    is_one: bool,
}

impl Given {
    /// The options `--infra` and `--config` as given.
    pub fn files(infra: Option<&Path>, config: Option<&Path>) -> Self {
        let mut given = Self::default();
        for (option, path) in [("--infra", infra), ("--config", config)] {
            if let Some(path) = path {
                given.add(option, &path.to_string_lossy());
            }
        }
        given
    }

    /// Adds `--address` and `--gcs`; passwords in URLs are masked.
    #[must_use]
    pub fn at(mut self, address: Option<&str>, gcs: Option<&str>) -> Self {
        if let Some(address) = address {
            self.add("--address", &shown_address(address));
            self.is_one = true;
        }
        if let Some(gcs) = gcs {
            self.add("--gcs", gcs);
        }
        self
    }

    /// Stores the options for all command lines of this process; only the first call has an effect.
    pub fn keep(self) {
        let _ = GIVEN.set(self);
    }

    fn add(&mut self, option: &str, value: &str) {
        self.options = format!("{} {option} {}", self.options, shell_quote(value));
    }

    fn line(&self, cluster: Option<&ClusterName>, rest: &str) -> String {
        let options = &self.options;
        match cluster.filter(|_| !self.is_one) {
            Some(name) => format!("marin-tui{options} -c {} {rest}", shell_quote(name.as_str())),
            None => format!("marin-tui{options} {rest}"),
        }
    }
}

/// The command line that runs this command of the program, for the cluster if there is one.
pub(super) fn line(cluster: Option<&ClusterName>, rest: &str) -> String {
    GIVEN.get_or_init(Given::default).line(cluster, rest)
}

/// Quotes a word for a shell, and removes control characters.
pub fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", printable(text).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_options_that_select_the_same_clusters() {
        let lab = ClusterName::new("lab");
        let none = Given::default();
        assert_eq!(none.line(Some(&lab), "status"), "marin-tui -c lab status");
        assert_eq!(none.line(None, "clusters"), "marin-tui clusters");
        let files = Given::files(Some(Path::new("my infra")), Some(Path::new("/etc/m.yaml")));
        let line = files.line(Some(&lab), "restart-cluster --resume");
        assert_eq!(line, "marin-tui --infra 'my infra' --config /etc/m.yaml -c lab restart-cluster --resume");
        let at = Given::default().at(Some("http://me:hunter2@h:8265"), Some("h:6379"));
        let line = at.line(Some(&ClusterName::new("h:8265")), "status");
        assert!(line.starts_with("marin-tui --address ") && line.ends_with(" --gcs h:6379 status"), "{line}");
        assert!(!line.contains("hunter2") && !line.contains("-c "), "{line}");
    }
}
