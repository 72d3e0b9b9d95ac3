//! Which log the page of a cluster follows: the one that was opened, or the one that it waits for.

use crate::app::pages::Pages;
use crate::app::pages::cluster::ClusterPage;
use crate::app::pages::jobs::newest_running;
use crate::app::{Effect, Fleet, LastIds};
use crate::model::{
    ClusterName, CompressedLog, FollowedLog, JobKey, LogEnd, LogSource, Request, StreamId, SubmissionId,
    Timestamp,
};
use std::collections::BTreeMap;

/// What a page needs to follow a log: the clusters, and new ids of streams.
pub(in crate::app) struct Follow<'a> {
    pub fleet: &'a Fleet,
    pub ids: &'a mut LastIds,
}

impl ClusterPage {
    /// Follows a log instead of the one that is open. A compressed file is not read; the log shows how to print it.
    pub(in crate::app) fn follow(&mut self, source: LogSource, with: &mut Follow<'_>) -> Vec<Effect> {
        let stream = with.ids.stream();
        let mut effects = self.unfollow(with.fleet);
        self.awaited = None;
        self.log.begin(source.clone(), stream);
        match self.compressed(&source, with.fleet) {
            Some(file) => self.log.end = LogEnd::Failed(file.why_not_opened()),
            None => effects.push(Effect::Ask(self.name(with.fleet), Request::Follow(stream, source))),
        }
        effects
    }

    /// The file of a log, if it is compressed.
    fn compressed(&self, source: &LogSource, fleet: &Fleet) -> Option<CompressedLog> {
        let LogSource::File { node, name } = source else { return None };
        let cluster = fleet.clusters.get(self.cluster_index)?;
        let host = cluster.node(node).filter(|node| !node.is_head).map(|node| &node.address);
        CompressedLog::of(cluster.name(), host, name)
    }

    /// Follows several logs instead of the one that is open.
    pub(in crate::app) fn follow_several(
        &mut self,
        logs: Vec<FollowedLog>,
        with: &mut Follow<'_>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let mut effects = self.unfollow(with.fleet);
        let mut by_cluster: BTreeMap<ClusterName, Vec<_>> = BTreeMap::new();
        let mut streams = Vec::new();
        for log in logs {
            let stream = with.ids.stream();
            let wanted = (stream, log.source.clone(), log.host.clone());
            by_cluster.entry(log.cluster.clone()).or_default().push(wanted);
            streams.push((log, stream));
        }
        self.awaited = None;
        self.log.begin_several(streams, now);
        effects.extend(
            by_cluster.into_iter().map(|(name, logs)| Effect::Ask(name, Request::FollowSeveral(logs))),
        );
        effects
    }

    /// Stops following what is open.
    fn unfollow(&self, fleet: &Fleet) -> Vec<Effect> {
        let end = |name: &ClusterName, stream| Effect::Ask(name.clone(), Request::Unfollow(stream));
        let one = self.log.source().map(|_| end(&self.name(fleet), self.log.stream()));
        one.into_iter().chain(self.log.logs().map(|(log, stream)| end(&log.cluster, stream))).collect()
    }

    /// Opens the log that the page waits for: that of the job just submitted, one that has become readable again, else
    /// the newest running job's.
    pub(in crate::app) fn follow_on(&mut self, with: &mut Follow<'_>) -> Vec<Effect> {
        match self.arrived(with.fleet).or_else(|| self.readable_again(with.fleet)) {
            Some(id) => self.follow(LogSource::Job(id), with),
            None => self.follow_newest(with),
        }
    }

    /// Selects the job just submitted from here once it is in the table, and returns it.
    fn arrived(&mut self, fleet: &Fleet) -> Option<SubmissionId> {
        let key = JobKey::Submission(self.awaited.clone()?);
        fleet.clusters[self.cluster_index].job(&key)?;
        self.jobs.select(fleet, self.cluster_index, &key);
        self.awaited.take()
    }

    /// Opens the log of the newest running job, unless a log is open.
    pub(in crate::app) fn follow_newest(&mut self, with: &mut Follow<'_>) -> Vec<Effect> {
        if self.log.is_open() {
            return Vec::new();
        }
        let newest = newest_running(&with.fleet.clusters[self.cluster_index].snapshot.jobs);
        let id = newest.and_then(|job| job.submission_id().cloned());
        id.map(|id| self.follow(LogSource::Job(id), with)).unwrap_or_default()
    }

    /// Requests the lines above the loaded ones once they come into view.
    pub(in crate::app) fn older_lines(&mut self, fleet: &Fleet) -> Option<Effect> {
        let before = self.log.ask_older()?;
        Some(Effect::Ask(self.name(fleet), Request::OlderLog(self.log.stream(), before)))
    }

    fn name(&self, fleet: &Fleet) -> ClusterName {
        fleet.clusters[self.cluster_index].name().clone()
    }
}

impl Pages {
    /// The cluster on whose page a stream of this cluster is read: a view of several logs may hold streams of other
    /// clusters.
    pub(in crate::app) fn reading(&self, cluster_index: usize, stream: StreamId) -> usize {
        let reads = |page: &ClusterPage| page.log.reads(stream);
        if reads(&self.cluster[cluster_index]) {
            cluster_index
        } else {
            self.cluster.iter().position(reads).unwrap_or(cluster_index)
        }
    }
}
