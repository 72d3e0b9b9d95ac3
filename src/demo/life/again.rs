//! Jobs of the simulated activity that are resubmitted, for example after a restart: they wait and train as before.

use super::super::cluster::Cluster;
use super::engine::Engine;
use super::jobs::{EXPERIMENTS, OWNERS};
use super::train::Run;
use serde_json::Value;

/// Mean setup time of a runtime environment whose packages are cached, in milliseconds.
const SET_UP: f64 = 4000.0;

/// A run that was submitted before.
pub(in crate::demo) struct Resubmission {
    run: Run,
    kind: usize,
    pends: bool,
}

impl Cluster {
    /// The run of a submission, if its metadata are those of a job of the simulated activity.
    pub fn recognize(&mut self, id: &str, submission: &Value) -> Option<Resubmission> {
        self.life.as_mut()?.recognize(id, submission)
    }

    /// Attaches the run to the last job of the job table.
    pub fn attach_resubmission(&mut self, resubmission: Resubmission) {
        let Some(life) = &mut self.life else { return };
        let work = life.work_of(resubmission.run, resubmission.kind, Some(resubmission.pends));
        life.start_setup(self.state.jobs.len() - 1, work, SET_UP);
    }
}

impl Engine {
    fn recognize(&mut self, id: &str, submission: &Value) -> Option<Resubmission> {
        let label = |key: &str| submission["metadata"][key].as_str();
        let (user, experiment, pod_type) = (label("user")?, label("experiment")?, label("tpu")?);
        let owner = OWNERS.into_iter().find(|known| *known == user)?;
        let experiment = EXPERIMENTS.into_iter().find(|known| *known == experiment)?;
        let kind = self.kind_of(pod_type);
        let requested = submission["entrypoint_resources"].as_object();
        let run = Run {
            diverges: None,
            steps: 0,
            seed: self.random.next(),
            rate: self.log_rate,
            id: id.to_owned(),
            experiment: experiment.to_owned(),
            owner,
            pod_type: pod_type.to_owned(),
            chips: self.kinds[kind].slice.hosts as u64 * 4,
            bucket: self.life.bucket.clone(),
        };
        let pends = requested.is_some_and(|a| a.keys().any(|k| k.starts_with("TPU-")));
        Some(Resubmission { run, kind, pends })
    }
}
