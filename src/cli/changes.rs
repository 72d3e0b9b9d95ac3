//! Prints the changes of a cluster file, as text and as JSON.

use crate::model::text::printable;
use crate::model::{Drift, Effect};
use serde_json::{Value, json};
use similar::{DiffOp, capture_diff_slices};
use std::io::{self, Write};

/// Prints each change: its key, when it takes effect, and the values; lists item by item.
pub(super) fn print(out: &mut impl Write, changes: &[Drift]) -> io::Result<()> {
    for Drift { key, running, file, effect } in changes {
        writeln!(out, "{} ({})", printable(key), effect.text())?;
        let list = |value: &Value| value.as_array().into_iter().flatten().map(value_text).collect::<Vec<_>>();
        if !running.is_array() && !file.is_array() {
            writeln!(out, "  {} -> {}", value_text(running), value_text(file))?;
            continue;
        }
        let (old, new) = (list(running), list(file));
        for op in capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            for words in &old[op.old_range()] {
                writeln!(out, "  - {words}")?;
            }
            for words in &new[op.new_range()] {
                writeln!(out, "  + {words}")?;
            }
        }
    }
    Ok(())
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => printable(text).into_owned(),
        value => printable(&value.to_string()).into_owned(),
    }
}

/// As JSON: `key`, `running`, `file`, `effect`, `node_type`.
pub(super) fn for_scripts(changes: &[Drift]) -> Vec<Value> {
    let row = |Drift { key, running, file, effect }: &Drift| {
        let kind = if let Effect::EndsWorkers(kind) = effect { Some(kind) } else { None };
        json!({"key": key, "running": running, "file": file, "effect": effect.name(), "node_type": kind})
    };
    changes.iter().map(row).collect()
}
