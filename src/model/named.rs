//! Resolves a typed cluster name, in commands and in the console. An ambiguous name is never resolved.

use super::ClusterSpec;

/// Result of resolving a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// Exactly one cluster has this name or prefix.
    One(&'a ClusterSpec),
    /// No cluster has this name or prefix.
    Nothing,
    /// Several clusters match; more of the name is needed.
    Several(Vec<&'a ClusterSpec>),
}

/// A name without its first word, which is often the team's name and the same for all clusters: `us-central2` for
/// `marin-us-central2`. A name of one word is unchanged.
pub fn without_first_word(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, rest)| rest)
}

/// The name of a cluster's file, without its extension.
fn file(cluster: &ClusterSpec) -> String {
    let stem = cluster.file.as_ref().and_then(|file| file.file_stem());
    stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether this is a name of the cluster: the full name, the name without its first word, or that of its file.
pub fn is_named(cluster: &ClusterSpec, name: &str) -> bool {
    let (full, file) = (cluster.name.as_str(), file(cluster));
    [full, without_first_word(full), &file, without_first_word(&file)].contains(&name)
}

/// Finds the cluster with this name. In this order, `name` is compared with the full name, the name without its first
/// word, the file name, and prefixes of the names. The first comparison with a match decides; several matches are
/// ambiguous.
pub fn named<'a>(name: &str, clusters: &[&'a ClusterSpec]) -> Named<'a> {
    if name.is_empty() {
        return Named::Nothing;
    }
    let full = |c: &ClusterSpec| c.name.as_str().to_owned();
    let short = |c: &ClusterSpec| without_first_word(c.name.as_str()).to_owned();
    let steps: [&dyn Fn(&ClusterSpec) -> bool; 4] = [
        &|c| full(c) == name,
        &|c| short(c) == name,
        &|c| file(c) == name || without_first_word(&file(c)) == name,
        &|c| full(c).starts_with(name) || short(c).starts_with(name),
    ];
    for matches in steps {
        let found: Vec<&'a ClusterSpec> = clusters.iter().copied().filter(|c| matches(c)).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Named::One(only),
            _ => return Named::Several(found),
        }
    }
    Named::Nothing
}
