//! The worker processes of a job, their log files, and the last lines of those files.
//!
//! Each node lists its own files (`GET /api/v0/logs`), and a worker's file has the job in its name. What a worker runs,
//! and which ones are lost with their nodes, is in the lists of tasks and actors (`GET /api/v0/tasks`,
//! `/api/v0/actors`).

use super::super::client::Client;
use super::super::convert::envelope;
use super::super::json::{Loose, Num, Str, Table, read_with};
use super::RayError;
use super::work::{Cause, MAX_ROWS, of_job};
use crate::model::sort;
use crate::model::{JobId, JobWorker, NodeId, Text, WorkerFile, WorkerList, WorkerState};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of concurrent requests to one head.
pub const AT_ONCE: usize = 8;
/// Maximum number of failed tasks, and of dead actors: they are read with their errors, which may be tracebacks.
const FAILED_ROWS: u32 = 1000;

/// The lists of a job's processes: kind, state, whether with details, maximum number of rows.
const LISTS: [(&str, &str, u8, u32); 4] = [
    ("tasks", "RUNNING", 0, MAX_ROWS),
    ("actors", "ALIVE", 0, MAX_ROWS),
    ("tasks", "FAILED", 1, FAILED_ROWS),
    ("actors", "DEAD", 1, FAILED_ROWS),
];

/// A task or an actor, which a process runs or ran.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    class_name: Str<'a>,
    #[serde(borrow)]
    func_or_class_name: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
    /// A task's process.
    worker_pid: Num,
    /// An actor's process.
    pid: Num,
    #[serde(borrow)]
    error_type: Str<'a>,
    #[serde(borrow)]
    error_message: Str<'a>,
    end_time_ms: Num,
    #[serde(borrow)]
    death_cause: Table<Loose<Cause<'a>>>,
}

impl Row<'_> {
    /// Its process, if it has had one.
    fn process(&self) -> Option<Process> {
        let pid = [self.worker_pid, self.pid].into_iter().find_map(Num::whole).filter(|pid| *pid > 0)?;
        Some((NodeId::from_hex(&self.node_id.0)?, u32::try_from(pid).ok()?))
    }

    /// Its name, and its kind.
    fn names(&self) -> (Text, Text) {
        let kinds = [&self.class_name, &self.func_or_class_name].into_iter();
        let kind = kinds.filter(|kind| !kind.is_empty()).map(Str::text).next().unwrap_or_default();
        (if self.name.is_empty() { kind.clone() } else { self.name.text() }, kind)
    }

    /// Why it failed, in Ray's words; none for an actor that was ended intentionally.
    fn failure(&self) -> Option<Text> {
        if let Some(cause) = self.death_cause.0.values().next().map(|cause| &cause.0) {
            return cause.unexpected();
        }
        let words = [&self.error_message, &self.error_type].into_iter().find(|words| !words.is_empty())?;
        Some(words.text())
    }
}

/// A process: its node, and its id there.
type Process = (NodeId, u32);

/// The task or actor that each process of a job runs or ran, and its state.
type Known = BTreeMap<Process, (Names, WorkerState)>;

/// A name and a kind.
type Names = (Text, Text);

/// The processes in a list, and the number of rows that Ray omitted.
#[derive(Default)]
struct Part {
    rows: Vec<(Process, Names, WorkerState)>,
    left_out: u64,
}

/// Reads a list of tasks or actors; `runs` is true for a list of running ones.
fn part(text: &str, runs: bool) -> Result<Part, serde_json::Error> {
    let list = envelope::listed::<Row>(text)?;
    let all = list.result.0.len() as u64;
    let state = |row: &Row<'_>| match row.failure() {
        _ if runs => WorkerState::Running,
        Some(why) => WorkerState::Failed { why, at: row.end_time_ms.millis() },
        None => WorkerState::Ended,
    };
    let rows = list.result.0.iter().filter_map(|row| Some((row.process()?, row.names(), state(row))));
    Ok(Part { rows: rows.collect(), left_out: list.num_filtered.whole().unwrap_or(all).saturating_sub(all) })
}

/// Adds the processes of a list.
fn merge(known: &mut Known, part: Part) {
    for (process, name, state) in part.rows {
        match known.entry(process) {
            Entry::Vacant(entry) => {
                entry.insert((name, state));
            }
            Entry::Occupied(mut entry) if replaces(&state, &entry.get().1) => {
                entry.insert((name, state));
            }
            Entry::Occupied(_) => {}
        }
    }
}

/// Whether a state of a process replaces an earlier one: running comes first, then the first failure.
fn replaces(state: &WorkerState, before: &WorkerState) -> bool {
    match (state, before) {
        (WorkerState::Running, _) | (WorkerState::Failed { .. }, WorkerState::Ended) => true,
        (WorkerState::Failed { at: Some(at), .. }, WorkerState::Failed { at: earlier, .. }) => {
            earlier.is_none_or(|earlier| *at < earlier)
        }
        _ => false,
    }
}

/// Combines a job's processes and the files of its nodes into workers.
fn workers(known: Known, files: &BTreeMap<Process, BTreeSet<Text>>) -> Vec<JobWorker> {
    let mut all: BTreeMap<Process, JobWorker> = BTreeMap::new();
    let new =
        |(node, pid), (name, kind), state| JobWorker { node, pid, name, kind, state, files: Vec::new() };
    for (process, (name, state)) in known {
        all.insert(process, new(process, name, state));
    }
    for (process, names) in files {
        let worker = all.entry(*process);
        let worker = worker.or_insert_with(|| new(*process, Names::default(), WorkerState::Ended));
        worker.files = names.iter().rev().cloned().collect();
    }
    all.into_values().collect()
}

/// The files of a driver's workers, by the node that listed them. A restarted node counts as a new one.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    job: Option<JobId>,
    nodes: BTreeMap<NodeId, Files>,
}

/// The files that a node has listed.
#[derive(Clone, Debug, Default)]
struct Files {
    /// File names, with the ids of their processes.
    names: Vec<(u32, Text)>,
    /// Processes that Ray knew on the node at that time, with files or without.
    processes: BTreeSet<u32>,
    /// Number of requests that the listing took.
    requests: usize,
}

impl Listed {
    /// Makes a node list its files again, because one of them could not be read.
    pub fn forget(&mut self, node: &NodeId) {
        self.nodes.remove(node);
    }

    /// Discards everything but the files of this job's workers on these nodes.
    fn keep(&mut self, job: &JobId, nodes: &[NodeId]) {
        if self.job.as_ref() != Some(job) {
            *self = Self { job: Some(job.clone()), nodes: BTreeMap::new() };
        }
        self.nodes.retain(|node, _| nodes.contains(node));
    }

    /// Whether a node has no new processes since it listed its files.
    fn is_complete(&self, node: &NodeId, known: &Known) -> bool {
        let mut here = known.keys().filter(|(its, _)| its == node).map(|(_, pid)| pid);
        self.nodes.get(node).is_some_and(|files| {
            here.all(|pid| files.processes.contains(pid) || files.names.iter().any(|(its, _)| its == pid))
        })
    }

    /// All files, by their processes.
    fn files(&self) -> BTreeMap<Process, BTreeSet<Text>> {
        let mut files = BTreeMap::<Process, BTreeSet<Text>>::new();
        for (node, listed) in &self.nodes {
            for (pid, name) in &listed.names {
                files.entry((*node, *pid)).or_default().insert(name.clone());
            }
        }
        files
    }
}

impl Client {
    /// The workers of a driver: those with files of the job on one of these live nodes, and those that run, or have
    /// failed, according to Ray. Takes four requests, and at least one for each node that has not listed its files yet
    /// or has a new process, at most [`AT_ONCE`] at a time.
    ///
    /// # Errors
    ///
    /// Tasks or actors cannot be listed. A node whose files cannot be listed is in [`WorkerList::unread`].
    pub async fn gang(
        &self,
        job: &JobId,
        nodes: &[NodeId],
        listed: &mut Listed,
    ) -> Result<WorkerList, RayError> {
        let mut gang = WorkerList { requests: LISTS.len(), ..WorkerList::default() };
        listed.keep(job, nodes);
        let known = self.known(job, &mut gang.cut).await?;
        let known_here = &known;
        let listing = |node| async move { (node, self.worker_files(node, job, known_here).await) };
        let unlisted = nodes.iter().filter(|node| !listed.is_complete(node, known_here));
        let listings = unlisted.copied().map(listing);
        let mut listings = stream::iter(listings.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        while let Some((node, answer)) = listings.next().await {
            match answer {
                Ok(files) => {
                    gang.requests += files.requests;
                    listed.nodes.insert(node, files);
                }
                Err(e) if e.is_token() => return Err(e),
                Err(e) => {
                    gang.requests += 1;
                    gang.unread.push((node, e.to_string()));
                }
            }
        }
        drop(listings);
        let mut files = listed.files();
        keep_one_node_each(&mut files, &known);
        gang.workers = workers(known, &files);
        gang.unread.sort();
        Ok(gang)
    }

    /// The processes of a driver that run, or have failed, according to Ray, without their files. Takes four requests.
    pub async fn processes(&self, job: &JobId) -> Result<Vec<JobWorker>, RayError> {
        Ok(workers(self.known(job, &mut Vec::new()).await?, &BTreeMap::new()))
    }

    /// A driver's processes from Ray's lists of tasks and actors. `cut` receives a message for each incomplete list.
    async fn known(&self, job: &JobId, cut: &mut Vec<String>) -> Result<Known, RayError> {
        let mut known = Known::new();
        for (kind, state, detail, limit) in LISTS {
            let filter = format!("&filter_keys=state&filter_predicates=%3D&filter_values={state}");
            let route = format!("{}{filter}&detail={detail}&limit={limit}", of_job(kind, job));
            let body = self.get(&route).await?;
            let part = read_with("/api/v0", &body, |text| part(text, detail == 0))?;
            if part.left_out > 0 {
                let (state, more) = (state.to_lowercase(), part.left_out);
                cut.push(format!("Ray lists only {limit} {state} {kind}; {more} more are not included"));
            }
            merge(&mut known, part);
        }
        Ok(known)
    }

    /// The files of a job's workers on a node.
    async fn worker_files(&self, node: NodeId, job: &JobId, known: &Known) -> Result<Files, RayError> {
        let listed = self.log_files(node, &format!("worker-*-{}-*", job.0.raw())).await?;
        let pid = |name: &Text| WorkerFile::parse(name.raw()).filter(|file| file.is_of(job)).map(|f| f.pid);
        let listed = listed.0.into_iter().flat_map(|(_, names)| names);
        let mut names: Vec<(u32, Text)> = listed.filter_map(|name| Some((pid(&name)?, name))).collect();
        // The files of a process that was started before a job needed it do not have the job in their names.
        let here = known.keys().filter(|(its, _)| *its == node).map(|(_, pid)| *pid);
        let processes: BTreeSet<u32> = sort::collected(here);
        let is_unfound = |pid: &&u32| !names.iter().any(|(known, _)| known == *pid);
        let unfound: Vec<u32> = processes.iter().filter(is_unfound).copied().collect();
        let requests = 1 + unfound.len();
        for missing in unfound {
            names.extend(
                self.files_of_process((node, missing)).await?.into_iter().map(|name| (missing, name)),
            );
        }
        Ok(Files { names, processes, requests })
    }

    /// The log files of worker processes of a node with this process id.
    async fn files_of_process(&self, (node, pid): Process) -> Result<Vec<Text>, RayError> {
        let listed = self.log_files(node, &format!("worker-*-{pid}.*")).await?;
        let is_it = |name: &Text| WorkerFile::parse(name.raw()).is_some_and(|file| file.pid == pid);
        Ok(listed.0.into_iter().flat_map(|(_, names)| names).filter(is_it).collect())
    }

    /// The log files of one of a job's workers, by its node and its process id, the most likely one first. Takes one
    /// request.
    ///
    /// # Errors
    ///
    /// The node does not list its files.
    pub async fn files_of_worker(&self, process: (NodeId, u32), job: &JobId) -> Result<Vec<Text>, RayError> {
        let mut names = self.files_of_process(process).await?;
        names.retain(|name| WorkerFile::parse(name.raw()).is_some_and(|f| f.is_of(job) || is_unassigned(&f)));
        likely_first(&mut names, job);
        Ok(names)
    }

    /// The last lines of a worker's file, as bytes. Ray 2.53 fails with an unspecific error when the file is empty
    /// (`get_logs` in its `state_head.py` ends a response that it has not started).
    pub async fn worker_log(&self, node: NodeId, name: &Text, lines: u32) -> Result<Bytes, RayError> {
        match self.read_log(node, name, lines).await {
            Err(e) if e.may_mean_empty() => Ok(Bytes::new()),
            read => read,
        }
    }
}

/// Whether a file is of a process that was started before a job needed it.
fn is_unassigned(file: &WorkerFile<'_>) -> bool {
    file.job.bytes().all(|b| b == b'f')
}

/// Sorts the files of processes with the same id, because process ids are reused: first those with the job in their
/// names, then those of a process that was started before a job needed it; standard output before standard error.
fn likely_first(names: &mut [Text], job: &JobId) {
    sort::by_key(names, |name| {
        WorkerFile::parse(name.raw()).map(|file| (!file.is_of(job), !is_unassigned(&file), file.is_err))
    });
}

impl RayError {
    /// Whether it may mean that a file is empty, as in [`Client::worker_log`], or that the log API fails.
    pub fn may_mean_empty(&self) -> bool {
        matches!(self, Self::Status { code: 500, message } if message.contains(IN_TROUBLE))
    }

    /// Whether it means that the node has no file of that name.
    pub fn is_no_file(&self) -> bool {
        matches!(self, Self::Status { code: 500, message } if message.contains(NO_FILE))
    }
}

/// The message when Ray returns HTTP 500 for every one of several files.
pub const EMPTY_OR_FAILED: &str = "Ray returned HTTP 500 for every file: the files are empty, or its log API fails (see dashboard.log on the head)";

/// Ray's message about a file that does not exist.
const NO_FILE: &str = "A file is not found at: ";
/// The last line of aiohttp's response after an uncaught exception.
const IN_TROUBLE: &str = "Server got itself in trouble";

/// Nodes on one machine share a log directory, so that each lists the files of all: a file is assigned to the node of
/// its process, if known, and otherwise to the first one.
fn keep_one_node_each(files: &mut BTreeMap<Process, BTreeSet<Text>>, known: &Known) {
    let mut owners: BTreeMap<Text, Process> = BTreeMap::new();
    for (process, names) in &*files {
        for name in names {
            let owner = owners.entry(name.clone()).or_insert(*process);
            if known.contains_key(process) {
                *owner = *process;
            }
        }
    }
    for (process, names) in &mut *files {
        names.retain(|name| owners.get(name) == Some(process));
    }
    files.retain(|_, names| !names.is_empty());
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, text};
    use super::*;
    use crate::model::Timestamp;

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes(&[n; 28]).unwrap()
    }

    fn listed(rows: &[String]) -> String {
        format!(
            "{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}], \"num_filtered\": 9}}}}}}",
            rows.join(", ")
        )
    }

    #[test]
    fn recorded_rows_name_their_processes() {
        for version in VERSIONS {
            let mut known = Known::new();
            for kind in ["busy_v0_tasks", "busy_v0_actors"] {
                merge(&mut known, part(&text(version, kind), false).unwrap());
            }
            assert!(
                known.values().any(|((name, kind), _)| name.raw() == "train_step" && kind == name),
                "{version}: {known:?}"
            );
            let mut dead = Known::new();
            merge(&mut dead, part(&text(version, "dead_v0_actors"), false).unwrap());
            assert!(dead.values().all(|(_, state)| *state != WorkerState::Running), "{version}: {dead:?}");
        }
    }

    #[test]
    fn a_process_that_failed_keeps_its_first_error_unless_it_runs() {
        let row = |pid: u32, error: &str, at: u64| {
            let node = node(1);
            format!(
                "{{\"name\": \"step\", \"node_id\": \"{node}\", \"worker_pid\": {pid}, \"error_type\": \"{error}\", \"end_time_ms\": {at}.0}}"
            )
        };
        let rows = [row(7, "SECOND", 20), row(7, "FIRST", 10), row(8, "", 5), row(9, "LOST", 3)];
        let mut known = Known::new();
        let failed = part(&listed(&rows), false).unwrap();
        assert_eq!(failed.left_out, 5);
        merge(&mut known, failed);
        merge(&mut known, part(&listed(&[row(9, "", 0)]), true).unwrap());
        let states: Vec<_> = known.into_values().map(|(_, state)| state).collect();
        let first = WorkerState::Failed { why: "FIRST".into(), at: Some(Timestamp::from_millis(10)) };
        assert_eq!(states, [first, WorkerState::Ended, WorkerState::Running]);
    }

    #[test]
    fn a_folder_that_several_nodes_share_is_listed_once() {
        let name = |pid: u32| Text::from(format!("worker-a0-01000000-{pid}.out"));
        let mut files = BTreeMap::new();
        for n in 1..3 {
            for pid in [7, 8] {
                files.insert((node(n), pid), BTreeSet::from([name(pid)]));
            }
        }
        let known = Known::from([((node(2), 8), (("step".into(), "step".into()), WorkerState::Running))]);
        keep_one_node_each(&mut files, &known);
        assert_eq!(files.keys().copied().collect::<Vec<_>>(), [(node(1), 7), (node(2), 8)]);
        let workers = workers(known, &files);
        assert_eq!(workers.iter().map(|w| w.name.raw()).collect::<Vec<_>>(), ["", "step"]);
    }

    #[test]
    fn the_files_of_a_reused_process_id_begin_with_those_of_the_job() {
        let name = |job: &str, suffix: &str| Text::from(format!("worker-a0-{job}-7.{suffix}"));
        let others = [name("01000000", "out"), name("ffffffff", "err"), name("ffffffff", "out")];
        let own = [name("02000000", "err"), name("02000000", "out")];
        let first = |names: &[Text]| {
            let mut names = names.to_vec();
            likely_first(&mut names, &JobId("02000000".into()));
            names[0].raw().to_owned()
        };
        assert_eq!(first(&[&others[..], &own[..]].concat()), "worker-a0-02000000-7.out");
        assert_eq!(first(&others), "worker-a0-ffffffff-7.out");
    }

    #[test]
    fn a_worker_whose_node_is_gone_has_no_files() {
        let why = WorkerState::Failed { why: "its node died".into(), at: None };
        let known = Known::from([((node(3), 4), (("step".into(), "step".into()), why.clone()))]);
        let all = workers(known, &BTreeMap::new());
        assert_eq!((all.len(), &all[0].state, all[0].files.len()), (1, &why, 0));
    }
}
