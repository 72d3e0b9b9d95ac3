//! Manages individual workers: added with a form, removed or restarted from the selected row.

use crate::app::action::target::Target;
use crate::app::operation::confirmation::Plan;
use crate::app::operation::worker_form::{Offered, WorkerForm};
use crate::app::screen::dialog::Dialog;
use crate::app::{Action, App, Cluster, Effect};
use crate::model::{
    ClusterName, DRAIN_SECS, Hint, NewWorker, Node, OperationKind, Order, Problem, StepName, Task, Timestamp,
    Verb, WorkerOffer,
};
use crate::reconcile::{HostsKind, Row, TpuStatus};
use crate::state::Tpus;

/// The worker of the selected row.
struct Chosen {
    cluster: ClusterName,
    /// Name of a TPU VM or a queued resource, or address of a host.
    worker: String,
    /// The name of its row, if it differs; may be empty.
    worker_name: String,
    /// Whether Ray may run work on it.
    is_in_ray: bool,
    /// Why Ray cannot be started there; empty if it can.
    no_host: String,
    /// The slice that it belongs to, for the dialog; may be empty.
    note: String,
}

impl App {
    /// Opens the form that adds workers.
    pub(in crate::app) fn add_worker(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(name) = self.target_cluster().map(|c| c.name().clone()) else { return Vec::new() };
        if let Some(effects) = self.refers_to_operation(&name, now) {
            return effects;
        }
        self.dialog = Some(Dialog::Worker(Box::new(WorkerForm::new(name.clone()))));
        vec![Effect::Operate(name, Order::ListOffers)]
    }

    /// Passes the offer to the form that asked for it.
    pub(in crate::app) fn offered(&mut self, name: &ClusterName, offer: Result<WorkerOffer, Problem>) {
        // A second answer would undo choices made after the first.
        if let Some(Dialog::Worker(form)) = self.dialog.as_mut().map(Dialog::innermost)
            && form.cluster == *name
            && form.offered == Offered::Pending
        {
            form.take(offer);
        }
    }

    /// Handles Enter in that form.
    pub(in crate::app) fn worker_form_pressed(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(Dialog::Worker(form)) = &mut self.dialog else { return Vec::new() };
        match form.button() {
            None => form.enter(),
            Some(false) => self.dialog = None,
            Some(true) => {
                let Some(task) = form.task(now) else { return Vec::new() };
                let mut plan = Plan::new(task.clone(), form.cluster.clone(), Vec::new());
                let name = form.cluster.clone();
                plan.form = Some(form.clone());
                self.dialog = Some(Dialog::Plan(Box::new(plan)));
                return vec![Effect::Operate(name, Order::Preview(task))];
            }
        }
        Vec::new()
    }

    /// Opens the confirmation that removes the selected worker. It is drained first if Ray may run work on it.
    pub(in crate::app) fn remove_worker(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(chosen) = self.chosen_worker(Action::StopCluster, now) else { return Vec::new() };
        let drain = chosen.is_in_ray.then_some(DRAIN_SECS);
        let task = Task::RemoveWorker { worker: chosen.worker, drain };
        self.plan_of_worker(chosen.cluster, task, (chosen.worker_name, chosen.note), now)
    }

    /// Opens the confirmation that restarts Ray on the selected worker.
    pub(in crate::app) fn init_worker(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(chosen) = self.chosen_worker(Action::Restart, now) else { return Vec::new() };
        if !chosen.no_host.is_empty() {
            self.toasts.answer(chosen.no_host, now);
            return Vec::new();
        }
        let task = Task::InitWorker { worker: chosen.worker };
        self.plan_of_worker(chosen.cluster, task, (chosen.worker_name, chosen.note), now)
    }

    fn plan_of_worker(
        &mut self,
        cluster: ClusterName,
        task: Task,
        (worker_name, note): (String, String),
        now: Timestamp,
    ) -> Vec<Effect> {
        let effects = self.plan_on(cluster, task, now);
        if let Some(Dialog::Plan(plan)) = &mut self.dialog {
            (plan.worker_name, plan.note) = (worker_name, note);
        }
        effects
    }

    /// The selected worker. For a head the message names the key of `instead`.
    fn chosen_worker(&mut self, instead: Action, now: Timestamp) -> Option<Chosen> {
        let of_row = self.tpus().zip(self.target_tpu()).or_else(|| self.slice_at_google());
        if let Some((cluster, row)) = of_row {
            return Some(Chosen {
                cluster: cluster.name().clone(),
                worker: row.name.raw().to_owned(),
                worker_name: String::new(),
                is_in_ray: row.hosts.1 > 0 || !cluster.tpus.knows_ray(),
                no_host: no_host(row, &self.keyboard.keymap.key_of(Action::RemoveWorker)),
                note: String::new(),
            });
        }
        if let Some(Target::Hosts(..)) = self.target() {
            self.toasts.answer(self.needs_host(), now);
            return None;
        }
        let (cluster_index, node) = self.target_node()?;
        let known = &self.fleet.clusters[cluster_index];
        let cluster = known.name().clone();
        let successor = known.successor(node);
        let why = if node.is_head {
            let key = self.keyboard.keymap.key_of(instead);
            let does = if instead == Action::StopCluster { "stops" } else { "restarts" };
            format!("{} is the head of {cluster}; {key} {does} the cluster", node.address)
        } else if node.address.is_empty() {
            format!("{} has no address in Ray", known.node_name(node))
        } else if let Some(successor) = successor {
            let (name, successor) = (known.node_name(node), known.node_name(successor));
            format!(
                "{name} is dead, and its address {} now belongs to {successor}: select that row instead",
                node.address
            )
        } else {
            let name = known.node_name(node);
            return Some(Chosen {
                cluster,
                worker: node.address.raw().to_owned(),
                worker_name: if *name == node.address { String::new() } else { name.raw().to_owned() },
                is_in_ray: node.state.is_alive(),
                no_host: String::new(),
                note: slice(&known.tpus, node),
            });
        };
        self.toasts.answer(why, now);
        None
    }

    /// The slice in Google Cloud of the selected slice of Ray's nodes, with its cluster.
    pub(in crate::app) fn slice_at_google(&self) -> Option<(&Cluster, &Row)> {
        let Target::Hosts(cluster_index, hosts) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(cluster_index)?;
        Some((cluster, cluster.tpu(&hosts.name).filter(|_| hosts.kind == HostsKind::Slice)?))
    }
}

/// The slice of which a node is a host, in words; empty if there is none, or if Google was not queried.
fn slice(tpus: &Tpus, node: &Node) -> String {
    let row = tpus.rows().iter().find(|r| r.logins.iter().any(|h| h.internal == node.address));
    match row.map(|r| (&r.name, r.logins.len())) {
        Some((name, hosts)) if hosts > 1 => {
            format!("it is one of the {hosts} hosts of {name}; all of them are affected")
        }
        Some((name, _)) if *name != node.address => format!("it is the host of {name}"),
        _ => String::new(),
    }
}

/// Why Ray cannot be started on a TPU; empty if it can.
fn no_host(row: &Row, remove: &str) -> String {
    if let Some(ended) = row.status.ended() {
        return format!("{} was {ended}: there is no host to start Ray on; {remove} removes it", row.name);
    }
    match row.status {
        TpuStatus::Refused if !row.is_resize_request() => {
            format!("{} was refused: there is no host to start Ray on; {remove} removes it", row.name)
        }
        _ if row.logins.is_empty() => {
            format!("{} has no host yet to start Ray on", row.name)
        }
        _ => String::new(),
    }
}

/// The state that an abandoned operation leaves at a step, and how to change it.
pub(in crate::app) fn abandoned_state(task: &Task, step: Option<StepName>) -> Hint {
    let is_requested = step != Some(StepName::RequestTpus);
    match task.kind() {
        OperationKind::AddWorker if matches!(task, Task::AddWorker(NewWorker::Host { .. })) => {
            "the host stays as it is".into()
        }
        OperationKind::AddWorker => task.left_at_google(is_requested, Verb::RemoveWorker, ""),
        OperationKind::InitWorker => {
            "the worker stays as it is; Ray keeps running where it was started".into()
        }
        OperationKind::RemoveWorker => Hint::from("the worker stays as it is now").and(
            Verb::InitWorker
                .on(task.worker(), "a draining worker accepts no new work until Ray is started on it again"),
        ),
        OperationKind::Update => "the head keeps the version of the cluster file that it has now".into(),
        OperationKind::Restart | OperationKind::Start | OperationKind::Stop => {
            "the cluster stays as it is: stopped parts stay stopped, running parts keep running".into()
        }
    }
}
