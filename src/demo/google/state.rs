//! The services' state.

use super::super::witness::RequestObserver;
use super::fault::Fault;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The services' state. Tests change it while the server runs.
#[derive(Debug, Default)]
pub struct State {
    /// The project that everything lies in.
    pub(super) project: String,
    /// By secret's name.
    pub secrets: BTreeMap<String, Vec<Stored>>,
    /// Compute instances as Compute shows them.
    pub instances: Vec<Value>,
    /// Instance groups likewise.
    pub groups: Vec<Value>,
    /// Managed instance groups likewise.
    pub managers: Vec<Value>,
    /// Resize requests of groups of a zone likewise, each with the name of its `group`.
    pub resizes: Vec<Value>,
    /// Workload policies likewise.
    pub policies: Vec<Value>,
    /// Instance templates likewise; those of a region name it.
    pub templates: Vec<Value>,
    /// Zones that Compute says it could not reach.
    pub unreachable: Vec<String>,
    /// Items on one page of any list; 0 puts all on one.
    pub page: usize,
    /// TPU nodes as TPU shows them.
    pub nodes: Vec<Value>,
    /// Queued resources likewise.
    pub queued: Vec<Value>,
    /// Images of Artifact Registry likewise.
    pub images: Vec<Value>,
    /// Repositories of Artifact Registry likewise; one that only has images exists, too.
    pub repositories: Vec<Value>,
    /// Permissions that the caller does not have in the project.
    pub denied: BTreeSet<String>,
    /// Operations under way: name to (times asked until done, the finished operation).
    pub(super) operations: BTreeMap<String, (u32, Value)>,
    /// Fails operations that begin from now on with this message.
    pub failing_operations: Option<String>,
    /// Compute Engine's code of such an operation, instead of `RESOURCE_IN_USE_BY_ANOTHER_RESOURCE`, and words that the
    /// address of what it is about contains; others succeed.
    pub failing_code: Option<(&'static str, &'static str)>,
    /// Deletions of TPU nodes report success without an effect.
    pub idle_deletions: bool,
    /// Faults: method (empty: any), words in the path, fault.
    pub(super) faults: Vec<(&'static str, String, Fault)>,
    pub(super) requests: Vec<String>,
    /// Called with each change by a client.
    pub witness: RequestObserver,
    pub(super) made: u32,
}

impl State {
    /// The next number for a name.
    pub(super) fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Begins an operation: `pending` until it was asked for twice, then `finished`.
    pub(super) fn begin(&mut self, name: String, finished: Value) {
        self.operations.insert(name, (2, finished));
    }

    /// The current state of an operation; `None` when there is none of that name.
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
    /// Its payload.
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
