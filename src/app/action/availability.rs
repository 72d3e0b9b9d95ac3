//! Whether an action has an effect now: the footer omits those that have none.

use crate::app::operation::progress::OperationProgress;
use crate::app::{App, Cluster, Context, View};
use crate::model::{Job, Node, ProblemKind, Provider};

pub(in crate::app) fn always(_: &App) -> bool {
    true
}

pub(in crate::app) fn has_cluster(app: &App) -> bool {
    app.target_cluster().is_some()
}

pub(in crate::app) fn is_up(app: &App) -> bool {
    app.target_cluster().is_some_and(|c| c.is_up())
}

pub(in crate::app) fn is_down(app: &App) -> bool {
    app.target_cluster().is_some_and(|c| !c.is_up())
}

pub(in crate::app) fn is_on_google(app: &App) -> bool {
    app.target_cluster().is_some_and(|c| c.spec.provider == Provider::Gcp)
}

/// Only one operation can run on a cluster at a time.
pub(in crate::app) fn may_operate(app: &App) -> bool {
    app.target_cluster().is_some_and(|c| c.operating().is_none())
}

pub(in crate::app) fn takes_workers(app: &App) -> bool {
    let takes = |c: &Cluster| matches!(c.spec.provider, Provider::Gcp | Provider::Local);
    may_operate(app) && app.target_cluster().is_some_and(takes)
}

pub(in crate::app) fn has_operation(app: &App) -> bool {
    let is_shown = matches!(app.view(), View::Operation(_));
    !is_shown && app.target_cluster().is_some_and(|c| c.running.is_some() || c.lock.is_some())
}

pub(in crate::app) fn has_new_host_key(app: &App) -> bool {
    let problem = app.target_cluster().and_then(|c| c.problem());
    matches!(problem.map(|p| &p.kind), Some(ProblemKind::HostKeyChanged { .. }))
}

pub(in crate::app) fn may_clean(app: &App) -> bool {
    app.target_cluster().is_some_and(|c| !c.tpus.leftovers().is_empty() && !c.cleaning)
}

pub(in crate::app) fn has_row(app: &App) -> bool {
    app.listing().is_none_or(|l| !l.is_empty())
}

/// Whether Enter opens something: a row, or in a log the lines that a `[repeated ...]` line stands for.
pub(in crate::app) fn may_open(app: &App) -> bool {
    match app.context() {
        Context::Log => app.log().is_some_and(|log| log.repeated().is_some()),
        _ => has_row(app),
    }
}

pub(in crate::app) fn has_worker(app: &App) -> bool {
    let is_worker = |n: &Node| !n.is_head;
    app.target_tpu().is_some()
        || app.slice_at_google().is_some()
        || app.target_node().is_some_and(|(_, n)| is_worker(n))
}

pub(in crate::app) fn may_log_in(app: &App) -> bool {
    if app.tpus().is_some() { app.target_tpu().is_some() } else { is_up(app) && app.login_here().is_ok() }
}

pub(in crate::app) fn has_log(app: &App) -> bool {
    app.context() == Context::Autoscaler
        || app.workers_page().is_some_and(|page| page.position(app.fleet()).is_some())
        || app.target_node().is_some()
        || app.target_job().is_some()
        || app.view().details().is_some_and(|page| page.selected_stack().is_some())
}

fn of_jobs(app: &App, may: fn(&Job) -> bool) -> bool {
    app.marked() > 0 || app.target_job().is_some_and(|(_, job)| may(job))
}

pub(in crate::app) fn may_stop(app: &App) -> bool {
    of_jobs(app, Job::may_be_stopped)
}

pub(in crate::app) fn may_delete(app: &App) -> bool {
    of_jobs(app, Job::may_be_deleted)
}

pub(in crate::app) fn has_submission(app: &App) -> bool {
    app.target_job().is_some_and(|(_, j)| j.submission_id().is_some())
}

/// Whether the action's target has chips that can be read.
pub(in crate::app) fn has_chips(app: &App) -> bool {
    app.shows_chips() || app.target_chips().is_some()
}

pub(in crate::app) fn has_job(app: &App) -> bool {
    app.target_job().is_some()
}

/// A running job has workers, or may have.
pub(in crate::app) fn has_driver(app: &App) -> bool {
    app.target_runs().is_some_and(|(_, jobs)| jobs.iter().any(|j| j.driver.is_some() && !j.status.is_ended()))
}

pub(in crate::app) fn is_interrupted(app: &App) -> bool {
    app.watched().is_some_and(OperationProgress::is_interrupted)
}

pub(in crate::app) fn may_skip(app: &App) -> bool {
    app.watched().is_some_and(OperationProgress::is_skippable)
}

pub(in crate::app) fn may_cancel(app: &App) -> bool {
    app.watched().is_some_and(OperationProgress::may_be_cancelled)
}

pub(in crate::app) fn has_fleet(app: &App) -> bool {
    !app.fleet().is_single()
}

/// Whether the page on the screen is the first one: the fleet or, in a console with a single cluster, its page.
pub(in crate::app) fn is_at_the_root(app: &App) -> bool {
    app.stack().len() <= 1
}
