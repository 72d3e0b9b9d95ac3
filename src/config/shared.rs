//! `.marin.yaml`: variables shared by a project's members, in its `env` map.
//!
//! Its values may be secrets: no error shows one.

use super::yaml::{self, FileError};
use serde_yaml::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the working directory.
pub const FILE: &str = ".marin.yaml";
/// Variables that the console itself uses.
pub const NAMES: [&str; 3] = ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"];

/// The variables of a file's text; none when there is no `env` in it.
pub fn parse(text: &str, file: &Path) -> Result<BTreeMap<String, String>, FileError> {
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    // Parsing into a value first gives errors that show the position and never the content.
    let parsed: Value = yaml::parse(text, file)?;
    let variables = match parsed.get("env") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Mapping(variables)) => variables,
        Some(_) => {
            return Err(FileError::new(file, "`env` is not a mapping", "write `NAME: value` below it"));
        }
    };
    let mut read = BTreeMap::new();
    for (name, value) in variables {
        let Some(name) = name.as_str().filter(|n| !n.is_empty() && !n.contains(['=', '\0'])) else {
            return Err(FileError::new(file, "`env` has an invalid name", "use a name without `=`"));
        };
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            _ => {
                // After a typing error the name may contain the value, so it is shown only when it looks like a name.
                let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                let what = if is_plain { format!("`env.{name}`") } else { "a variable in `env`".to_owned() };
                let why = format!("{what} is not a single value");
                return Err(FileError::new(file, why, "write it as one string, in quotes"));
            }
        };
        read.insert(name.to_owned(), value);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::super::Env;
    use super::*;

    fn env(text: &str, vars: &[(&str, &str)]) -> Result<Env, FileError> {
        Ok(Env::new(vars, "/w").with_shared(parse(text, Path::new(FILE))?))
    }

    #[test]
    fn only_unset_variables_for_reaching_a_cluster_are_used() {
        let text = "env:\n  RAY_AUTH_TOKEN: shared\n  RAY_ADDRESS: http://shared:8265\n  HOME: /elsewhere\n  \
                    WANDB_API_KEY: key\n  STEPS: 10\n  DEBUG: true\n  NOTHING:\nother: 1\n";
        let env = env(text, &[("RAY_ADDRESS", "http://mine:8265")]).unwrap();
        assert_eq!(env.var("RAY_AUTH_TOKEN"), Some("shared"));
        assert_eq!(env.var("RAY_ADDRESS"), Some("http://mine:8265"));
        assert_eq!((env.home(), env.var("WANDB_API_KEY")), (None, None));
        let for_job = ["WANDB_API_KEY", "STEPS", "DEBUG", "NOTHING"].map(|name| env.for_job(name));
        assert_eq!(for_job, [Some("key"), Some("10"), Some("true"), None]);
        assert!(!format!("{env:?}").contains("shared:8265"), "{env:?}");
    }

    #[test]
    fn an_empty_variable_counts_as_set() {
        let env = env("env: {RAY_AUTH_TOKEN: shared}", &[("RAY_AUTH_TOKEN", "")]).unwrap();
        assert_eq!((env.var("RAY_AUTH_TOKEN"), env.for_job("RAY_AUTH_TOKEN")), (None, None));
    }

    #[test]
    fn an_empty_file_has_no_variables_and_errors_show_no_value() {
        for text in ["", "\n", "other: 1\n", "env:\n"] {
            assert!(env(text, &[]).is_ok(), "{text:?}");
        }
        let broken = [
            "env: s3cret",
            "env: [s3cret]",
            "env: {A: [s3cret]}",
            "env: {1: s3cret}",
            "env: {A: s3cret",
            "env:\n\tA: s3cret",
        ];
        for text in broken {
            let error = env(text, &[]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret") && !error.hint.is_empty(), "{error}");
        }
    }
}
