//! Resolves the name of a cluster on the command line. Never guesses.

use super::Entry;
use super::nearest::nearest;
use crate::model::ClusterSpec;

/// Prefix of all of Marin's clusters; users leave it out.
const PREFIX: &str = "marin-";

/// Why a name could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// Several clusters begin with the name.
    #[error("`{name}` is ambiguous: {}; type more of the name", .candidates.join(", "))]
    Ambiguous { name: String, candidates: Vec<String> },
    /// No cluster has the name.
    #[error("no cluster `{name}`{}; `marin-tui clusters` lists them", .nearest.as_ref().map(|n| format!(", did you mean `{n}`?")).unwrap_or_default())]
    Unknown { name: String, nearest: Option<String> },
}

/// The cluster of that name: exactly, with `marin-` before it, by its file's name, or by an unambiguous prefix, in
/// this order.
pub fn resolve<'a>(name: &str, entries: &'a [Entry]) -> Result<&'a ClusterSpec, Unresolved> {
    let clusters = || entries.iter().filter_map(Entry::cluster);
    let short = |c: &'a ClusterSpec| c.name.as_str().strip_prefix(PREFIX).unwrap_or(c.name.as_str());
    let stem = |c: &'a ClusterSpec| {
        c.file.as_ref().and_then(|f| f.file_stem()).map(|s| s.to_string_lossy().into_owned())
    };
    let exact: [&dyn Fn(&'a ClusterSpec) -> bool; 3] =
        [&|c| c.name.as_str() == name, &|c| short(c) == name, &|c| {
            stem(c).is_some_and(|s| s == name || s.strip_prefix(PREFIX) == Some(name))
        }];
    for is in exact {
        if let Some(found) = clusters().find(|c| is(c)) {
            return Ok(found);
        }
    }
    let begins = |c: &&'a ClusterSpec| {
        !name.is_empty() && (c.name.as_str().starts_with(name) || short(c).starts_with(name))
    };
    let candidates: Vec<&ClusterSpec> = clusters().filter(begins).collect();
    match candidates.as_slice() {
        [only] => Ok(only),
        [] => {
            let names = clusters().flat_map(|c| [c.name.as_str(), short(c)]);
            Err(Unresolved::Unknown { name: name.into(), nearest: nearest(name, names).map(str::to_owned) })
        }
        several => {
            let candidates = several.iter().map(|c| c.name.to_string()).collect();
            Err(Unresolved::Ambiguous { name: name.into(), candidates })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Settings, cluster};
    use std::path::Path;

    fn fleet() -> Vec<Entry> {
        let names = [
            ("marin-us-east5", "marin-us-east5"),
            ("marin-us-east5-a", "marin-us-east5-a"),
            ("marin-us-east5-b-vllm", "marin-us-east5-b-vllm"),
            ("marin-us-east1-d", "marin-us-east1"),
            ("marin-us-east1-d-vllm", "marin-us-east1-d-vllm"),
            ("lab", "lab"),
        ];
        let spec = |(name, file): (&str, &str)| {
            let text = format!("cluster_name: {name}\nprovider: {{type: gcp}}\n");
            let file = format!("infra/{file}.yaml");
            cluster::parse(&text, Path::new(&file), &Settings::default(), &Env::default()).unwrap()
        };
        names.map(spec).into_iter().map(Entry::Cluster).collect()
    }

    fn name(n: &str) -> Result<String, Unresolved> {
        resolve(n, &fleet()).map(|c| c.name.to_string())
    }

    #[test]
    fn names_prefixes_and_files_resolve_and_nothing_is_guessed() {
        assert_eq!(name("us-east5").unwrap(), "marin-us-east5");
        assert_eq!(name("marin-us-east5-a").unwrap(), "marin-us-east5-a");
        assert_eq!(name("us-east1").unwrap(), "marin-us-east1-d");
        assert_eq!(name("us-east1-d").unwrap(), "marin-us-east1-d");
        assert_eq!(name("us-east5-b").unwrap(), "marin-us-east5-b-vllm");
        assert_eq!(name("l").unwrap(), "lab");
        let Err(Unresolved::Ambiguous { candidates, .. }) = name("us-e") else { panic!("not ambiguous") };
        assert_eq!(candidates.len(), 5);
        assert_eq!(
            name("us-esat5"),
            Err(Unresolved::Unknown { name: "us-esat5".into(), nearest: Some("us-east5".into()) })
        );
        assert!(name("").is_err());
    }
}
