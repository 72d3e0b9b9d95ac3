//! The content of a folder of cluster files: clusters, and files that could not be read.

use crate::model::{ClusterSpec, Problem};
use std::path::PathBuf;

/// A file that could not be read or parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Path of the cluster file.
    pub file: PathBuf,
    /// The error with its place and hint.
    pub problem: Problem,
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
    /// The cluster, unless the file is broken.
    pub fn cluster(&self) -> Option<&ClusterSpec> {
        match self {
            Self::Cluster(spec) => Some(spec),
            Self::Broken(_) => None,
        }
    }
}
