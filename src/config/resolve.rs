//! Resolves the name of a cluster on the command line.

use super::nearest::nearest;
use super::{Broken, Entry};
use crate::model::{ClusterSpec, Named, Target, is_named, named, without_first_word};

/// Why a name could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// Several clusters begin with the name.
    #[error("`{name}` is ambiguous: {}; type more of the name", .candidates.join(", "))]
    Ambiguous { name: String, candidates: Vec<String> },
    /// No cluster has the name.
    #[error("no cluster `{name}`{}; `{}` lists them", .nearest.as_ref().map(|n| format!(", did you mean `{n}`?")).unwrap_or_default(), Target::default().line("clusters"))]
    Unknown { name: String, nearest: Option<String> },
    /// No name was given, and there are several clusters.
    #[error("several clusters; choose one with --cluster: {}", .0.join(", "))]
    Several(Vec<String>),
    /// The cluster's file cannot be read.
    #[error("{0}")]
    Broken(String),
}

/// The cluster of that name, or the only one.
pub fn chosen<'a>(name: Option<&str>, entries: &'a [Entry]) -> Result<&'a ClusterSpec, Unresolved> {
    let clusters: Vec<&ClusterSpec> = entries.iter().filter_map(Entry::cluster).collect();
    match (name, &clusters[..], entries) {
        (Some(name), ..) => resolve(name, entries),
        (None, [only], _) => Ok(only),
        (None, [], [Entry::Broken(broken), ..]) => {
            Err(Unresolved::Broken(broken.problem.in_commands(Target::default())))
        }
        (None, all, _) => Err(Unresolved::Several(all.iter().map(|c| c.name.to_string()).collect())),
    }
}

/// The cluster of that name, resolved by [`crate::model::named()`]. A name that may be that of a broken file is not
/// resolved to another cluster.
pub fn resolve<'a>(name: &str, entries: &'a [Entry]) -> Result<&'a ClusterSpec, Unresolved> {
    let clusters: Vec<&ClusterSpec> = entries.iter().filter_map(Entry::cluster).collect();
    let found = named(name, &clusters);
    let is_full = matches!(&found, Named::One(cluster) if cluster.name.as_str() == name);
    let is_exact = matches!(&found, Named::One(cluster) if is_named(cluster, name));
    let may_be = |broken: &&Broken| {
        let forms = |known: &String| [known.clone(), without_first_word(known).to_owned()];
        let of_file = |form: String| if is_exact { form == name } else { form.starts_with(name) };
        !name.is_empty() && broken.names().iter().flat_map(forms).any(of_file)
    };
    let mut broken = entries.iter().filter_map(Entry::broken);
    if let Some(broken) = broken.find(may_be).filter(|_| !is_full) {
        return Err(Unresolved::Broken(broken.problem.in_commands(Target::default())));
    }
    match found {
        Named::One(cluster) => Ok(cluster),
        Named::Nothing => {
            let names = clusters.iter().map(|c| c.name.as_str());
            let names = names.flat_map(|name| [name, without_first_word(name)]);
            Err(Unresolved::Unknown { name: name.into(), nearest: nearest(name, names).map(str::to_owned) })
        }
        Named::Several(several) => {
            let candidates = several.iter().map(|c| c.name.to_string()).collect();
            Err(Unresolved::Ambiguous { name: name.into(), candidates })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Settings, cluster};
    use crate::model::{Problem, ProblemKind, Timestamp};
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
        // Two names that differ only in their first word are ambiguous without it.
        let twins = ["prod-a", "dev-a"].map(|name| {
            let text = format!("cluster_name: {name}\nprovider: {{type: gcp}}\n");
            cluster::parse(&text, Path::new("x.yaml"), &Settings::default(), &Env::default()).unwrap()
        });
        let twins = twins.map(Entry::Cluster);
        assert!(matches!(resolve("a", &twins), Err(Unresolved::Ambiguous { .. })));
        assert_eq!(resolve("dev-a", &twins).unwrap().name.as_str(), "dev-a");
    }

    #[test]
    fn a_name_of_a_broken_file_is_not_taken_for_another_cluster() {
        let folder = tempfile::tempdir().unwrap();
        // The name of the cluster is not that of the file.
        let file = folder.path().join("marin-us-east1.yaml");
        std::fs::write(&file, "cluster_name: \"marin-us-east1-d\"\nprovider: {\n").unwrap();
        let problem = Problem::new(ProblemKind::Config, "line 2", "", Timestamp::now());
        let mut entries = fleet();
        entries.retain(|entry| entry.cluster().unwrap().name.as_str() != "marin-us-east1-d");
        entries.push(Entry::Broken(Broken { file, problem }));
        for name in ["marin-us-east1-d", "us-east1-d", "us-east1", "marin-us-east1", "us-e"] {
            let found = resolve(name, &entries);
            assert_eq!(found, Err(Unresolved::Broken("line 2".into())), "{name}");
        }
        for name in ["marin-us-east1-d-vllm", "us-east1-d-vllm", "us-east1-d-v", "us-east5"] {
            assert!(resolve(name, &entries).is_ok(), "{name}");
        }
    }
}
