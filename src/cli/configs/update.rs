//! `configs update`: shows the changes, asks about manual edits, and writes the files.

use super::print;
use crate::cli::output::{self, Cleaned};
use crate::infra::{self, Finding, PlanError, Planned, Severity, State, Table};
use crate::model::Target;
use crate::model::amount::counted;
use anyhow::{Context, Result, bail};
use serde_json::json;
use similar::TextDiff;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

/// Options of `configs update`.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Mode {
    /// Write nothing; fail when something would change.
    pub check: bool,
    /// Write nothing; show changes.
    pub diff: bool,
    /// Skip confirmation.
    pub yes: bool,
    /// Print JSON.
    pub json: bool,
}

/// An update that is planned but not started.
pub struct Update {
    /// The files of the chosen clusters.
    plan: Vec<Planned>,
    /// Files whose cluster is gone.
    orphans: Vec<Planned>,
    /// The findings in the files as they would be written.
    findings: Vec<Finding>,
}

/// An error if one of these cannot be rendered, with each cause once.
pub fn rendered(plan: &[Planned]) -> Result<()> {
    let broken: Vec<_> = plan.iter().filter_map(|p| p.error.as_ref()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let causes: Vec<String> = PlanError::distinct(broken).iter().map(ToString::to_string).collect();
    bail!("{}", causes.join("\nmarin-tui: "))
}

impl Update {
    /// Plans the files of `only`, or of all clusters if it is empty; an error if one of them cannot be rendered.
    pub fn plan(folder: &Path, table: &Table, only: &[String]) -> Result<Self> {
        let all = infra::plan(folder, table);
        // Duplicate names are found only among all clusters.
        let mut findings = infra::validate_plan(&all, table);
        let chosen = |p: &Planned| only.is_empty() || only.contains(&p.stem);
        let (orphans, plan): (Vec<_>, Vec<_>) =
            all.into_iter().filter(chosen).partition(|p| p.state == State::Orphan);
        rendered(&plan)?;
        findings.retain(|f| plan.iter().any(|p| p.file == f.file && p.state != State::Current));
        Ok(Self { plan, orphans, findings })
    }

    /// Prints the findings, and fails if what would be written breaks a rule.
    pub fn check_findings(&self) -> Result<()> {
        let errors = self.findings.iter().filter(|f| f.severity == Severity::Error).count();
        if errors == 0 {
            return Ok(());
        }
        let mut out = output::stderr();
        print::findings(&mut out, &self.findings)?;
        drop(out);
        bail!(
            "{} in the files as they would be written; nothing was written: correct clusters.yaml or the template",
            counted(errors, "error")
        )
    }

    /// Shows the changes, asks about manual edits, and writes the files.
    pub fn run(&self, mode: Mode) -> Result<()> {
        let Self { plan, orphans, findings } = self;
        let writes = !mode.check && !mode.diff;
        if writes {
            self.check_findings()?;
        }
        let stale: Vec<&Planned> = plan.iter().filter(|p| p.state != State::Current).collect();
        let (mut written, mut left) = (Vec::new(), Vec::new());
        let mut out = output::stdout();
        for planned in &stale {
            if !mode.json && (mode.diff || !mode.check) {
                explain(&mut out, planned)?;
            }
            if !writes {
                continue;
            }
            if mode.yes || question(planned).is_none_or(|q| confirm(&mut out, mode, &q).unwrap_or(false)) {
                infra::write(planned).with_context(|| format!("cannot write {}", planned.file.display()))?;
                written.push(*planned);
            } else {
                left.push(*planned);
            }
        }
        drop(out);
        if mode.json {
            report_json(plan, orphans, findings, &written)?;
        } else {
            report(plan, orphans, &stale, &written, mode);
        }
        if !writes {
            self.check_findings()?;
        }
        // Errors were shown above, with the warnings.
        print::findings(&mut output::stderr(), findings)?;
        if mode.check && (!stale.is_empty() || !orphans.is_empty()) {
            let all = stale.len() + orphans.len();
            bail!("{} out of date; run `{}`", are(all), Target::default().line("configs update"));
        }
        if !left.is_empty() {
            bail!("{} not written: review the changes above, then use --yes", counted(left.len(), "file"));
        }
        Ok(())
    }
}

fn are(n: usize) -> String {
    if n == 1 { "1 file is".into() } else { format!("{n} files are") }
}

/// The question to confirm before the file is overwritten, if one is needed.
fn question(planned: &Planned) -> Option<String> {
    let file = planned.file.display();
    if let Some(old) = &planned.renamed {
        return Some(format!(
            "{file}: cluster_name `{old}` would change, and the machines of a running `{old}` would be orphaned. Rename it?"
        ));
    }
    let edited = planned.state == State::Edited;
    edited.then(|| format!("{file} was edited manually. Overwrite the lines marked `-` above?"))
}

fn confirm(out: &mut impl Write, mode: Mode, question: &str) -> io::Result<bool> {
    if mode.json || !io::stdin().is_terminal() {
        if !mode.json {
            writeln!(out, "{question} Use --yes to confirm.")?;
        }
        return Ok(false);
    }
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn explain(out: &mut Cleaned<impl Write>, planned: &Planned) -> Result<()> {
    if planned.state == State::Missing {
        return Ok(writeln!(
            out,
            "{}: new, {}",
            planned.file.display(),
            counted(planned.after.lines().count(), "line")
        )?);
    }
    print_diff(out, &planned.file, &planned.before, &planned.after)
}

/// Prints a unified diff, colored on a terminal.
pub fn print_diff(out: &mut Cleaned<impl Write>, file: &Path, before: &str, after: &str) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let name = file.display().to_string();
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(2).header(&name, &name).to_string();
    let coloured = std::env::var_os("NO_COLOR").is_none();
    for line in text.lines() {
        let colour = match line.chars().next() {
            Some('-') if coloured => "\x1b[31m",
            Some('+') if coloured => "\x1b[32m",
            _ => "",
        };
        out.style(colour)?;
        write!(out, "{}", crate::model::text::printable(line))?;
        out.style(if colour.is_empty() { "" } else { "\x1b[m" })?;
        writeln!(out)?;
    }
    Ok(())
}

fn report(plan: &[Planned], orphans: &[Planned], stale: &[&Planned], written: &[&Planned], mode: Mode) {
    if mode.check {
        for planned in stale {
            println!("{}: {}", planned.file.display(), print::state(planned.state));
        }
    }
    for orphan in orphans {
        println!("{}: {}", orphan.file.display(), print::state(State::Orphan));
    }
    let current = counted(plan.len() - stale.len(), "file");
    if mode.check || mode.diff {
        println!("{current} current, {} to change", stale.len());
    } else {
        println!("{current} current, {} written", written.len());
    }
}

fn report_json(
    plan: &[Planned],
    orphans: &[Planned],
    findings: &[Finding],
    written: &[&Planned],
) -> Result<()> {
    let row = |p: &Planned| {
        let diff = TextDiff::from_lines(&p.before, &p.after).unified_diff().context_radius(2).to_string();
        json!({
            "cluster": p.cluster, "file": output::path(&p.file), "state": print::state_name(p.state), "renamed_from": p.renamed,
            "written": written.iter().any(|w| w.stem == p.stem), "diff": diff,
            "findings": findings.iter().filter(|f| f.file == p.file).map(print::finding_as_json).collect::<Vec<_>>(),
        })
    };
    output::json(&plan.iter().chain(orphans).map(row).collect::<Vec<_>>())
}
