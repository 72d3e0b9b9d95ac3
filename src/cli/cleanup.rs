//! `run-cleanup`: shows the proven leftovers of a cluster with their evidence, then removes them; once, or at
//! intervals.

mod rows;

use super::output;
use super::reach::{Progress, Reach, confirm};
use super::signals::Signals;
use crate::model::cloud::CloudView;
use crate::model::time::{brief, span};
use crate::model::{Hint, Leftover, Problem, Provider, Snapshot, SnapshotPart, Timestamp, leftovers};
use crate::operation::{Cleanup, DEVICES, HostFound};
use crate::ray::Poller;
use crate::supervisor;
use clap::{Args, ValueEnum};
use rows::{Outcome, Row};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 run-cleanup --dry-run            show leftovers
  marin-tui -c us-central2 run-cleanup                      clean up after confirmation
  marin-tui -c us-central2 run-cleanup --only processes     only processes on workers
  marin-tui -c us-central2 run-cleanup --interval 10m -y    every 10 minutes

Leftovers are: preempted TPUs and queued resources, as in clean-preempted; Ray processes on workers whose raylet has \
exited, or whose job has ended and which do not descend from a live raylet; libtpu lock files while no process uses a TPU. A process \
that Ray did not start is never killed. Processes are sent SIGTERM, then SIGKILL after 5 seconds. Disks with less than \
10% free are reported; nothing on them is deleted. Workers are checked over SSH, at most 8 at a time.

Exit codes: 0 everything was checked and cleaned up, 1 something could not be checked or cleaned up (see the message).";

/// A part of a cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Preempted TPUs and queued resources that hold quota.
    Tpus,
    /// Leftover processes and libtpu lock files on workers.
    Processes,
    /// Disks that are nearly full (reported only).
    Disk,
}

/// Options of `run-cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    /// Only this part; repeatable [default: all]
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Repeat until ctrl-c, waiting this long after each run (seconds, or e.g. 10m, 2h)
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = span,
        num_args = 0..=1,
        default_missing_value = "10m",
        conflicts_with = "dry_run"
    )]
    interval: Option<Duration>,
    /// Device files that count as TPUs, as an extended regular expression
    #[arg(long, value_name = "REGEX", default_value = DEVICES)]
    devices: String,
    /// Skip confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON; with --interval one line per run
    #[arg(long)]
    json: bool,
}

impl CleanupArguments {
    /// The command's name if it changes a cluster, which a read-only session refuses.
    pub(super) fn changes(&self) -> Option<&'static str> {
        (!self.dry_run).then_some("run-cleanup")
    }

    fn covers(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Runs the command.
pub(super) fn run(arguments: &CleanupArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    if arguments.only.contains(&Part::Tpus) {
        supervisor::tpu_location(&reach.spec).map_err(|p| reach.error(&p))?;
    }
    let round = Round { arguments, reach };
    Reach::block_on(async {
        match arguments.interval {
            None => round.once().await,
            Some(pause) => round.repeat(pause).await,
        }
    })
}

/// One round of a cleanup.
struct Round<'a> {
    arguments: &'a CleanupArguments,
    reach: &'a Reach,
}

/// The result of a round.
#[derive(Default)]
struct Found {
    tpus: Vec<Leftover>,
    hosts: Vec<HostFound>,
    /// What could not be checked and may have more leftovers.
    gaps: Vec<String>,
}

impl Found {
    /// The findings, before anything is done.
    fn rows(&self) -> Vec<Row> {
        let tpus = self.tpus.iter().map(|leftover| Row::tpu(leftover, Outcome::Planned));
        tpus.chain(self.hosts.iter().flat_map(|host| Row::of_host(host, &[]))).collect()
    }
}

impl Round<'_> {
    async fn once(&self) -> anyhow::Result<ExitCode> {
        let found = self.find_leftovers().await?;
        let rows = found.rows();
        if self.arguments.dry_run {
            return self.report(&rows, &found);
        }
        if !rows.iter().any(Row::is_action) {
            eprintln!("{}: nothing to clean up", self.reach.spec.name);
            return self.report(&rows, &found);
        }
        self.ask(&rows, "")?;
        let done = self.clean(&found).await?;
        self.report(&done, &found)
    }

    /// Repeats rounds until a signal; each prints a line with its result.
    async fn repeat(&self, pause: Duration) -> anyhow::Result<ExitCode> {
        let every = brief(pause);
        let first = self.find_leftovers().await?;
        if !self.arguments.yes {
            self.ask(&first.rows(), &format!(" now, and then every {every} until ctrl-c"))?;
        }
        // Until here, ctrl-c ends the command at once.
        let mut signals = Signals::listen()?;
        let mut found = Ok(first);
        loop {
            let round = async {
                let found = found?;
                Ok((self.clean(&found).await?, found.gaps))
            };
            tokio::select! {
                done = round => self.print_round(done)?,
                () = signals.any() => break,
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = signals.any() => break,
            }
            found = tokio::select! {
                found = self.find_leftovers() => found,
                () = signals.any() => break,
            };
        }
        eprintln!("{}: cleanup stopped", self.reach.spec.name);
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the result of a round on one line. The loop continues after a failed round.
    fn print_round(&self, done: anyhow::Result<(Vec<Row>, Vec<String>)>) -> anyhow::Result<()> {
        let at = jiff::Zoned::now();
        let now = at.strftime("%Y-%m-%d %H:%M:%S").to_string();
        match done {
            Ok((rows, gaps)) if self.arguments.json => {
                let rows: Vec<_> = rows.iter().map(|row| row.for_scripts(self.reach)).collect();
                output::json_line(
                    &json!({"at_ms": at.timestamp().as_millisecond(), "rows": rows, "not_checked": gaps, "error": null}),
                )?;
            }
            Err(e) if self.arguments.json => {
                let error = format!("{e:#}");
                output::json_line(
                    &json!({"at_ms": at.timestamp().as_millisecond(), "rows": [], "not_checked": [], "error": error}),
                )?;
            }
            Ok((rows, gaps)) => {
                println!("{now} {}", [vec![rows::summary(&rows)], gaps].concat().join("; "));
            }
            Err(e) => println!("{now} failed: {e:#}"),
        }
        Ok(())
    }

    async fn find_leftovers(&self) -> anyhow::Result<Found> {
        let (reach, arguments) = (self.reach, self.arguments);
        let progress = Progress::new();
        let mut found = Found::default();
        let on_hosts = arguments.covers(Part::Processes) || arguments.covers(Part::Disk);
        let cloud = if reach.spec.provider == Provider::Gcp {
            progress.show("querying Google");
            match supervisor::ask_cloud(&reach.spec, &reach.options.google).await {
                Ok(view) => Some(view),
                // Ray can list its hosts, but not what Google has.
                Err(problem) if !arguments.covers(Part::Tpus) => {
                    found.gaps.push(format!("Google did not respond: {}", problem.what));
                    None
                }
                Err(problem) => return Err(reach.error(&problem)),
            }
        } else {
            None
        };
        if let Some(view) = cloud.as_ref().filter(|_| arguments.covers(Part::Tpus)) {
            found.tpus = leftovers(reach.spec.name.as_str(), view);
            if !view.is_whole() {
                found.gaps.push("Google could not list everything, so more TPUs may be left".to_owned());
            }
        }
        if on_hosts {
            let ray = self.ask_ray(&progress).await;
            if let Err(problem) = &ray {
                let what = format!("Ray did not respond, so no job counts as ended: {}", problem.what);
                found.gaps.push(what);
            }
            progress.show("checking workers");
            self.check_hosts(&mut found, ray.ok().as_ref(), cloud.as_ref()).await;
        }
        Ok(found)
    }

    async fn check_hosts(&self, found: &mut Found, ray: Option<&Snapshot>, cloud: Option<&CloudView>) {
        found.hosts = self.cleanup().inspect_hosts(ray, cloud).await;
        for host in &mut found.hosts {
            match &mut host.left {
                Err(problem) => {
                    found.gaps.push(format!("{} was not checked: {}", host.host.internal, problem.what));
                }
                Ok(left) => {
                    if !self.arguments.covers(Part::Processes) {
                        left.processes.clear();
                        left.locks.clear();
                        left.unproved.clear();
                    }
                    if !self.arguments.covers(Part::Disk) {
                        left.disks.clear();
                    }
                }
            }
        }
    }

    async fn ask_ray(&self, progress: &Progress) -> Result<Snapshot, Problem> {
        let session = self.reach.open(progress).await?;
        progress.show("reading Ray's nodes and jobs");
        let snapshot =
            Poller::new(session.client.clone()).refresh_all(&[SnapshotPart::Nodes, SnapshotPart::Jobs]).await;
        session.close().await;
        snapshot.map_err(|e| e.problem(Timestamp::now()))
    }

    fn cleanup(&self) -> Cleanup<'_> {
        Cleanup { spec: &self.reach.spec, options: &self.reach.options, devices: &self.arguments.devices }
    }

    /// Shows what would be done and asks for confirmation.
    fn ask(&self, rows: &[Row], when: &str) -> anyhow::Result<()> {
        if !rows.is_empty() {
            rows::print(&mut output::stderr(), rows, self.reach)?;
        }
        let name = &self.reach.spec.name;
        confirm(&format!("Clean up {name}{when}: {}?", rows::summary(rows)), self.arguments.yes)
    }

    /// Removes the leftovers. Each is checked again on its machine immediately before.
    async fn clean(&self, found: &Found) -> anyhow::Result<Vec<Row>> {
        let reach = self.reach;
        let planned = found.rows();
        if planned.iter().any(Row::is_action) {
            // Recorded before the first change, so that an interrupted cleanup is in the audit log.
            reach.note("run-cleanup", &format!("started: {}", rows::summary(&planned)));
        }
        let mut done: Vec<Row> = Vec::new();
        if !found.tpus.is_empty() {
            let tpus = found.tpus.clone();
            let cleaned = supervisor::clean(&reach.spec, &reach.options.google, tpus, |_, _| ()).await;
            for (leftover, cleaned) in cleaned.map_err(|p| reach.error(&p))? {
                reach.note(&leftover.audit_label(), &cleaned.text(Hint::to_string));
                done.push(Row::tpu(&leftover, Outcome::Tpu(cleaned)));
            }
        }
        let ended = self.cleanup().end(&found.hosts).await;
        for (host, ended) in found.hosts.iter().zip(&ended) {
            let rows = Row::of_host(host, ended);
            for row in rows.iter().filter(|row| row.is_action()) {
                reach.note(&row.audit_label(), &row.text());
            }
            done.extend(rows);
        }
        Ok(done)
    }

    fn report(&self, rows: &[Row], found: &Found) -> anyhow::Result<ExitCode> {
        if self.arguments.json {
            output::json(&rows.iter().map(|row| row.for_scripts(self.reach)).collect::<Vec<_>>())?;
        } else if !rows.is_empty() {
            rows::print(&mut output::stdout(), rows, self.reach)?;
        }
        for host in &found.hosts {
            for words in host.left.iter().flat_map(|left| &left.unproved) {
                eprintln!("{}: {words}", host.host.internal);
            }
            let unreadable = host.left.as_ref().map_or(0, |left| left.unreadable);
            if unreadable > 0 && self.arguments.covers(Part::Processes) {
                eprintln!(
                    "{}: {unreadable} processes of other users cannot be inspected without sudo, so lock files are kept",
                    host.host.internal
                );
            }
        }
        for gap in &found.gaps {
            eprintln!("{}: {gap}", self.reach.spec.name);
        }
        let is_well = found.gaps.is_empty() && rows.iter().all(Row::is_well);
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
