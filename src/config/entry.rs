//! The content of a directory of cluster files: clusters, and files that could not be read.

use super::yaml;
use crate::model::{ClusterSpec, Problem};
use std::path::PathBuf;

/// A file that could not be read or parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Path of the cluster file.
    pub file: PathBuf,
    /// The error with its position and hint.
    pub problem: Problem,
}

impl Broken {
    /// The names that its cluster may have: that of the file, and the one in its text.
    pub fn names(&self) -> Vec<String> {
        let stem = self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let text = yaml::read(&self.file).unwrap_or_default();
        let named = text.lines().find_map(|line| line.strip_prefix("cluster_name:"));
        let named = named.map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
        stem.into_iter().chain(named).collect()
    }
}

/// A cluster or a broken file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there are a few dozen, and nearly all are clusters")]
pub enum Entry {
    /// A cluster file that could be read.
    Cluster(ClusterSpec),
    /// A broken file.
    Broken(Broken),
}

impl Entry {
    /// The broken file, unless it is a cluster.
    pub const fn broken(&self) -> Option<&Broken> {
        match self {
            Self::Cluster(_) => None,
            Self::Broken(broken) => Some(broken),
        }
    }

    /// The cluster, unless the file is broken.
    pub fn cluster(&self) -> Option<&ClusterSpec> {
        match self {
            Self::Cluster(spec) => Some(spec),
            Self::Broken(_) => None,
        }
    }
}
