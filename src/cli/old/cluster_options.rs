//! Options of an old line that select its cluster, before or after the command's name.

use super::line::{Line, one};
use crate::config::{self, Env};
use std::path::Path;

/// Ray's default port of the GCS.
const GCS_PORT: &str = ":6379";

/// Options that select a cluster.
const CLUSTER_OPTIONS: [&str; 6] = ["--cluster", "-c", "--infra", "--config", "--address", "--gcs"];

/// Rewrites `--config` and `--cluster` with a cluster file, `--cluster_yaml`, and `--address HOST:6379`, and removes
/// what is no longer needed.
///
/// # Errors
///
/// The line names several paths.
pub fn renew(line: &mut Line, env: &Env) -> Result<(), String> {
    let infra = |path: &str| Some(vec!["--infra".to_owned(), path.to_owned()]);
    line.replace(&["--cluster_yaml"], |_, file| infra(file));
    line.replace(&["--cluster", "-c"], |_, name| is_file(name).then(|| infra(name)).flatten());
    line.replace(&["--config"], |_, file| {
        let is_path = !file.is_empty() && config::has_clusters(&env.expand(Path::new(file)));
        is_path.then(|| infra(file)).flatten()
    });
    let has_gcs = line.has("--gcs");
    line.replace(&["--address"], |_, address| {
        let host = address.strip_suffix(GCS_PORT).filter(|host| !has_gcs && !host.contains('/'))?;
        let dashboard = format!("http://{host}:8265");
        Some(["--address", &dashboard, "--gcs", address].map(str::to_owned).into())
    });
    line.take("--verbose");
    if let Some(file) = line.value("--marin-config")? {
        let is_here =
            Path::new(&file) == Path::new(".marin.yaml") || Path::new(&file) == env.cwd().join(".marin.yaml");
        if !is_here {
            line.answer("variables are read only from .marin.yaml in the current directory");
        }
    }
    only_one(line)
}

/// Whether a word is the name of a cluster file rather than of a cluster or a command.
pub fn is_file(word: &str) -> bool {
    let is_yaml = [".yaml", ".yml"].iter().any(|end| word.ends_with(end));
    is_yaml && (!word.contains(char::is_whitespace) || Path::new(word).exists())
}

/// Whether the line selects a cluster, by an option or by a file after the command's name.
pub fn is_named(line: &Line) -> bool {
    CLUSTER_OPTIONS.iter().any(|option| line.has(option)) || line.rest.iter().any(|word| is_file(word))
}

/// Moves the options that select a cluster from after the command's name to the front.
pub fn to_front(line: &mut Line) {
    let mut front = Vec::new();
    line.replace(&CLUSTER_OPTIONS, |name, value| {
        front.extend([name.to_owned(), value.to_owned()]);
        Some(Vec::new())
    });
    line.first.splice(0..0, front);
}

/// Keeps one of several `--infra` that name the same path.
///
/// # Errors
///
/// They name different ones.
pub fn only_one(line: &mut Line) -> Result<(), String> {
    let mut paths: Vec<String> = Vec::new();
    line.replace(&["--infra"], |_, path| {
        let is_new = !paths.iter().any(|p| p == path);
        paths.extend(is_new.then(|| path.to_owned()));
        (!is_new).then(Vec::new)
    });
    one(paths, "the location of the cluster files").map(|_| ())
}
