//! Renders Jinja templates in strict mode: a missing value is an error, never an empty string.

use super::table::{Row, Table};
use crate::config::yaml;
use crate::model::sort;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use std::path::{Path, PathBuf};

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {why}, for cluster {cluster}; {hint}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
pub struct TemplateError {
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// The cluster that it was rendered for.
    pub cluster: String,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl TemplateError {
    /// Whether another cluster's file fails for the same reason.
    pub fn is_same_cause(&self, other: &Self) -> bool {
        (&self.file, self.line, &self.why) == (&other.file, other.line, &other.why)
    }
}

/// Renders one cluster's file, without its header.
pub fn render(folder: &Path, table: &Table, row: &Row) -> Result<String, TemplateError> {
    let name = row.text("template").to_owned();
    let error = |file: &str, line, why: String, hint: &str| TemplateError {
        file: folder.join(file),
        line,
        cluster: row.stem.clone(),
        why,
        hint: hint.into(),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let dir = folder.to_owned();
    environment.set_loader(move |name| {
        // A template may extend files of its own directory only.
        let outside = name.contains(['/', '\\']);
        match (!outside).then(|| yaml::read(&dir.join(name))) {
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(e)) => Err(minijinja::Error::new(minijinja::ErrorKind::TemplateNotFound, e.why)),
            None => Ok(None),
        }
    });
    let values: std::collections::BTreeMap<&str, &serde_yaml::Value> =
        sort::collected(row.values.iter().map(|v| (v.key, &v.value)));
    let context = context! { worker_types => row.types, ..minijinja::Value::from_serialize(&values) };
    let rendered = environment.get_template(&name).and_then(|t| t.render(context)).map_err(|e| {
        let mut cause = &e;
        // The innermost error has the cause and the line.
        while let Some(inner) = std::error::Error::source(cause).and_then(|s| s.downcast_ref()) {
            cause = inner;
        }
        let why =
            cause.detail().map_or_else(|| cause.kind().to_string(), |d| format!("{}: {d}", cause.kind()));
        let hint = match cause.kind() {
            minijinja::ErrorKind::UndefinedError => "correct the name, or add the key to clusters.yaml",
            minijinja::ErrorKind::TemplateNotFound => {
                "`template:` must name a file in the directory of clusters.yaml"
            }
            _ => "correct this line",
        };
        error(cause.name().unwrap_or(&name), cause.line(), why, hint)
    })?;
    let parsed = yaml::parse::<serde_yaml::Value>(&rendered, &table.file);
    parsed.map(|_| rendered).map_err(|e| {
        let at = e.at.map(|(line, _)| format!(" at line {line}")).unwrap_or_default();
        let why = format!("the rendered output is not valid YAML{at}: {}", e.why);
        error(&name, None, why, "correct the template")
    })
}
