//! Formats clusters, values and findings.

use crate::cli::output;
use crate::infra::{Finding, Row, Severity, State};
use crate::model::amount::counted;
use crate::model::json::object;
use crate::model::text::printable;
use serde_json::{Value, json};
use std::io::Write;

/// Columns of `configs list`.
pub const LIST_HEADER: [&str; 9] =
    ["FILE", "CLUSTER", "ZONE", "TPU", "MIN WORKERS", "MAX", "IMAGE", "TOKEN SECRET", "STATE"];

/// The state of a file as shown to people.
pub fn state(state: State) -> &'static str {
    match state {
        State::Current => "current",
        State::Missing => "missing",
        State::OutOfDate => "out of date",
        State::Edited => "edited manually",
        State::Broken => "cannot be rendered",
        State::Orphan => "not in clusters.yaml: run `ray down` on it if it is running, then delete the file",
    }
}

/// The table cells of one cluster in `configs list`.
pub fn row_as_cells(row: &Row, how: State) -> Vec<String> {
    let kept = row.types.iter().skip(1).filter(|t| t.min_workers > 0);
    let kept = kept.map(|t| format!("{}: {}", t.accelerator_type, t.min_workers));
    let min: Vec<String> = [row.count("min_workers").to_string()].into_iter().chain(kept).collect();
    vec![
        format!("{}.yaml", row.stem),
        row.text("cluster_name").into(),
        row.text("zone").into(),
        row.text("tpu").into(),
        min.join(", "),
        row.count("max_workers").to_string(),
        row.image(),
        row.text("token_secret").into(),
        state(how).into(),
    ]
}

/// The JSON row of one cluster in `configs list`.
pub fn row_as_json(row: &Row, how: State) -> Value {
    // The cluster's name has the same key as in the output of other commands.
    let key = |key: &str| if key == "cluster_name" { "cluster" } else { key }.to_owned();
    let values = row.values.iter();
    let values = values.map(|v| (key(v.key), serde_json::to_value(&v.value).unwrap_or_default()));
    let mut all = object(values);
    all["file"] = json!(format!("{}.yaml", row.stem));
    all["state"] = json!(state_name(how));
    all
}

/// The state of a file as written in JSON.
pub fn state_name(how: State) -> &'static str {
    match how {
        State::Current => "current",
        State::Missing => "missing",
        State::OutOfDate => "out-of-date",
        State::Edited => "edited",
        State::Orphan => "orphan",
        State::Broken => "broken",
    }
}

/// A YAML value formatted on one line.
pub fn value(value: &serde_yaml::Value) -> String {
    match value {
        serde_yaml::Value::String(text) => text.clone(),
        serde_yaml::Value::Mapping(map) if map.is_empty() => "-".into(),
        other => serde_json::to_string(other)
            .unwrap_or_default()
            .replace(['"', '{', '}'], "")
            .replace(':', ": ")
            .replace(',', ", "),
    }
}

/// Prints findings as `file:line: severity: message [rule]`, each with its hint.
pub fn findings(out: &mut impl Write, findings: &[Finding]) -> anyhow::Result<()> {
    for f in findings {
        let line = f.line.map(|l| format!(":{l}")).unwrap_or_default();
        let severity = severity(f.severity);
        let text = format!("{}{line}: {severity}: {} [{}]", f.file.display(), f.what, f.rule);
        writeln!(out, "{}\n    {}", printable(&text), printable(&f.hint))?;
    }
    Ok(())
}

/// Prints the number of findings.
pub fn summary(out: &mut impl Write, findings: &[Finding], files: usize) -> anyhow::Result<()> {
    let of = |wanted: Severity| findings.iter().filter(|f| f.severity == wanted).count();
    let (errors, warnings) =
        (counted(of(Severity::Error), "error"), counted(of(Severity::Warning), "warning"));
    Ok(writeln!(out, "{} checked: {errors}, {warnings}", counted(files, "file"))?)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// The JSON object of a finding.
pub fn finding_as_json(f: &Finding) -> Value {
    json!({
        "file": output::path(&f.file), "line": f.line, "severity": severity(f.severity), "rule": f.rule, "message": f.what,
        "hint": f.hint,
    })
}
