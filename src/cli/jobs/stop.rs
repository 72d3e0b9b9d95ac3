//! `stop-job`: stops jobs, those of other people only with `--others`.

use super::super::reach::{Progress, Reach, confirm};
use super::follow::id;
use super::several::{AT_ONCE, SeveralArguments, named, nothing_to_do, read, report, show, would};
use crate::model::command_line::shell_quote;
use crate::model::{Fix, Hint, Job, JobKey, JobStatus, JobStopOutcome, Others, Target};
use crate::ray::RayError;
use crate::supervisor::stop_job;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Maximum number of ids that a suggested command line repeats.
const MAX_IDS: usize = 20;

/// Options of `stop-job`.
#[derive(Debug, Args)]
pub struct StopArguments {
    /// Allow stopping other people's jobs, and jobs without a known owner
    #[arg(long)]
    others: bool,
    /// Options shared with `delete-job`.
    #[command(flatten)]
    common: SeveralArguments,
}

impl StopArguments {
    /// Whether this is a dry run.
    pub(super) fn is_dry(&self) -> bool {
        self.common.is_dry()
    }
}

/// The job's owner, if stopping the job requires permission: it has not ended, and is not known to belong to the
/// operator.
fn other(id: &str, job: &Result<Job, RayError>, me: &str) -> Option<Others> {
    let owner = match job {
        Ok(job) if job.status.is_ended() => return None,
        Ok(job) => job.owner(),
        // There is nothing to stop.
        Err(RayError::NotFound(_)) => return None,
        Err(_) => None,
    };
    let key = JobKey::Submission(super::follow::id(id));
    Some(Others::of([(&key, owner)], me)).filter(|others| !others.is_empty())
}

/// The jobs to stop as they were read, and which of them belong to other people.
struct Stop<'a> {
    arguments: &'a StopArguments,
    reach: &'a Reach,
    ids: Vec<String>,
    /// For each job: its owner, if stopping it requires permission.
    others: Vec<Option<Others>>,
}

impl Stop<'_> {
    /// All other owners and jobs of unknown owner.
    fn all(&self) -> Others {
        let mut all = Others::default();
        self.others.iter().flatten().for_each(|one| all.extend(one.clone()));
        all
    }

    /// Whether a required permission is missing.
    fn is_refused(&self) -> bool {
        !self.arguments.others && self.others.iter().any(Option::is_some)
    }

    /// The ids of jobs that need `--others`, or of those that do not.
    fn ids(&self, of_others: bool) -> Vec<String> {
        let fits = self.ids.iter().zip(&self.others).filter(|(_, other)| other.is_some() == of_others);
        fits.map(|(id, _)| id.clone()).collect()
    }

    /// A row for each job when nothing is stopped.
    fn refused_rows(&self) -> Vec<(&String, bool, String)> {
        let row = |(id, other): (_, &Option<Others>)| {
            let why = if other.is_some() { "not stopped: needs --others" } else { "not stopped" };
            (id, false, why.to_owned())
        };
        self.ids.iter().zip(&self.others).map(row).collect()
    }

    /// Prints what would be done with each job, and which ones need `--others`.
    fn would(&self, jobs: &[Result<Job, RayError>]) -> anyhow::Result<ExitCode> {
        let row = |((id, other), job): ((_, &Option<Others>), &Result<Job, RayError>)| match (job, other) {
            (Err(error), _) => (id, false, error.to_string()),
            (Ok(job), _) if job.status.is_ended() => (id, true, format!("already {}", job.status.label())),
            (Ok(_), Some(_)) if !self.arguments.others => (id, false, "needs --others".to_owned()),
            (Ok(_), _) => (id, true, "would be stopped".to_owned()),
        };
        let rows: Vec<_> = self.ids.iter().zip(&self.others).zip(jobs).map(row).collect();
        would(&self.arguments.common, &rows, |ids| {
            format!("would stop {} on {}", named(ids), self.reach.spec.name)
        })?;
        // Permissions are reported, as by the dry runs of operations; they do not make a dry run fail.
        Ok(if jobs.iter().any(Result::is_err) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The error that nothing was stopped because `--others` is missing. It names the owners and the command line that
    /// allows it.
    fn refused(&self) -> anyhow::Error {
        if self.arguments.common.json
            && let Err(e) = report(&self.refused_rows(), true)
        {
            return e;
        }
        let target = Target::of(&self.reach.spec.name);
        let yes = if self.arguments.common.yes { " --yes" } else { "" };
        let line = |ids: &[String], option: &str| {
            let words: Vec<_> = ids.iter().map(|id| shell_quote(id)).collect();
            target.line(&format!("stop-job {}{option}{yes}", words.join(" ")))
        };
        let typed = &self.arguments.common.ids;
        let mut hint = Hint::from("ask their owners");
        hint = hint.and(if typed.len() > MAX_IDS {
            Fix::from("then repeat the command with --others")
        } else {
            Fix::command("then allow it", line(typed, " --others"))
        });
        let own = self.ids(false);
        if (1..=MAX_IDS).contains(&own.len()) {
            hint = hint.and(Fix::command("or stop only the jobs that do not need --others", line(&own, "")));
        }
        let (name, all) = (&self.reach.spec.name, self.all());
        anyhow::anyhow!("{name}: nothing was stopped: this would stop {all}; {}", hint.in_commands(target))
    }

    /// The question, which names the owners of jobs that are not the operator's.
    fn question(&self) -> String {
        let (what, name, all) = (named(&self.ids), &self.reach.spec.name, self.all());
        let including = if all.is_empty() { String::new() } else { format!(", including {}", all.brief()) };
        format!("Stop {what} on {name}{including}?")
    }
}

/// Stops jobs and waits until each has ended.
pub(super) async fn stop(
    arguments: &StopArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let common = &arguments.common;
    let ids = common.jobs()?;
    if ids.is_empty() {
        return nothing_to_do(common);
    }
    let mut stop = Stop { arguments, reach, ids, others: Vec::new() };
    if !common.dry_run && !common.yes && !std::io::stdin().is_terminal() {
        // Without a terminal there is no answer, and no login is needed to find that out.
        confirm(&stop.question(), false)?;
    }
    let session = reach.connect(progress).await?;
    progress.show("reading the jobs");
    let jobs = read(&session, &stop.ids).await;
    let me = reach.env.user().unwrap_or_default();
    stop.others = stop.ids.iter().zip(&jobs).map(|(id, job)| other(id, job, me)).collect();
    if common.dry_run {
        session.close().await;
        return stop.would(&jobs);
    }
    if !common.yes || stop.is_refused() {
        show(&stop.ids, &jobs, progress)?;
    }
    let allowed = if stop.is_refused() { Err(stop.refused()) } else { confirm(&stop.question(), common.yes) };
    if let Err(no) = allowed {
        session.close().await;
        return Err(no);
    }
    progress.show("waiting for the jobs to end");
    reach.note("stop-job", &format!("started: {}", stop.ids.join(", ")));
    let stops = stop.ids.iter().map(|name| {
        let session = &session;
        async move { stop_job(session, &id(name)).await }
    });
    let outcomes: Vec<_> = stream::iter(stops).buffered(AT_ONCE).collect().await;
    session.close().await;
    for (id, outcome) in stop.ids.iter().zip(&outcomes) {
        reach
            .note(&format!("stop-job {id}"), &outcome.noted().unwrap_or_else(|| "stop requested".to_owned()));
    }
    let row = |(id, outcome)| match outcome {
        JobStopOutcome::Ended(word) => (id, true, word),
        JobStopOutcome::StillThere(status) => (id, false, still_there(status)),
        JobStopOutcome::Unknown { why, .. } => (id, false, not_known(&why)),
        JobStopOutcome::Failed(why) => (id, false, why),
        JobStopOutcome::Requested => (id, false, "stop requested".into()),
    };
    let rows: Vec<_> = stop.ids.iter().zip(outcomes).map(row).collect();
    report(&rows, common.json)
}

fn not_known(why: &str) -> String {
    format!("stop not confirmed: {why}; check with list-jobs once the head responds")
}

fn still_there(status: JobStatus) -> String {
    let hint = match status {
        // See ray-project/ray#58353.
        JobStatus::Pending => "Ray ignores stop requests for pending jobs; stop it once it is running",
        _ => "try again",
    };
    format!("stop requested, but the job is still {}; {hint}", status.label())
}
