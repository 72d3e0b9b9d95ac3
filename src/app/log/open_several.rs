//! Opens several logs in one view: of the marked jobs, or of all workers of a job.

use crate::app::view::View;
use crate::app::{App, Effect, MessageKind};
use crate::model::sort;
use crate::model::{FollowedLog, HeadAddress, Job, LogSource, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

impl App {
    /// Opens the driver logs of the marked jobs together, from any clusters.
    pub(in crate::app) fn open_marked_logs(&mut self, now: Timestamp) -> Vec<Effect> {
        let jobs = self.chosen();
        let clusters: BTreeSet<usize> = sort::collected(jobs.iter().map(|(cluster_index, _)| *cluster_index));
        let log = |(cluster_index, job): &(usize, Arc<Job>)| {
            let (cluster, id) = (self.fleet.clusters[*cluster_index].name(), job.submission_id()?);
            let name = if clusters.len() > 1 { format!("{cluster} {id}") } else { id.to_string() };
            Some(FollowedLog {
                cluster: cluster.clone(),
                source: LogSource::Job(id.clone()),
                host: None,
                name,
            })
        };
        let logs = jobs.iter().filter_map(log).collect();
        let Some(cluster_index) = clusters.first().copied() else { return Vec::new() };
        self.open_logs(cluster_index, logs, now)
    }

    /// Opens the logs of all workers of the job on the screen together.
    pub(in crate::app) fn follow_workers(&mut self, now: Timestamp) -> Vec<Effect> {
        let View::JobWorkers(cluster_index) = *self.view() else { return Vec::new() };
        let Some(logs) = self.pages.job_workers[cluster_index].logs(&self.fleet) else { return Vec::new() };
        self.open_logs(cluster_index, logs, now)
    }

    fn open_logs(&mut self, cluster_index: usize, logs: Vec<FollowedLog>, now: Timestamp) -> Vec<Effect> {
        let why = if logs.is_empty() {
            Some("there are no logs to follow".to_owned())
        } else {
            self.too_many(&logs)
        };
        if let Some(why) = why {
            self.toasts.report(MessageKind::Bad, why, now);
            return Vec::new();
        }
        let is_over_another = self.leave_log(cluster_index);
        let (page, mut with) = self.following(cluster_index);
        let mut effects = page.follow_several(logs, &mut with, now);
        effects.extend(self.open_log_page(cluster_index, is_over_another));
        effects
    }

    /// Why these logs cannot be followed together; `None` if they can.
    fn too_many(&self, logs: &[FollowedLog]) -> Option<String> {
        let clusters = sort::distinct(logs.iter().map(|log| &log.cluster));
        clusters.into_iter().find_map(|name| {
            let of_it = || logs.iter().filter(|log| log.cluster == *name);
            let hosts = sort::distinct(of_it().map(|log| &log.host));
            let has_shell = !matches!(self.fleet.named(name)?.spec.head, HeadAddress::Direct { .. });
            let why = FollowedLog::too_many(hosts.len(), of_it().count(), has_shell)?;
            Some(format!("{name}: {why}"))
        })
    }
}
