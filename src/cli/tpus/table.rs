//! The reconciled table, as text and for scripts.

use super::super::{columns, hints};
use crate::cli::output;
use crate::model::cloud::{Capacity, CloudView};
use crate::model::json::object;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{ClusterSpec, Node, Problem, Target, Text, Timestamp, Verb};
use crate::reconcile::{Chips, Row, TpuStatus, TypeCount, chips_by_generation, reconcile, types};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The answers of Google and Ray.
pub struct Answers<'a> {
    /// The cluster of the table.
    pub spec: &'a ClusterSpec,
    /// Google's answer.
    pub cloud: &'a CloudView,
    /// Ray's nodes, or why they cannot be read.
    pub nodes: &'a Result<Vec<Node>, Problem>,
    /// The time that ages are relative to.
    pub now: Timestamp,
}

impl Answers<'_> {
    /// Prints the table, rows with issues first. As JSON: `cluster`, `queried_ms`, `complete` (whether Google could
    /// list all), `ray` (`answered`, `error`, `hint`, `fixes`), `chips` by generation, `types`, `rows`.
    pub fn print(&self, as_json: bool) -> anyhow::Result<()> {
        let nodes = self.nodes.as_deref().ok();
        let rows = reconcile(self.spec.name.as_str(), self.cloud, nodes, self.now);
        let chips = chips_by_generation(&rows);
        let types = types(&self.spec.node_types, &rows, nodes);
        if as_json {
            output::json(&self.for_scripts(&rows, &chips, &types))?;
        } else {
            self.for_people(&mut output::stdout(), &rows, &chips, &types)?;
        }
        self.warn(&rows);
        Ok(())
    }

    fn for_people(
        &self,
        out: &mut impl Write,
        rows: &[Row],
        chips: &BTreeMap<&str, Chips>,
        types: &[TypeCount],
    ) -> io::Result<()> {
        if rows.is_empty() {
            writeln!(
                out,
                "no TPUs found for {} in {}",
                self.spec.name,
                self.spec.zone.as_deref().unwrap_or("-")
            )?;
        } else {
            let header =
                ["STATUS", "NAME", "TYPE", "CHIPS", "IN RAY", "CAPACITY", "MANAGED BY", "AGE", "NOTE"];
            let cells: Vec<_> = rows.iter().map(|row| cells(row, self.now, self.nodes.is_ok())).collect();
            columns::print(out, &header, &cells)?;
        }
        if !types.is_empty() {
            writeln!(out)?;
            let cells: Vec<_> = types.iter().map(type_cells).collect();
            columns::print(out, &["NODE TYPE", "MIN", "MAX", "EXISTING", "IN RAY"], &cells)?;
        }
        if !chips.is_empty() {
            writeln!(out)?;
        }
        for (generation, chips) in chips {
            writeln!(out, "{}", chips.text(generation, self.nodes.is_ok()))?;
        }
        let hints = hints(self.spec, rows, types);
        if !hints.is_empty() {
            writeln!(out, "\nHints:")?;
        }
        hints.iter().try_for_each(|line| writeln!(out, "  {}", printable(line)))
    }

    /// Warns on stderr about incomplete data.
    fn warn(&self, rows: &[Row]) {
        if let Err(problem) = self.nodes {
            let why = problem.in_commands(Target::of(&self.spec.name));
            let what = format!("no response from Ray; showing Google's data only: {why}");
            eprintln!("{}", printable(&what));
        }
        if !self.cloud.complete {
            eprintln!("Google could not list everything, so more TPUs may exist; try again in a minute");
        }
        if let Some(why) = &self.cloud.unlisted {
            eprintln!("Compute Engine TPUs may be missing: {why}");
        }
        if rows.iter().any(|r| r.status == TpuStatus::Ghost && r.state.is_none()) {
            let zone = self.spec.zone.as_deref().unwrap_or("-");
            eprintln!(
                "only {} was queried; workers in other zones are shown as `stale node`",
                printable(zone)
            );
        }
    }

    fn for_scripts(&self, rows: &[Row], chips: &BTreeMap<&str, Chips>, types: &[TypeCount]) -> Value {
        let problem = self.nodes.as_ref().err();
        let target = Target::of(&self.spec.name);
        let chips = object(chips.iter().map(|(generation, c)| {
            let value = json!({"held": c.held, "in_ray": c.in_ray, "holds_quota": c.holds_quota, "waiting": c.waiting});
            (*generation, value)
        }));
        let types: Vec<_> = types
            .iter()
            .map(|t| {
                json!({"name": t.name, "min": t.min, "max": t.max, "existing": t.there,
                    "in_ray": t.registered, "missing": t.short()})
            })
            .collect();
        let mut ray = json!({"responded": problem.is_none(), "error": problem.map(|p| &p.what)});
        hints::add(&mut ray, problem.map(|p| &p.hint), target);
        json!({
            "cluster": self.spec.name.as_str(), "zone": self.spec.zone, "queried_ms": self.cloud.queried.as_millis(),
            "complete": self.cloud.is_whole(), "unlisted": self.cloud.unlisted.as_ref().map(Text::raw),
            "ray": ray, "chips": chips, "types": types, "rows": rows.iter().map(|row| row_for_scripts(row, target)).collect::<Vec<_>>(),
        })
    }
}

fn cells(row: &Row, now: Timestamp, ray: bool) -> Vec<String> {
    let (hosts, joined) = row.hosts;
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        row.status.label().into(),
        row.name.raw().into(),
        or_dash(row.accelerator_type.raw().to_owned()),
        row.chips.to_string(),
        match (ray, hosts) {
            (_, 0) if joined == 0 => "-".into(),
            (_, 0) => joined.to_string(),
            (false, hosts) => format!("?/{hosts}"),
            (true, hosts) => format!("{joined}/{hosts}"),
        },
        row.capacity.map_or("-", Capacity::label).into(),
        row.keeper.label().into(),
        row.created.map_or_else(|| "-".into(), |at| brief(at.age(now))),
        row.note.as_ref().map_or_else(String::new, |n| n.raw().to_owned()),
    ]
}

fn type_cells(count: &TypeCount) -> Vec<String> {
    let registered = count.registered.map_or_else(|| "-".into(), |n| n.to_string());
    vec![
        count.name.clone(),
        count.min.to_string(),
        count.max.to_string(),
        count.there.to_string(),
        registered,
    ]
}

/// One hint per kind of issue.
fn hints(spec: &ClusterSpec, rows: &[Row], types: &[TypeCount]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut statuses: Vec<TpuStatus> = rows.iter().map(|r| r.status).collect();
    statuses.dedup();
    for status in statuses {
        let mine: Vec<&Row> = rows.iter().filter(|r| r.status == status).collect();
        // If there are several machines, none is named.
        let name = if let [only] = mine[..] { only.name.raw() } else { "" };
        let hint = status.hint(name).in_commands(Target::of(&spec.name));
        if hint.is_empty() {
            continue;
        }
        let missing: Vec<String> = mine.iter().flat_map(|r| &r.missing).map(|a| a.raw().to_owned()).collect();
        let missing = match status {
            TpuStatus::Incomplete | TpuStatus::NotInRay if !missing.is_empty() => {
                format!(" (missing in Ray: {})", missing.join(", "))
            }
            _ => String::new(),
        };
        let word = match status {
            TpuStatus::HoldsQuota if mine.len() > 1 => "preempted, hold quota",
            TpuStatus::Terminated if mine.len() > 1 => "terminated, hold quota",
            status => status.label(),
        };
        lines.push(format!("{} {word}: {hint}{missing}", mine.len()));
    }
    for count in types.iter().filter(|t| t.short() > 0) {
        let cause = Verb::MonitorLog.to("read monitor.log for the cause").in_commands(Target::of(&spec.name));
        lines.push(format!(
            "{} is {} below its minimum of {}: {cause}",
            count.name,
            count.short(),
            count.min
        ));
    }
    lines
}

fn row_for_scripts(row: &Row, target: Target<'_>) -> Value {
    let raw = |texts: &[Text]| texts.iter().map(|t| t.raw().to_owned()).collect::<Vec<_>>();
    let mut value = json!({
        "status": row.status.label(), "name": row.name.raw(), "accelerator_type": row.accelerator_type.raw(),
        "chips": row.chips, "resource": row.resource, "state": row.state.as_ref().map(Text::raw), "node_type": row.ray_type.as_ref().map(Text::raw),
        "hosts": row.hosts.0, "in_ray": row.hosts.1, "addresses": row.logins.iter().map(|h| h.internal.raw()).collect::<Vec<_>>(), "missing": raw(&row.missing),
        "capacity": row.capacity.map(Capacity::label), "managed_by": row.keeper.label(),
        "created_ms": row.created.map(Timestamp::as_millis), "note": row.note.as_ref().map(Text::raw),
    });
    hints::add(&mut value, Some(&row.hint()), target);
    value
}
