//! The results of `setup`, check by check.

use crate::cli::{columns, hints, output};
use crate::model::{Hint, Problem, Target};
use serde_json::{Value, json};
use std::io::Write;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    /// It was not ok, and has been fixed.
    Fixed,
    /// The operator has to act.
    ActionNeeded,
    /// No cluster here needs it.
    NotNeeded,
    /// It cannot be checked here.
    NotChecked,
}

impl Status {
    const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fixed => "fixed",
            Self::ActionNeeded => "action needed",
            Self::NotNeeded => "not needed",
            Self::NotChecked => "not checked",
        }
    }

    /// Its name in JSON.
    const fn name(self) -> &'static str {
        match self {
            Self::ActionNeeded => "needs-action",
            Self::NotNeeded => "not-needed",
            Self::NotChecked => "not-checked",
            other => other.label(),
        }
    }
}

/// One check.
pub(super) struct Check {
    /// Its name in JSON.
    name: &'static str,
    /// What it concerns, if there are several: a project, a file, a secret, a cluster.
    of: String,
    pub status: Status,
    what: String,
    hint: Hint,
}

impl Check {
    pub fn new(name: &'static str, of: impl Into<String>, status: Status, what: impl Into<String>) -> Self {
        Self { name, of: of.into(), status, what: what.into(), hint: Hint::none() }
    }

    /// A check that needs action by the operator.
    pub fn needs(
        name: &'static str,
        of: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<Hint>,
    ) -> Self {
        Self { hint: hint.into(), ..Self::new(name, of, Status::ActionNeeded, what) }
    }

    /// Like [`Self::needs`], from a problem.
    pub fn problem(name: &'static str, of: impl Into<String>, problem: &Problem) -> Self {
        Self::needs(name, of, &problem.what, &problem.hint)
    }

    /// The finding.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The same, with a summary of several checks with this result.
    pub fn among(self, words: &str) -> Self {
        Self { what: format!("{words}; {}", self.what), ..self }
    }

    fn row(&self) -> Vec<String> {
        vec![self.status.label().into(), self.name.into(), self.of.clone(), self.what.clone()]
    }

    fn as_json(&self) -> Value {
        let mut value = json!({"check": self.name, "target": self.of, "status": self.status.name(), "message": self.what});
        hints::add(&mut value, Some(&self.hint), Target::default());
        value
    }
}

/// Prints all checks, followed by what the operator has to do.
pub(super) fn print(checks: &[Check], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return output::json(&checks.iter().map(Check::as_json).collect::<Vec<_>>());
    }
    let mut out = output::stdout();
    let rows: Vec<_> = checks.iter().map(Check::row).collect();
    columns::print(&mut out, &["STATUS", "CHECK", "TARGET", "RESULT"], &rows)?;
    for check in checks.iter().filter(|check| !check.hint.is_empty()) {
        let of = if check.of.is_empty() { String::new() } else { format!(" ({})", check.of) };
        writeln!(out, "\n{}{of}:", check.name)?;
        for fix in check.hint.fixes() {
            writeln!(out, "  {}", fix.in_commands(Target::default()))?;
        }
    }
    Ok(())
}
