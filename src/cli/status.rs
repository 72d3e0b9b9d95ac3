//! `marin-tui status`: prints the issues of clusters as in the console, with evidence and hints, read once.

use super::reach::{Progress, Reach};
use super::{GlobalArguments, columns, hints, output};
use crate::config::{Broken, Config, Entry, Env};
use crate::diagnose::{Finding, Severity};
use crate::model::sort;
use crate::model::time::brief;
use crate::model::{SnapshotPart, Target, Timestamp};
use crate::state::ClusterState;
use crate::supervisor;
use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui status                           all clusters, one line per cluster
  marin-tui -c us-central2 status            one cluster, with evidence and hints
  marin-tui status --check --vitals          also check for stalled runs
  marin-tui status --check --json > status.json || echo 'something needs action'
  marin-tui status --json | jq -r '.[].findings[]?.fixes[].command | values'

Each cluster is queried once. A single query cannot detect a lack of progress: a stuck autoscaler is reported as \
`no launches`, and `marin-tui --plain` reports it as stuck once that is certain.

Exit codes: 0 the status was printed, 1 it could not be printed, or with --check: something needs action.";

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Exit with code 1 if a cluster is down, has an issue, could not be read completely, or has a broken file
    #[arg(long)]
    check: bool,
    /// Also read what the running jobs do: stalled, slow and diverging runs are findings, too, and jobs that wait for their
    /// first node count as pending; Ray itself reports them as running
    #[arg(long)]
    vitals: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the status of the chosen cluster, or of all clusters.
pub(super) fn run(
    arguments: &StatusArguments,
    global: &GlobalArguments,
    config: &Config,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let clusters = Reach::all(global, config, env)?;
    let is_one = global.sources.cluster.is_some();
    let broken: Vec<_> = config.entries.iter().filter_map(Entry::broken).filter(|_| !is_one).collect();
    let began = Timestamp::now();
    let states = Reach::block_on(async { Ok(read_all(&clusters, arguments.vitals).await) })?;
    let mut seen: Vec<Seen<'_>> = clusters
        .iter()
        .zip(&states)
        .map(|(reach, state)| Seen { reach, state, began, now: Timestamp::now() })
        .collect();
    // In the console's order: clusters that need action first.
    sort::by_key(&mut seen, |seen| {
        (seen.state.issues() == 0, seen.state.worst().map_or(Severity::Info, |f| f.severity))
    });
    report_incomplete(&seen);
    if arguments.json {
        print_json(&seen, &broken)?;
    } else {
        print_text(&seen, &broken, arguments.vitals)?;
    }
    let is_well = broken.is_empty() && seen.iter().all(Seen::is_well);
    Ok(if arguments.check && !is_well { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads all clusters at the same time.
async fn read_all(clusters: &[Reach], vitals: bool) -> Vec<ClusterState> {
    let progress = Progress::new();
    if let [reach] = clusters {
        return vec![read(reach, vitals, |phase| progress.phase(phase)).await];
    }
    progress.show(format!("reading {} clusters", clusters.len()));
    join_all(clusters.iter().map(|reach| read(reach, vitals, |_| ()))).await
}

/// Reports on stderr what could not be read.
fn report_incomplete(seen: &[Seen<'_>]) {
    for seen in seen {
        for part in &seen.state.vitals.missing {
            eprintln!("{}: incomplete: {part}", seen.name());
        }
        if let Some(why) = unread_at_google(seen.state) {
            eprintln!("{}: incomplete: Google Cloud TPUs: {why}", seen.name());
        }
    }
}

fn print_json(seen: &[Seen<'_>], broken: &[&Broken]) -> anyhow::Result<()> {
    let files = broken.iter().map(|b| {
        let mut value = json!({"file": output::path(&b.file), "error": b.problem.what, "issues": 1});
        hints::add(&mut value, Some(&b.problem.hint), Target::default());
        value
    });
    output::json(&seen.iter().map(Seen::for_scripts).chain(files).collect::<Vec<_>>())
}

/// Prints a single cluster with evidence and hints, several clusters as a table, and the broken files.
fn print_text(seen: &[Seen<'_>], broken: &[&Broken], vitals: bool) -> io::Result<()> {
    let mut out = output::stdout();
    match seen {
        [one] if broken.is_empty() => one.print(&mut out)?,
        several => {
            let rows: Vec<_> = several.iter().map(Seen::row).collect();
            let header =
                ["CLUSTER", "STATUS", "NODES", "JOBS", "PENDING", "ISSUES", "WARNINGS", "WORST ISSUE"];
            columns::print(&mut out, &header, &rows)?;
        }
    }
    let is_running = seen.iter().any(|seen| seen.state.tally.running > 0);
    if is_running && !vitals && output::is_terminal() {
        eprintln!("stalled, slow and diverging runs are only detected with --vitals");
    }
    for file in broken {
        writeln!(out, "broken: {}", file.problem.in_commands(Target::default()))?;
    }
    Ok(())
}

async fn read(reach: &Reach, vitals: bool, on_phase: impl FnMut(crate::model::Phase)) -> ClusterState {
    match reach.accept_host_key().await {
        Ok(()) => {
            supervisor::read_state(&reach.spec, reach.cluster_index, (&reach.options, vitals), on_phase).await
        }
        Err(problem) => supervisor::unreachable(&reach.spec, problem),
    }
}

/// Why Google's data of a cluster is missing or incomplete; `None` also if Google was not queried.
fn unread_at_google(state: &ClusterState) -> Option<String> {
    let tpus = &state.tpus;
    match (tpus.problem(), tpus.unlisted()) {
        (Some(problem), _) => Some(problem.what.clone()),
        (None, Some(why)) => Some(why.to_string()),
        (None, None) if tpus.requested_at().is_some() && !tpus.is_complete() => {
            Some("Google could not list everything".to_owned())
        }
        (None, None) => None,
    }
}

/// A cluster and the state that was read.
struct Seen<'a> {
    reach: &'a Reach,
    state: &'a ClusterState,
    /// When the reading began: the data read first may be that old.
    began: Timestamp,
    now: Timestamp,
}

impl Seen<'_> {
    fn name(&self) -> &str {
        self.reach.spec.name.as_str()
    }

    fn target(&self) -> Target<'_> {
        Target::of(&self.reach.spec.name)
    }

    const fn label(&self) -> &'static str {
        if self.state.is_up() { "up" } else { "down" }
    }

    /// A value from the state; `None` if the cluster could not be read.
    fn known<T>(&self, value: T) -> Option<T> {
        self.state.known.then_some(value)
    }

    /// A value from a part of the state, such as `jobs`; `None` if that could not be read.
    fn known_of<T>(&self, part: SnapshotPart, value: T) -> Option<T> {
        let is_read = self.state.snapshot.lacks(&[part]).is_none();
        self.known(value).filter(|_| is_read)
    }

    /// Whether it was read completely and has no issue.
    fn is_well(&self) -> bool {
        let (snapshot, vitals) = (&self.state.snapshot, &self.state.vitals);
        self.state.issues() == 0
            && snapshot.missing.is_empty()
            && vitals.missing.is_empty()
            && unread_at_google(self.state).is_none()
    }

    fn row(&self) -> Vec<String> {
        let number =
            |part, n: usize| self.known_of(part, n).map_or_else(|| "-".to_owned(), |n| n.to_string());
        let worst = self.state.worst().map_or_else(|| "-".to_owned(), |f| self.in_a_line(f, &f.short));
        let (running, pending) = self.state.tally.jobs();
        let nodes = number(SnapshotPart::Nodes, self.state.tally.alive);
        let (running, pending) = (number(SnapshotPart::Jobs, running), number(SnapshotPart::Jobs, pending));
        let (issues, warnings) = (self.state.issues().to_string(), self.warnings().to_string());
        let word = self.label().to_owned();
        vec![self.name().to_owned(), word, nodes, running, pending, issues, warnings, worst]
    }

    /// The number of warnings; 0 for an unreachable cluster, whose other findings may be out of date.
    fn warnings(&self) -> usize {
        if self.state.problem().is_some() {
            return 0;
        }
        self.state.findings.iter().filter(|f| f.severity == Severity::Warn).count()
    }

    /// The kind, the text, and the age if it is known.
    fn in_a_line(&self, finding: &Finding, words: &str) -> String {
        let kind = finding.label();
        let words = if words.is_empty() { kind.to_owned() } else { format!("{kind}: {words}") };
        match self.since(finding) {
            Some(since) => format!("{words} ({})", finding.when(&brief(since.age(self.now)))),
            None => words,
        }
    }

    /// When it began, if Ray or Google report it.
    fn since(&self, finding: &Finding) -> Option<Timestamp> {
        finding.since.filter(|since| *since < self.began)
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let tally = &self.state.tally;
        let of = |n: usize, words: &str| if n > 0 { format!(", {n} {words}") } else { String::new() };
        if self.state.known {
            let (pending, lost) = (of(tally.pending, "pending"), of(tally.lost, "lost"));
            let nodes = self.known_of(SnapshotPart::Nodes, format!("{} alive{pending}{lost}", tally.alive));
            let (running, waiting) = tally.jobs();
            let waiting = of(waiting, "pending");
            let jobs = self.known_of(SnapshotPart::Jobs, format!("{running} running{waiting}"));
            let or_unknown = |words: Option<String>| words.unwrap_or_else(|| "unknown".to_owned());
            writeln!(
                out,
                "{}: {}; Ray {}; nodes: {}; jobs: {}",
                self.name(),
                self.label(),
                self.state.snapshot.ray_version.shown(),
                or_unknown(nodes),
                or_unknown(jobs),
            )?;
        } else {
            writeln!(out, "{}: {}", self.name(), self.label())?;
        }
        if let Some(lock) = self.state.lock() {
            writeln!(out, "operation: {}", lock.brief(self.now))?;
        }
        if let Some(problem) = self.state.tpus.problem() {
            writeln!(out, "Google: {}", problem.in_commands(self.target()))?;
        }
        for finding in &self.state.findings {
            writeln!(out, "{}: {}", finding.severity.label(), self.in_a_line(finding, &finding.long))?;
            for fix in finding.hint.fixes() {
                writeln!(out, "  hint: {}", fix.in_commands(self.target()))?;
            }
        }
        if self.state.findings.is_empty() {
            writeln!(out, "no findings")?;
        }
        Ok(())
    }

    /// As JSON: `cluster`, `status`, `error`, `hint`, `fixes`, `ray_version`, `nodes`, `jobs`, `issues`, `worst`,
    /// `findings`, `operation`.
    fn for_scripts(&self) -> Value {
        let (state, problem) = (self.state, self.state.problem());
        let tally = &state.tally;
        let (running, pending) = tally.jobs();
        let mut value = json!({
            "cluster": self.name(), "status": self.label(), "error": problem.map(|p| &p.what),
            "ray_version": self.known(state.snapshot.ray_version.raw()),
            "nodes": self.known_of(SnapshotPart::Nodes, json!({"alive": tally.alive, "pending": tally.pending, "lost": tally.lost})),
            "jobs": self.known_of(SnapshotPart::Jobs, json!({"running": running, "pending": pending})),
            "issues": state.issues(), "worst": state.worst().map(Finding::label),
            "findings": state.findings.iter().map(|f| self.finding(f)).collect::<Vec<_>>(),
            "operation": state.lock().map(|lock| lock.brief(self.now)),
        });
        hints::add(&mut value, problem.map(|p| &p.hint), self.target());
        value
    }

    fn finding(&self, finding: &Finding) -> Value {
        let mut value = json!({
            "kind": finding.label(), "severity": finding.severity.label(),
            "since_ms": self.since(finding).map(Timestamp::as_millis), "summary": finding.short, "evidence": finding.long,
        });
        hints::add(&mut value, Some(&finding.hint), self.target());
        value
    }
}
