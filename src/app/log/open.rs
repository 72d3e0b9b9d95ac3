//! Opens a log, at a line of it or from a list of the cluster's logs; and returns to the log that was open before.

use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::{LineTarget, Opened};
use crate::app::pages::cluster::PreviousLog;
use crate::app::text::labels;
use crate::app::view::View;
use crate::app::{App, Cluster, Effect};
use crate::job_workers::Part;
use crate::model::natural::natural;
use crate::model::sort;
use crate::model::{Job, LogEnd, LogSource, Node, Text, Timestamp};

/// The autoscaler's log files on a head, in the order in which they are shown.
pub(in crate::app) const MONITOR: [&str; 3] = ["monitor.log", "monitor.out", "monitor.err"];
/// A node's own log.
pub(in crate::app) const RAYLET: &str = "raylet.out";
/// Logs of the GCS and of the dashboard, on the head.
const OF_HEAD: [&str; 2] = ["gcs_server.out", "dashboard.log"];

impl App {
    /// Opens a log in the whole window, at a line of it. Esc returns from a page that was opened from another log to
    /// that log.
    pub(in crate::app) fn open_log_at(
        &mut self,
        cluster_index: usize,
        source: LogSource,
        line: Option<LineTarget>,
    ) -> Vec<Effect> {
        let is_over_another = self.leave_log(cluster_index);
        let mut effects = self.show_log(cluster_index, source, line);
        effects.extend(self.open_log_page(cluster_index, is_over_another));
        effects
    }

    /// Keeps the open log of a cluster for Esc, if the page that shows it is below the page on the screen. Returns
    /// whether it is.
    pub(in crate::app) fn leave_log(&mut self, cluster_index: usize) -> bool {
        let page = &mut self.pages.cluster[cluster_index];
        let below = self.stack.pages().iter().rposition(|view| view.shows_log(cluster_index));
        let is_over_another = below.is_some_and(|at| at + 1 < self.stack.pages().len());
        if let Some((at, opened)) = below.zip(page.log.opened()).filter(|_| is_over_another) {
            page.previous_logs.push(PreviousLog { at, opened, line: page.log.here() });
        }
        is_over_another
    }

    /// Shows the open log of a cluster in the whole window: over the page on the screen if another log is below it.
    pub(in crate::app) fn open_log_page(
        &mut self,
        cluster_index: usize,
        is_over_another: bool,
    ) -> Vec<Effect> {
        let log = View::Log(cluster_index);
        if is_over_another { self.open_over(log) } else { self.open_page(log) }
    }

    /// Shows a log, at a line of it. A log that is already open continues where it is; one that failed before its
    /// first line is opened again.
    fn show_log(&mut self, cluster_index: usize, source: LogSource, line: Option<LineTarget>) -> Vec<Effect> {
        let log = &self.pages.cluster[cluster_index].log;
        let is_lost = matches!(log.end(), LogEnd::Failed(_)) && log.is_empty();
        let is_open = log.source() == Some(&source) && !is_lost;
        let effects = if is_open { Vec::new() } else { self.follow(cluster_index, source) };
        if let Some(line) = line {
            self.pages.cluster[cluster_index].log.seek(line);
        }
        effects
    }

    /// Drops logs to which no page returns any more; those below the page on the screen are kept.
    pub(in crate::app) fn forget_logs(&mut self) {
        let (stack, top) = (self.stack.pages(), self.stack.pages().len().saturating_sub(1));
        for (cluster_index, page) in self.pages.cluster.iter_mut().enumerate() {
            page.previous_logs
                .retain(|previous| previous.at < top && stack[previous.at].shows_log(cluster_index));
        }
    }

    /// The log from which the pages below this one were opened, and its cluster.
    pub(in crate::app) fn log_below(&self, at: usize) -> Option<(usize, PreviousLog)> {
        let cluster_index = self.stack.pages().get(at)?.cluster_index()?;
        let previous =
            self.pages.cluster[cluster_index].previous_logs.iter().find(|previous| previous.at == at)?;
        Some((cluster_index, previous.clone()))
    }

    /// Shows a log again to which a page returns.
    pub(in crate::app) fn return_to_log(
        &mut self,
        (cluster_index, previous): (usize, PreviousLog),
        now: Timestamp,
    ) -> Vec<Effect> {
        match previous.opened {
            Opened::One(source) => self.show_log(cluster_index, source, previous.line),
            opened if self.pages.cluster[cluster_index].log.opened().as_ref() == Some(&opened) => Vec::new(),
            // Its lines are read again, so the position of the cursor is not known.
            Opened::Several(logs) => {
                let (page, mut with) = self.following(cluster_index);
                page.follow_several(logs, &mut with, now)
            }
        }
    }

    /// Lists the logs of the cluster on the screen: of jobs, of the workers that were read last, of the autoscaler, of
    /// nodes.
    pub(in crate::app) fn choose_log(&mut self, now: Timestamp) {
        let Some(cluster) =
            self.view().cluster_index().and_then(|cluster_index| self.fleet.clusters.get(cluster_index))
        else {
            return;
        };
        let offers = logs_of(cluster);
        if offers.is_empty() {
            let message = format!("{}: no logs are known until the cluster has been read", cluster.name());
            self.toasts.answer(message, now);
        } else {
            self.prompt = Some(Prompt::of(PromptKind::Files, offers));
        }
    }

    /// Opens a log of the list in the whole window.
    pub(in crate::app) fn open_source(&mut self, source: LogSource) -> Vec<Effect> {
        let Some(cluster_index) = self.view().cluster_index() else { return Vec::new() };
        self.open_log_at(cluster_index, source, None)
    }
}

fn offer(words: String, help: String, source: LogSource) -> Offer {
    Offer { kind: OfferKind::Log(source), ..Offer::new(words, help) }
}

fn logs_of(cluster: &Cluster) -> Vec<Offer> {
    let snapshot = &cluster.snapshot;
    let of_job = |job: &Job| {
        let id = job.submission_id()?.clone();
        Some(offer(
            id.to_string(),
            format!("driver, {}", cluster.vitals.status(job).label()),
            LogSource::Job(id),
        ))
    };
    let mut jobs: Vec<&Job> = snapshot.jobs.iter().map(AsRef::as_ref).collect();
    sort::by_key(&mut jobs, |job| job.status.is_ended());
    let mut offers: Vec<Offer> = jobs.into_iter().filter_map(of_job).collect();
    let job_workers = [Part::Overview, Part::Lines, Part::Cause]
        .into_iter()
        .find_map(|part| cluster.job_workers.job_workers(part));
    let in_order = |a: &Offer, b: &Offer| natural(&a.text, &b.text);
    let mut of_workers = Vec::new();
    for worker in
        job_workers.iter().flat_map(|job_workers| &job_workers.workers).filter(|worker| !worker.is_lost)
    {
        of_workers.extend(worker.process.files.iter().map(|name| {
            let words = labels::log_file_in_full(cluster, &worker.process.node, name);
            let source = LogSource::File { node: worker.process.node, name: name.clone() };
            offer(words, format!("worker {}", worker.process.name), source)
        }));
    }
    sort::by(&mut of_workers, in_order);
    offers.extend(of_workers);
    if !snapshot.nodes.is_empty() {
        let monitor = MONITOR.map(|name| {
            offer(name.to_owned(), "autoscaler, on the head".to_owned(), LogSource::Monitor(name.to_owned()))
        });
        offers.extend(monitor);
    }
    let of_node = |node: &Node, name: &str| {
        let name = Text::from(name);
        let words = labels::log_file_in_full(cluster, &node.id, &name);
        let of = if node.is_head { "head" } else { "node" };
        offer(words, of.to_owned(), LogSource::File { node: node.id, name })
    };
    let (head, workers): (Vec<&Node>, Vec<&Node>) =
        snapshot.nodes.iter().filter(|node| node.state.is_alive()).partition(|node| node.is_head);
    let names = OF_HEAD.into_iter().chain([RAYLET]);
    offers.extend(head.iter().flat_map(|node| names.clone().map(|name| of_node(node, name))));
    let mut of_nodes: Vec<Offer> = workers.iter().map(|node| of_node(node, RAYLET)).collect();
    sort::by(&mut of_nodes, in_order);
    offers.extend(of_nodes);
    offers
}
