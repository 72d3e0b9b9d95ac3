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

/// The complete names of a cluster: the full name, that without its first word, and the same of its file.
struct Names {
    full: String,
    short: String,
    file: String,
    short_file: String,
}

impl Names {
    fn of(cluster: &ClusterSpec) -> Self {
        let file = cluster.file.as_ref().and_then(|file| file.file_stem());
        let file = file.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let full = cluster.name.as_str();
        let short = |name| without_first_word(name).to_owned();
        Self { full: full.to_owned(), short: short(full), short_file: short(&file), file }
    }
}

/// Whether this is a complete name of the cluster, and not only the beginning of one.
pub fn is_named(cluster: &ClusterSpec, name: &str) -> bool {
    let Names { full, short, file, short_file } = Names::of(cluster);
    [full, short, file, short_file].iter().any(|known| known == name)
}

/// Finds the cluster with this name. In this order, `name` is compared with the full name, the name without its first
/// word, the file name, and prefixes of the names. The first comparison with a match decides; several matches are
/// ambiguous.
pub fn named<'a>(name: &str, clusters: &[&'a ClusterSpec]) -> Named<'a> {
    if name.is_empty() {
        return Named::Nothing;
    }
    let all: Vec<_> = clusters.iter().map(|cluster| (*cluster, Names::of(cluster))).collect();
    let steps: [&dyn Fn(&Names) -> bool; 4] = [
        &|of| of.full == name,
        &|of| of.short == name,
        &|of| of.file == name || of.short_file == name,
        &|of| of.full.starts_with(name) || of.short.starts_with(name),
    ];
    for matches in steps {
        let matching = all.iter().filter(|(_, names)| matches(names));
        let found: Vec<&'a ClusterSpec> = matching.map(|(cluster, _)| *cluster).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Named::One(only),
            _ => return Named::Several(found),
        }
    }
    Named::Nothing
}
