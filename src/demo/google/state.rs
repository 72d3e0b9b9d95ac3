//! The state of the simulated services.

use super::super::observer::RequestObserver;
use super::fault::Fault;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The state of the services. Tests change it while the server runs.
#[derive(Debug, Default)]
pub struct State {
    /// The project that contains all resources.
    pub(super) project: String,
    /// Versions by secret name.
    pub secrets: BTreeMap<String, Vec<Stored>>,
    /// Instances in Compute's format.
    pub instances: Vec<Value>,
    /// Instance groups in Compute's format.
    pub groups: Vec<Value>,
    /// Managed instance groups in Compute's format.
    pub managers: Vec<Value>,
    /// Resize requests of zonal groups in Compute's format, each with the name of its `group`.
    pub resizes: Vec<Value>,
    /// Workload policies in Compute's format.
    pub policies: Vec<Value>,
    /// Instance templates in Compute's format; regional ones have a `region`.
    pub templates: Vec<Value>,
    /// Zones that Compute reports as unreachable.
    pub unreachable: Vec<String>,
    /// Items on one page of any list; 0 for all items on one page.
    pub page: usize,
    /// TPU nodes in Cloud TPU's format.
    pub nodes: Vec<Value>,
    /// Queued resources in Cloud TPU's format.
    pub queued: Vec<Value>,
    /// Images in Artifact Registry's format.
    pub images: Vec<Value>,
    /// Repositories in Artifact Registry's format; a repository that has images also exists without an entry here.
    pub repositories: Vec<Value>,
    /// Permissions that the caller lacks in the project.
    pub denied: BTreeSet<String>,
    /// Operations in progress, by name: remaining polls until done, and the finished operation.
    pub(super) operations: BTreeMap<String, (u32, Value)>,
    /// Message with which operations that start from now on fail.
    pub failing_operations: Option<String>,
    /// Compute Engine's error code of a failing operation, instead of `RESOURCE_IN_USE_BY_ANOTHER_RESOURCE`, and a
    /// substring of the target link; operations on other targets succeed.
    pub failing_code: Option<(&'static str, &'static str)>,
    /// Deletions of TPU nodes report success but have no effect.
    pub idle_deletions: bool,
    /// Faults: HTTP method (empty: any), words in the path, fault.
    pub(super) faults: Vec<(&'static str, String, Fault)>,
    pub(super) requests: Vec<String>,
    /// Called for each changing request of a client.
    pub observer: RequestObserver,
    pub(super) made: u32,
}

impl State {
    /// The next number for a generated name.
    pub(super) fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Starts an operation: the first poll reports it as pending, the second as `finished`.
    pub(super) fn begin(&mut self, name: String, finished: Value) {
        self.operations.insert(name, (2, finished));
    }

    /// Polls an operation and returns its current state; `None` if it does not exist.
    pub(super) fn operation(&mut self, name: &str, pending: impl Fn(&Value) -> Value) -> Option<Value> {
        let (left, finished) = self.operations.get_mut(name)?;
        if *left > 1 {
            *left -= 1;
            return Some(pending(finished));
        }
        Some(finished.clone())
    }
}

/// A version of a secret.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The payload.
    pub payload: Vec<u8>,
    /// `ENABLED`, `DISABLED` or `DESTROYED`.
    pub state: &'static str,
}

impl Stored {
    /// A version that can be read.
    pub fn enabled(payload: &[u8]) -> Self {
        Self { payload: payload.into(), state: "ENABLED" }
    }
}
