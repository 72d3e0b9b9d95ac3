//! Protects local files when a job is resubmitted from its record.
//!
//! Any job can write a record on the cluster that names `~/.ssh/id_ed25519` as its requirements. Values of a form that
//! come unchanged from the record are sent as they are: no path in them is expanded, read or uploaded.

use serde_json::{Map, Value};
use std::path::Path;

/// A runtime environment as a JSON object.
type Environment = Map<String, Value>;

/// Settings that refer to something on the submitting machine, each with the path. Ray's own client reads and replaces
/// them (`upload_working_dir_if_needed`, `parse_and_validate_pip`, `.._uv`, `.._conda`), so its own records contain
/// none.
pub(super) fn local_paths(env: &Environment) -> Vec<(&'static str, &str)> {
    let text = |key: &str| env.get(key).and_then(Value::as_str);
    let is_yaml = |path: &&str| {
        let extension = Path::new(path.trim()).extension();
        extension.is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"))
    };
    let dir = text("working_dir").filter(|dir| !is_uri(dir)).map(|path| ("working_dir", path));
    let modules = env.get("py_modules").and_then(Value::as_array).into_iter().flatten();
    let modules = modules.filter_map(Value::as_str).filter(|path| !is_uri(path));
    let files = ["pip", "uv"].into_iter().filter_map(|key| Some((key, text(key)?)));
    // Any other text is the name of an environment on the cluster.
    let conda = text("conda").filter(is_yaml).map(|path| ("conda", path));
    dir.into_iter().chain(modules.map(|path| ("py_modules", path))).chain(files).chain(conda).collect()
}

/// A local path in the record that the operator did not type, and its field.
pub(super) fn untyped<'a>(env: &'a Environment, record: &Environment) -> Option<(&'static str, &'a str)> {
    let theirs = local_paths(record);
    let is_theirs = |(field, path): &(&str, &str)| {
        theirs.iter().any(|(at, recorded)| at == field && recorded.trim() == path.trim())
    };
    local_paths(env).into_iter().find(is_theirs)
}

/// A pattern in the record, such as `!.git`, that would include excluded files of a directory that the operator typed.
pub(super) fn widening<'a>(env: &'a Environment, record: &Environment) -> Option<&'a str> {
    let patterns = |env: &'a Environment| env.get("excludes").and_then(Value::as_array);
    let recorded = record.get("excludes").and_then(Value::as_array)?;
    let mut kept = patterns(env)?.iter().filter(|p| recorded.contains(p)).filter_map(Value::as_str);
    kept.find(|p| p.starts_with('!') && !local_paths(env).is_empty())
}

/// Whether a path is a URI that the cluster downloads: `gcs://`, `s3://`, ...
pub(super) fn is_uri(path: &str) -> bool {
    path.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn env(value: &Value) -> Environment {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn settings_that_rays_client_reads_locally_are_local_paths_and_its_own_records_have_none() {
        let hostile = env(&json!({
            "working_dir": "~", "py_modules": ["~/.aws", "gcs://_ray_pkg_1.zip", "$HOME/x"], "pip": "~/.ssh/id_ed25519",
            "uv": "/etc/passwd", "conda": "~/.config/secret.YAML"
        }));
        let paths: Vec<String> =
            local_paths(&hostile).iter().map(|(at, path)| format!("{at} {path}")).collect();
        assert_eq!(
            paths,
            [
                "working_dir ~",
                "py_modules ~/.aws",
                "py_modules $HOME/x",
                "pip ~/.ssh/id_ed25519",
                "uv /etc/passwd",
                "conda ~/.config/secret.YAML"
            ]
        );
        let rays = env(&json!({
            "working_dir": "gcs://_ray_pkg_1.zip", "py_modules": ["https://x/y.zip"], "conda": "base",
            "pip": {"packages": ["~/x"], "pip_check": false}, "uv": ["x"], "config": {"setup_timeout_seconds": 1}
        }));
        assert_eq!(local_paths(&rays), []);
    }

    #[test]
    fn only_values_that_differ_from_the_record_count_as_typed() {
        let record = env(&json!({"pip": " a.txt", "py_modules": ["~/.aws"], "excludes": ["!.git", "data"]}));
        let typed = env(&json!({"working_dir": "a.txt", "py_modules": ["~/.aws2"], "pip": ["a.txt"]}));
        assert_eq!(untyped(&typed, &record), None);
        assert_eq!(untyped(&env(&json!({"pip": "a.txt "})), &record), Some(("pip", "a.txt ")));
        assert_eq!(
            untyped(&env(&json!({"py_modules": ["x", "~/.aws"]})), &record),
            Some(("py_modules", "~/.aws"))
        );
        let excludes = env(&json!({"working_dir": "src", "excludes": ["!mine", "!.git"]}));
        assert_eq!(widening(&excludes, &record), Some("!.git"));
        assert_eq!(
            widening(&env(&json!({"working_dir": "src", "excludes": ["!mine", "data"]})), &record),
            None
        );
        assert_eq!(widening(&env(&json!({"excludes": ["!.git"]})), &record), None, "nothing is uploaded");
    }
}
