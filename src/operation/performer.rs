//! The context of an operation's steps: the cluster, its connection and the facts known so far.

use super::backup::BackupContent;
use super::executor::Executor;
use super::facts::Facts;
use super::failure;
use super::journal::Journal;
use crate::config;
use crate::model::{ClusterSpec, Consent, Problem, Task};
use crate::supervisor::{Access, Channel, Connection, Options};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for an effect, such as Ray stopping or responding.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Poll interval while a step waits for the cluster.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the steps of an operation on one cluster.
pub struct Performer {
    /// The cluster that the operation changes.
    pub(super) spec: ClusterSpec,
    /// The connection of its task: no step opens another one to the head.
    pub(super) connection: Connection,
    /// Connection options.
    pub(super) options: Options,
    /// Our state directory, which contains the backups.
    pub(super) state: PathBuf,
    /// The task of the operation.
    pub(super) task: Task,
    /// The facts known so far.
    pub facts: Facts,
    /// The id of another operator's lock that this operation is to take over.
    pub take_over: Option<String>,
    /// The permissions given: affected jobs are checked again right before they are ended.
    pub consent: Consent,
    /// The operator, whose own jobs need no permission.
    pub operator: String,
    /// Whether this attempt has stopped Ray. After an earlier attempt, somebody may have started it again since.
    pub(super) stopped: bool,
    /// Executes the changes, or records them in a dry run.
    pub(super) executor: Executor,
    /// The content of the backup in a dry run.
    pub(super) backed: Option<BackupContent>,
}

impl Performer {
    /// Creates a performer for a task on the cluster, with the facts of an earlier attempt (empty at first).
    /// `connection` is that of the cluster's task, `state` our state directory.
    pub fn new(
        (spec, connection): (ClusterSpec, Connection),
        options: Options,
        state: PathBuf,
        task: Task,
        facts: Facts,
    ) -> Self {
        Self {
            spec,
            connection,
            options,
            state,
            task,
            facts,
            take_over: None,
            consent: Consent::default(),
            operator: String::new(),
            stopped: false,
            executor: Executor::Real,
            backed: None,
        }
    }

    /// Writes the facts to the journal before they are needed.
    pub(super) async fn keep_facts(&self, journal: &Journal) -> Result<(), Problem> {
        journal.keep(&self.facts).await
    }

    pub(super) fn preserves(&self) -> bool {
        matches!(self.task, Task::Restart { preserve: true })
    }

    /// How to reach the cluster's machines.
    pub(super) fn access(&self) -> Access<'_> {
        Access { spec: &self.spec, options: &self.options, connection: &self.connection }
    }

    /// The cluster's connection, once Ray has responded over it.
    pub(super) async fn connect(&self) -> Result<Channel, Problem> {
        self.connection.channel().await
    }

    pub(super) fn file(&self) -> Result<&Path, Problem> {
        config::file_of(&self.spec).map_err(|e| failure(e.what(), &e.hint))
    }
}
