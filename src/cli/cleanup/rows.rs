//! The findings and results of a cleanup, as a table and for scripts.

use super::super::reach::Reach;
use super::super::{columns, hints};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{Cleaned, Fix, Hint, Leftover, LeftoverKind, Target, Text};
use crate::operation::{Ended, FullDisk, HostFound, LeftoverProcess, Subject};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// What happens to a finding.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It would be removed.
    Planned,
    /// It is only reported.
    Named,
    /// The result for a TPU or a queued resource.
    Tpu(Cleaned),
    /// The result for something on a host.
    Host(Ended),
}

/// A finding, its evidence, and its result.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its kind: the word of a leftover, `process`, `lock file` or `disk`.
    kind: &'static str,
    host: Option<Text>,
    name: String,
    proof: String,
    outcome: Outcome,
}

impl Row {
    pub(super) fn tpu(leftover: &Leftover, outcome: Outcome) -> Self {
        let proof = match leftover.holds.as_slice() {
            [] if leftover.kind == LeftoverKind::QueuedResource => {
                "suspended by Google; it holds no TPU VM".to_owned()
            }
            [] if leftover.is_terminated => format!("terminated by Google ({} chips)", leftover.chips),
            [] => format!("preempted by Google ({} chips)", leftover.chips),
            holds if leftover.is_terminated => {
                format!("all of its {} TPU VMs were preempted or terminated", holds.len())
            }
            holds => format!("all of its {} TPU VMs were preempted", holds.len()),
        };
        Self { kind: leftover.kind.name(), host: None, name: leftover.name.raw().to_owned(), proof, outcome }
    }

    /// The leftovers of a host, with the results so far.
    pub(super) fn of_host(found: &HostFound, ended: &[(Subject, Ended)]) -> Vec<Self> {
        let Ok(left) = &found.left else { return Vec::new() };
        let host = Some(found.host.internal.clone());
        let outcome = |subject: &Subject| {
            let known = ended.iter().find(|(of, _)| of == subject);
            known.map_or(Outcome::Planned, |(_, ended)| Outcome::Host(ended.clone()))
        };
        let process = |p: &LeftoverProcess| {
            let age = brief(Duration::from_secs(p.age));
            let devices: Vec<_> = p.devices.iter().map(ToString::to_string).collect();
            let holds =
                if devices.is_empty() { String::new() } else { format!("; holds {}", devices.join(" ")) };
            let (name, proof) =
                (format!("{} {}", p.pid, p.name), format!("{}; running for {age}{holds}", p.proof));
            let outcome = outcome(&Subject::Process(p.pid));
            Self { kind: "process", host: host.clone(), name, proof, outcome }
        };
        let lock = |path: &Text| Self {
            kind: "lock file",
            host: host.clone(),
            name: path.raw().to_owned(),
            proof: "no other process holds it or a TPU".to_owned(),
            outcome: outcome(&Subject::Lock(path.raw().to_owned())),
        };
        let disk = |disk: &FullDisk| Self {
            kind: "disk",
            host: host.clone(),
            name: disk.mount.raw().to_owned(),
            proof: format!("{}% used, {:.1} GB free", disk.used, disk.free as f64 / 1e9),
            outcome: Outcome::Named,
        };
        let processes = left.processes.iter().map(process);
        processes.chain(left.locks.iter().map(lock)).chain(left.disks.iter().map(disk)).collect()
    }

    /// Whether a cleanup acts on it.
    pub(super) const fn is_action(&self) -> bool {
        !matches!(self.outcome, Outcome::Named)
    }

    /// Whether nothing is left to do.
    pub(super) fn is_well(&self) -> bool {
        match &self.outcome {
            Outcome::Planned | Outcome::Named => true,
            Outcome::Tpu(cleaned) => cleaned.is_well(),
            Outcome::Host(ended) => !matches!(ended, Ended::Failed(_)),
        }
    }

    /// Its name in the audit log.
    pub(super) fn audit_label(&self) -> String {
        let host = self.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
        format!("run-cleanup {} {}{host}", self.kind, printable(&self.name))
    }

    /// The result in words; for something that is only reported, what to do about it.
    pub(super) fn text(&self) -> String {
        let (outcome, why) = self.outcome();
        why.map_or_else(|| outcome.to_owned(), |why| format!("{outcome}: {why}"))
    }

    fn outcome(&self) -> (&'static str, Option<String>) {
        let is_tpu = self.host.is_none();
        match &self.outcome {
            Outcome::Planned if is_tpu => ("would be deleted", None),
            Outcome::Planned if self.kind == "process" => ("would be killed", None),
            Outcome::Planned => ("would be removed", None),
            Outcome::Named => ("reported only", None),
            Outcome::Tpu(Cleaned::Deleted) => ("deleted", None),
            Outcome::Host(Ended::Done) if self.kind == "process" => ("killed", None),
            Outcome::Host(Ended::Done) => ("removed", None),
            Outcome::Tpu(Cleaned::AlreadyGone) | Outcome::Host(Ended::AlreadyGone) => ("already gone", None),
            Outcome::Tpu(Cleaned::Skipped(why)) | Outcome::Host(Ended::Skipped(why)) => {
                ("skipped", Some(why.clone()))
            }
            Outcome::Tpu(Cleaned::Failed { what, .. }) | Outcome::Host(Ended::Failed(what)) => {
                ("failed", Some(what.clone()))
            }
        }
    }

    /// What an operator can do about it.
    fn hint(&self, reach: &Reach) -> Option<Hint> {
        match (&self.outcome, &self.host) {
            (Outcome::Tpu(Cleaned::Failed { hint, .. }), _) => Some(hint.clone()),
            (Outcome::Named, Some(host)) => {
                let command =
                    format!("ssh {} -- 'df -h; sudo du -xh -d 2 / | sort -h | tail -n 20'", host.raw());
                let line = Target::of(&reach.spec.name).line(&command);
                Some(Fix::command("see what uses the space", line).into())
            }
            _ => None,
        }
    }

    pub(super) fn for_scripts(&self, reach: &Reach) -> Value {
        let (outcome, reason) = self.outcome();
        let mut value = json!({
            "kind": self.kind, "host": self.host.as_ref().map(Text::raw), "name": self.name, "evidence": self.proof,
            "outcome": outcome, "reason": reason,
        });
        hints::add(&mut value, self.hint(reach).as_ref(), Target::of(&reach.spec.name));
        value
    }
}

/// `delete 1 tpu vm, end 2 processes; 1 disk low`, or the same in the past tense.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for row in rows {
        let word = match row.kind {
            "disk" => "nearly full disk".to_owned(),
            kind => format!("{kind} {}", row.outcome().0),
        };
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, n)) => *n += 1,
            None => counts.push((word, 1)),
        }
    }
    let words: Vec<String> = counts.into_iter().map(|(word, n)| format!("{n} {word}")).collect();
    if words.is_empty() { "nothing to clean up".to_owned() } else { words.join(", ") }
}

pub(super) fn print(out: &mut impl Write, rows: &[Row], reach: &Reach) -> io::Result<()> {
    let cells = |row: &Row| {
        let host = row.host.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let hint = row.hint(reach).map(|hint| hint.in_commands(Target::of(&reach.spec.name)));
        let outcome = hint.map_or_else(|| row.text(), |hint| format!("{}; {hint}", row.text()));
        vec![row.kind.to_owned(), host, row.name.clone(), row.proof.clone(), outcome]
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    columns::print(out, &["KIND", "HOST", "NAME", "EVIDENCE", "OUTCOME"], &cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_only_what_google_reports() {
        let evidence_of = |kind, chips, holds: &[&str], is_terminated| {
            let leftover = Leftover {
                kind,
                name: "x".into(),
                accelerator_type: "v4-32".into(),
                chips,
                holds: holds.iter().map(|name| Text::from(*name)).collect(),
                created: None,
                is_terminated,
            };
            Row::tpu(&leftover, Outcome::Planned).proof
        };
        let evidence = |kind, chips, holds: &[&str]| evidence_of(kind, chips, holds, false);
        assert_eq!(evidence(LeftoverKind::TpuVm, 16, &[]), "preempted by Google (16 chips)");
        let queued = LeftoverKind::QueuedResource;
        assert_eq!(evidence(queued, 0, &["a", "b"]), "all of its 2 TPU VMs were preempted");
        assert_eq!(evidence(queued, 0, &[]), "suspended by Google; it holds no TPU VM");
        assert_eq!(evidence_of(LeftoverKind::TpuVm, 16, &[], true), "terminated by Google (16 chips)");
        let some = evidence_of(queued, 0, &["a", "b"], true);
        assert_eq!(some, "all of its 2 TPU VMs were preempted or terminated");
    }
}
