//! Which cluster a typed name means, in commands and on the console alike. Never guesses.

use super::ClusterSpec;

/// What a typed name means.
#[derive(Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// Exactly one cluster has this name or prefix.
    One(&'a ClusterSpec),
    /// No cluster has this name or prefix.
    Nothing,
    /// One of several: more of the name is needed.
    Several(Vec<&'a ClusterSpec>),
}

/// A name without its first word, which is often that of the team and the same in all: `us-central2` for
/// `marin-us-central2`. A name of one word is left as it is.
pub fn without_first_word(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, rest)| rest)
}

/// The cluster of that name: exactly, without its first word, by its file's name, or by how one of these begins, in this
/// order; at each step only if no other cluster has it too.
pub fn named<'a>(name: &str, clusters: &[&'a ClusterSpec]) -> Named<'a> {
    if name.is_empty() {
        return Named::Nothing;
    }
    let full = |c: &ClusterSpec| c.name.as_str().to_owned();
    let short = |c: &ClusterSpec| without_first_word(c.name.as_str()).to_owned();
    let file = |c: &ClusterSpec| {
        c.file
            .as_ref()
            .and_then(|f| f.file_stem())
            .map(|s| s.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let steps: [&dyn Fn(&ClusterSpec) -> bool; 4] = [
        &|c| full(c) == name,
        &|c| short(c) == name,
        &|c| file(c) == name || without_first_word(&file(c)) == name,
        &|c| full(c).starts_with(name) || short(c).starts_with(name),
    ];
    for is in steps {
        let found: Vec<&'a ClusterSpec> = clusters.iter().copied().filter(|c| is(c)).collect();
        match found.as_slice() {
            [] => {}
            [only] => return Named::One(only),
            _ => return Named::Several(found),
        }
    }
    Named::Nothing
}
