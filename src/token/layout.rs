//! Paths of token files: a cluster's own in `clusters/NAME`, which the user writes, and a secret's copy in
//! `secrets/PROJECT.SECRET`, which [`TokenSources::keep`] writes. Separate directories prevent name collisions.
//!
//! The older layout had both in one directory. Its files are still found, after the new places; a copy is recognized by
//! the version file next to it.

use super::TokenSources;
use crate::model::{ClusterName, Secret, SecretName};
use std::path::{Path, PathBuf};

impl TokenSources {
    /// The directories of the token files: the clusters' own, and the copies of secrets.
    pub fn folders(&self) -> [PathBuf; 2] {
        [self.cache.join("clusters"), self.cache.join("secrets")]
    }

    /// Path of the cluster's own token file, which the user writes.
    pub fn cluster_file(&self, cluster: &ClusterName) -> PathBuf {
        let [clusters, _] = self.folders();
        clusters.join(cluster.as_str())
    }

    /// Path of the secret's copy.
    pub fn file_of(&self, secret: &SecretName) -> PathBuf {
        let [_, secrets] = self.folders();
        secrets.join(copy_name(secret))
    }

    /// `~/.ray/auth_token`, unless there is no home.
    pub fn home_file(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".ray/auth_token"))
    }

    /// All files that a fetched token is saved in: the secret's copy, and for the default secret also `~/.ray/auth_token`.
    pub fn files_of(&self, secret: &SecretName) -> Vec<PathBuf> {
        let home = self.home_file().filter(|_| secret.is_default());
        std::iter::once(self.file_of(secret)).chain(home).collect()
    }

    /// The cluster's own files, in search order; none if its name would lead out of the directory.
    pub(super) fn own_files(&self, cluster: &ClusterName) -> Vec<PathBuf> {
        let name = cluster.as_str();
        if name.contains(['/', '\\', '\0']) || matches!(name, "" | "." | "..") {
            return Vec::new();
        }
        let old = Some(self.cache.join(name)).filter(|f| is_there(f) && !is_copy(f) && !is_version(f));
        [Some(self.cluster_file(cluster)), old].into_iter().flatten().collect()
    }

    /// The secret's copies, in search order.
    pub(super) fn copies(&self, secret: &SecretName) -> Vec<PathBuf> {
        [Some(self.file_of(secret)), self.old_copy(secret)].into_iter().flatten().collect()
    }

    /// Whether a token is a copy of the secret with the same name in another project, and not of this secret.
    pub(super) fn is_of_another_project(&self, secret: &SecretName, token: &Secret) -> bool {
        let [_, secrets] = self.folders();
        let (own, ending) = (copy_name(secret), format!(".{}", secret.name));
        let holds = |file: &Path| super::file::read(file).is_ok_and(|found| found.token == *token);
        let names = std::fs::read_dir(&secrets).into_iter().flatten().flatten();
        let others = names.filter(|entry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name != own && name.ends_with(&ending))
        });
        !self.copies(secret).iter().any(|copy| holds(copy))
            && others.into_iter().any(|entry| holds(&entry.path()))
    }

    /// The secret's copy in the older layout, if it is still there.
    pub(super) fn old_copy(&self, secret: &SecretName) -> Option<PathBuf> {
        Some(self.cache.join(copy_name(secret))).filter(|file| is_there(file) && is_copy(file))
    }
}

/// File name of a secret's copy. It has only letters, digits, `-`, `_`, `.` and `:`, so it cannot lead to another
/// directory.
fn copy_name(secret: &SecretName) -> String {
    let project = secret.project.as_deref().filter(|p| SecretName::is_project(p)).unwrap_or("unknown");
    format!("{project}.{}", secret.name)
}

const VERSION: &str = ".version";

/// The file next to a secret's copy that contains its version.
pub(super) fn version_file(copy: &Path) -> PathBuf {
    next_to(copy, VERSION)
}

/// The file next to a secret's copy that contains the token that was replaced.
pub(super) fn previous_file(copy: &Path) -> PathBuf {
    next_to(copy, ".previous")
}

fn next_to(copy: &Path, ending: &str) -> PathBuf {
    let mut name = copy.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether this is a file and not a directory: the older layout has its files next to the directories `clusters` and
/// `secrets`.
fn is_there(file: &Path) -> bool {
    file.exists() && !file.is_dir()
}

fn is_copy(file: &Path) -> bool {
    is_there(&version_file(file))
}

/// Whether this is the version file of a copy, which is not a token itself.
fn is_version(file: &Path) -> bool {
    let copy = file.to_str().and_then(|name| name.strip_suffix(VERSION));
    copy.is_some_and(|copy| is_there(Path::new(copy)))
}
