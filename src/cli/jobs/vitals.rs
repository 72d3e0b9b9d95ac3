//! The vitals of jobs in commands: read once, printed as a table or as JSON.

use super::super::reach::{Progress, Reach};
use super::failed;
use super::row::{JobRow, print_rows};
use crate::diagnose::pending_too_long;
use crate::model::amount::{counted, number};
use crate::model::json::object;
use crate::model::time::brief;
use crate::model::vitals::{loss, waits_for};
use crate::model::{ClusterEvent, Job, JobStatus, Text, Timestamp, Vitals, WarningKind};
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use serde_json::{Value, json};
use std::sync::Arc;

/// Reads the vitals of the running jobs into the state.
pub(super) async fn read_vitals(
    state: &mut ClusterState,
    jobs: &[Arc<Job>],
    reach: &Reach,
    session: &Session,
    progress: &Progress,
) -> anyhow::Result<()> {
    let running: Vec<_> = jobs.iter().filter(|job| job.status == JobStatus::Running).cloned().collect();
    progress.show(format!("reading the last log lines of {}", counted(running.len(), "job")));
    let limits = (reach.options.vitals, &reach.options.patterns);
    let cluster_vitals = supervisor::read_vitals(
        (&session.client, session.log_host(&reach.spec)),
        &state.snapshot,
        running,
        limits,
    )
    .await;
    let cluster_vitals = cluster_vitals.map_err(failed(reach))?;
    state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    Ok(())
}

/// Prints jobs with their vitals, and with the cluster of each if there are several.
pub(super) fn print(rows: &[JobRow<'_>], is_several: bool) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let titles = [
        "JOB",
        "STATUS",
        "OWNER",
        "AGE",
        "ACTIVITY",
        "CHIPS",
        "LOSS",
        "RATE",
        "TIME LEFT",
        "CHECKPOINT",
        "RESTARTS",
        "WARNING",
    ];
    print_rows(rows, is_several, &titles, |row| cells(row.job, row.state, now))
}

fn vitals<'s>(job: &Job, state: &'s ClusterState) -> Option<&'s Vitals> {
    state.vitals.jobs.get(&job.key).map(AsRef::as_ref)
}

fn cells(job: &Job, state: &ClusterState, now: Timestamp) -> Vec<String> {
    let vitals = vitals(job, state);
    let run = vitals.and_then(|vitals| vitals.run.as_ref());
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let pends = || {
        let needs =
            job.requested.as_deref().filter(|needs| !needs.is_empty() && job.status == JobStatus::Pending)?;
        Some(waits_for(needs, job.started, now))
    };
    let late = || {
        let since = pending_too_long(job, state.vitals.limits.pending, now)?;
        Some(format!("{} for {}", WarningKind::PendingTooLong.text(), brief(since.age(now))))
    };
    vec![
        job.key.to_string(),
        state.vitals.status(job).label().to_owned(),
        job.owner().unwrap_or("-").to_owned(),
        or_dash(job.started.map(|at| brief(at.age(now)))),
        or_dash(vitals.map(|vitals| vitals.text(now)).or_else(pends)),
        or_dash(vitals.and_then(Vitals::chips).map(|(_, n)| number(n))),
        or_dash(run.and_then(|run| run.loss).map(loss)),
        or_dash(vitals.and_then(|vitals| vitals.moving_run()?.rate_text())),
        or_dash(vitals.and_then(|vitals| vitals.time_left(now)).map(brief)),
        or_dash(run.and_then(|run| run.checkpoint?.at).map(|at| brief(at.age(now)))),
        or_dash(vitals.map(|vitals| vitals.restarts.to_string())),
        or_dash(vitals.and_then(Vitals::worst).map(|sign| sign.text(now)).or_else(late)),
    ]
}

/// Amounts of resources in JSON, by name.
pub(super) fn amounts(all: &[(Text, f64)]) -> Value {
    object(all.iter().map(|(name, n)| (name.raw(), *n)))
}

/// The vitals of a job in JSON; null for a job that Ray does not report as running.
pub(super) fn for_scripts(job: &Job, state: &ClusterState) -> Value {
    let Some(vitals) = vitals(job, state) else { return Value::Null };
    let (run, moving) = (vitals.run.as_ref(), vitals.moving_run());
    // JSON has no NaN, so such a loss is a word.
    let loss = run.and_then(|run| run.loss);
    let loss = loss.map(|value| if value.is_finite() { json!(value) } else { json!(self::loss(value)) });
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let waits = vitals.waits.iter().map(
        |wait| json!({"resources": amounts(&wait.shape), "count": wait.count, "since_ms": millis(wait.since)}),
    );
    let signs = vitals.signs.iter().map(|sign| {
        json!({"kind": sign.kind.text(), "since_ms": sign.since.as_millis(), "evidence": sign.evidence})
    });
    let nodes: Vec<String> = vitals.nodes.iter().map(ToString::to_string).collect();
    let saved = run.and_then(|run| run.checkpoint);
    json!({
        "activity": vitals.label(), "description": vitals.text(vitals.read), "since_ms": millis(vitals.since),
        "chips": vitals.chips().map(|(_, n)| n), "holds": vitals.holds.as_deref().map(amounts), "node_ids": nodes,
        "waiting_for": waits.collect::<Vec<_>>(),
        "step": run.and_then(|run| run.step), "steps": run.and_then(|run| run.total), "loss": loss,
        "losses": run.map(|run| &run.losses), "steps_per_second": moving.and_then(|run| run.rate),
        "usual_steps_per_second": run.and_then(|run| run.typical_rate), "expected_end_ms": millis(moving.and_then(|run| run.ends)),
        "last_step_ms": millis(run.and_then(|run| run.at)), "last_line_ms": millis(vitals.logged),
        "checkpoint": saved.map(|saved| json!({"step": saved.step, "at_ms": millis(saved.at)})),
        "restarts": vitals.restarts, "warnings": signs.collect::<Vec<_>>(), "read_ms": vitals.read.as_millis(),
    })
}
