//! A life's jobs that are submitted once more, as after a restart: they wait and train as before.

use super::super::cluster::Cluster;
use super::engine::Engine;
use super::jobs::{EXPERIMENTS, OWNERS};
use super::train::Run;
use serde_json::Value;

/// A runtime environment whose packages are known takes so long, in milliseconds.
const SET_UP: f64 = 4000.0;

/// A run that was known before.
pub(in crate::demo) struct Again {
    run: Run,
    kind: Option<usize>,
    pends: bool,
}

impl Cluster {
    /// The run behind a submission of that id, if its submitter describes it as the jobs of a life do.
    pub fn recognize(&mut self, id: &str, submission: &Value) -> Option<Again> {
        self.life.as_mut()?.recognize(id, submission)
    }

    /// The youngest job of the job table is that run.
    pub fn take_up(&mut self, again: Again) {
        let Some(life) = &mut self.life else { return };
        let work = life.work_of(again.run, again.kind, Some(again.pends));
        life.start_setup(self.state.jobs.len() - 1, work, SET_UP);
    }
}

impl Engine {
    fn recognize(&mut self, id: &str, submission: &Value) -> Option<Again> {
        let said = |key: &str| submission["metadata"][key].as_str();
        let (user, experiment, pod_type) = (said("user")?, said("experiment")?, said("tpu")?);
        let owner = OWNERS.into_iter().find(|known| *known == user)?;
        let experiment = EXPERIMENTS.into_iter().find(|known| *known == experiment)?;
        let kind = self.kinds.iter().position(|k| k.slice.pod_type == pod_type);
        let asked = submission["entrypoint_resources"].as_object();
        let run = Run {
            diverges: None,
            seed: self.random.next(),
            rate: self.log_rate,
            id: id.to_owned(),
            experiment: experiment.to_owned(),
            owner,
            pod_type: pod_type.to_owned(),
            chips: kind.map_or(64, |k| self.kinds[k].slice.hosts as u64 * 4),
            bucket: self.life.bucket.clone(),
        };
        let pends = kind.is_none() || asked.is_some_and(|a| a.keys().any(|k| k.starts_with("TPU-")));
        Some(Again { run, kind, pends })
    }
}
