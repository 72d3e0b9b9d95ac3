//! Searches the logs of all clusters, of one, or of jobs: the requests to each cluster, the results, and opening a
//! matching line.

use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::results::{Found, SearchScope, Searched, first_of};
use crate::app::log::{LineTarget, LogView};
use crate::app::pages::found::{self, log_of};
use crate::app::table::list::Listing;
use crate::app::{App, Cluster, Context, Effect, MessageKind, View};
use crate::logs::{Pattern, Repeated};
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::{
    FileSearch, FileSearchEvent, FileSearchId, Job, JobKey, LogSource, Node, NodeId, Request, SearchedNode,
    Timestamp,
};
use std::sync::Arc;

/// Number of lines at the end of a file that are searched if its host cannot be logged in to.
const TAIL_LINES: u32 = 1000;
/// Maximum number of lines shown per file: for many files, and for the workers of one job.
const OF_EACH: usize = 20;
const OF_WORKER: usize = 200;
/// The workers' files of a node.
const WORKERS: &str = "worker-*";
/// The jobs' driver logs of a node.
const DRIVERS: &str = "job-driver-*";
/// Ray's id of no job, in the file names of workers that were started before a job needed them.
const NO_JOB: &str = "ffffffff";

/// Nodes, each with a glob of names in its log directory.
type Files = Vec<(NodeId, String)>;

/// The globs by node.
fn by_node(cluster: &Cluster, files: Files) -> Vec<SearchedNode> {
    let mut nodes: Vec<SearchedNode> = Vec::new();
    for (id, glob) in files {
        if let Some(known) = nodes.iter_mut().find(|known| known.node == id) {
            known.globs.push(glob);
        } else if let Some(node) = cluster.node(&id) {
            let (host, is_head) = (TpuHost::of(node), node.is_head);
            nodes.push(SearchedNode { node: id, host, is_head, globs: vec![glob] });
        }
    }
    nodes
}

impl App {
    /// Opens the prompt for searching the logs of what is on the screen.
    pub(in crate::app) fn begin_search_logs(&mut self, now: Timestamp) {
        let is_searchable = match self.search_scope() {
            SearchScope::Cluster(cluster_index) => self.fleet.clusters[cluster_index].is_up(),
            SearchScope::Jobs(jobs) => {
                jobs.iter().any(|(cluster_index, _)| self.fleet.clusters[*cluster_index].is_up())
            }
            SearchScope::AllClusters => self.fleet.clusters.iter().any(|cluster| cluster.is_up()),
        };
        if is_searchable {
            self.prompt = Some(Prompt::new(PromptKind::Logs, ""));
        } else {
            self.toasts.report(MessageKind::Bad, "not connected: there are no logs to search", now);
        }
    }

    /// Whose logs a search covers: the job of the page, the marked jobs, the cluster of the page, or all clusters.
    /// Another search from the page of results covers the same.
    fn search_scope(&self) -> SearchScope {
        let of_page = match self.page_context() {
            Context::Job | Context::JobWorkers => self.target_job(),
            _ => None,
        };
        if let Some((cluster_index, job)) = of_page {
            return SearchScope::Jobs(vec![(cluster_index, job.key.clone())]);
        }
        let last = self.fleet.searched.as_ref().filter(|_| *self.view() == View::Table(&found::PAGE));
        if let Some(scope) = last.and_then(|last| last.scope.clone()) {
            return scope;
        }
        if self.marked() > 0 {
            let marked = self.chosen().into_iter();
            return SearchScope::Jobs(
                marked.map(|(cluster_index, job)| (cluster_index, job.key.clone())).collect(),
            );
        }
        self.view().cluster_index().map_or(SearchScope::AllClusters, SearchScope::Cluster)
    }

    /// Whose logs a search covers, in words that are safe to print.
    pub fn search_scope_label(&self) -> String {
        self.scope_label(&self.search_scope())
    }

    fn scope_label(&self, scope: &SearchScope) -> String {
        match scope {
            SearchScope::AllClusters => "all clusters".to_owned(),
            SearchScope::Cluster(cluster_index) => self.fleet.clusters[*cluster_index].name().to_string(),
            SearchScope::Jobs(jobs) => match jobs.as_slice() {
                [(cluster_index, key)] => self.fleet.clusters[*cluster_index].job_name(key),
                several => counted(several.len(), "job"),
            },
        }
    }

    /// Searches for the typed pattern. An invalid pattern stays in the prompt to be corrected.
    pub(in crate::app) fn search_logs(&mut self, typed: &str, now: Timestamp) -> Vec<Effect> {
        let wrong = match Pattern::parse(typed) {
            Ok(pattern) if pattern.is_empty() => Some("type a regular expression".to_owned()),
            Ok(_) => None,
            Err(e) => Some(e.to_string()),
        };
        if let (Some(why), Some(prompt)) = (wrong, &mut self.prompt) {
            prompt.wrong = why;
            return Vec::new();
        }
        if let Some(prompt) = self.prompt.take() {
            prompt.keep(&mut self.history);
        }
        let scope = self.search_scope();
        let by_cluster = self.fleet.clusters.iter().enumerate().filter_map(|(cluster_index, cluster)| {
            let jobs = match &scope {
                SearchScope::Cluster(only) if *only != cluster_index => return None,
                SearchScope::Jobs(jobs) => jobs,
                SearchScope::AllClusters | SearchScope::Cluster(_) => {
                    return Some((cluster_index, files_of_all(cluster)));
                }
            };
            let is_sought =
                |job: &&Arc<Job>| jobs.iter().any(|(of, key)| *of == cluster_index && job.key == *key);
            let sought = cluster.snapshot.jobs.iter().filter(is_sought);
            let files: Files = sought.flat_map(|job| files_of_job(cluster, job)).collect();
            (!files.is_empty()).then_some((cluster_index, files))
        });
        let by_cluster: Vec<_> = by_cluster.collect();
        let of = self.scope_label(&scope);
        let searched = Searched { sought: typed.to_owned(), scope: Some(scope), of, lines: TAIL_LINES };
        self.search_files(by_cluster, searched, (typed, OF_EACH), now)
    }

    /// Shows the lines that a line of a driver's log with the suffix `[repeated Nx across cluster]` stands for, from
    /// the files of the job's workers.
    pub(in crate::app) fn open_repeated(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(cluster_index) = self.view().cluster_index() else { return Vec::new() };
        let Some(repeated) = self.log_mut().and_then(LogView::go_to_repeated) else {
            let message = "no visible line ends with `[repeated Nx across cluster]`";
            self.toasts.report(MessageKind::Info, message, now);
            return Vec::new();
        };
        let cluster = &self.fleet.clusters[cluster_index];
        let id = match self.log().and_then(LogView::source) {
            Some(LogSource::Job(id)) => Some(id.clone()),
            _ => None,
        };
        let job = id.and_then(|id| cluster.job(&JobKey::Submission(id)));
        let Some(job) = job else {
            let message =
                "the lines are in the log files of a job's workers, but Ray lists no job for this log";
            self.toasts.report(MessageKind::Info, message, now);
            return Vec::new();
        };
        let by_cluster = vec![(cluster_index, files_of_workers(cluster, job))];
        let Repeated { count, text, pattern } = repeated;
        let of = format!("the workers of {}; Ray printed 1 of {count}", job.key);
        let searched = Searched { sought: text, scope: None, of, lines: TAIL_LINES };
        self.search_files(by_cluster, searched, (&pattern, OF_WORKER), now)
    }

    /// Sends the search to these clusters, and shows the page of results.
    fn search_files(
        &mut self,
        by_cluster: Vec<(usize, Files)>,
        searched: Searched,
        (pattern, most): (&str, usize),
        now: Timestamp,
    ) -> Vec<Effect> {
        // A frozen screen would not show the results.
        self.unfreeze(now);
        let id = FileSearchId(self.last_ids.stream().0);
        self.fleet.searched = Some(searched);
        self.fleet.clusters.iter_mut().for_each(|cluster| cluster.found = Found::default());
        let mut effects = Vec::new();
        let mut unknown = Vec::new();
        for (cluster_index, files) in by_cluster {
            let cluster = &mut self.fleet.clusters[cluster_index];
            if files.is_empty() {
                let why = "Ray has not listed its nodes";
                unknown.push(format!("{}: logs not searched: {why}", cluster.name()));
                cluster.found = Found::not_searched(id, why);
                continue;
            }
            let nodes = by_node(cluster, files);
            cluster.found = Found::begin(id, nodes.len());
            let request = FileSearch { id, pattern: pattern.to_owned(), nodes, lines: TAIL_LINES, most };
            effects.push(Effect::Ask(cluster.name().clone(), Request::SearchFiles(Box::new(request))));
        }
        effects.extend(self.open_page(View::Table(&found::PAGE)));
        for message in unknown {
            self.report_search(MessageKind::Bad, &message, now);
        }
        // The same page may be on the screen with earlier results.
        self.arrange_page();
        effects
    }

    /// Adds what was not searched to the messages. The page of results has it in its title; on other pages it is shown
    /// for as long as a message that is not an error.
    fn report_search(&mut self, kind: MessageKind, message: &str, now: Timestamp) {
        if *self.view() != View::Table(&found::PAGE) || self.is_frozen() {
            self.toasts.answer(message, now);
        }
        self.toasts.keep(kind, message, now);
    }

    /// Handles results of a search on a cluster.
    pub(in crate::app) fn apply_file_search(
        &mut self,
        cluster_index: usize,
        id: FileSearchId,
        event: FileSearchEvent,
        now: Timestamp,
    ) {
        let message = match &event {
            FileSearchEvent::Found(_) | FileSearchEvent::NodesSearched(_) => None,
            FileSearchEvent::Failed(why) => Some((MessageKind::Bad, format!("logs not searched: {why}"))),
            FileSearchEvent::Done(tally) => {
                let incomplete = first_of(&tally.incomplete)
                    .map(|first| (MessageKind::Bad, format!("search of logs incomplete: {first}")));
                let ends = || {
                    first_of(&tally.ends).map(|first| {
                        (MessageKind::Info, format!("only the ends of some logs were searched: {first}"))
                    })
                };
                let skipped = || tally.skipped().map(|what| (MessageKind::Info, what));
                incomplete.or_else(ends).or_else(skipped)
            }
        };
        let cluster = &mut self.fleet.clusters[cluster_index];
        if !cluster.found.take(id, event) {
            return;
        }
        if let Some((tone, message)) = message {
            let message = format!("{}: {message}", cluster.name());
            self.report_search(tone, &message, now);
        }
        if *self.view() == View::Table(&found::PAGE) && !self.is_frozen() {
            self.arrange_page();
        }
        self.dirty = true;
    }

    /// Opens the log of the line under the cursor, at that line.
    pub(in crate::app) fn open_found(&mut self) -> Vec<Effect> {
        let Some((cluster_index, number)) = self.listing().and_then(Listing::row_index) else {
            return Vec::new();
        };
        let cluster = &self.fleet.clusters[cluster_index];
        let Some((file, line)) = cluster.found.line(number) else { return Vec::new() };
        let wanted =
            LineTarget { text: line.line.text().to_owned(), before: line.above.clone(), at: line.at };
        self.open_log_at(cluster_index, log_of(cluster, file), Some(wanted))
    }
}

/// The driver logs and the workers' files of a cluster.
fn files_of_all(cluster: &Cluster) -> Files {
    let alive = cluster.snapshot.nodes.iter().filter(|node| node.state.is_alive());
    // A driver may run on any node, e.g. on the host of a TPU.
    alive.flat_map(|node| [DRIVERS, WORKERS].map(|glob| (node.id, glob.to_owned()))).collect()
}

/// The node of the head that runs now: after a restart Ray also reports the dead one.
fn head(cluster: &Cluster) -> Option<&Node> {
    cluster.snapshot.nodes.iter().find(|node| node.is_head && node.state.is_alive())
}

/// The driver log of a job, and the files of its workers.
fn files_of_job(cluster: &Cluster, job: &Job) -> Files {
    let of_driver = job.submission_id().zip(job.driver_node.or_else(|| Some(head(cluster)?.id)));
    let of_driver = of_driver.map(|(id, node)| (node, literal(&id.driver_log())));
    of_driver.into_iter().chain(files_of_workers(cluster, job)).collect()
}

/// The files of a job's workers; those of all workers if Ray does not report the job's driver.
fn files_of_workers(cluster: &Cluster, job: &Job) -> Files {
    let globs = match &job.driver {
        Some(driver) => {
            vec![format!("worker-*-{}-*", literal(driver.0.raw())), format!("worker-*-{NO_JOB}-*")]
        }
        None => vec![WORKERS.to_owned()],
    };
    let alive = cluster.snapshot.nodes.iter().filter(|node| node.state.is_alive());
    alive.flat_map(|node| globs.iter().map(|glob| (node.id, glob.clone()))).collect()
}

/// A name as a glob that matches it: `?` replaces characters with a meaning in globs.
fn literal(name: &str) -> String {
    name.replace(['*', '[', ']', '?'], "?")
}
