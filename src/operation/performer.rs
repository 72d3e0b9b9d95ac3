//! What the steps of an operation work with: the cluster, its connection, what is known so far.

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

/// What is waited for an effect: Ray's end, its first answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Poll interval while a step waits for the cluster.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Does the steps of an operation on one cluster.
pub struct Performer {
    /// The cluster that the operation changes.
    pub(super) spec: ClusterSpec,
    /// The connection of its task: no step opens another to its head.
    pub(super) connection: Connection,
    /// Connection options.
    pub(super) options: Options,
    /// Our state folder; backups lie below it.
    pub(super) state: PathBuf,
    /// What is to be done.
    pub(super) task: Task,
    /// What is known so far.
    pub facts: Facts,
    /// The id of another operator's mark that this operation is to take over.
    pub take_over: Option<String>,
    /// What the person allowed, and who it is: a removal of several workers asks the gate of affected jobs for each.
    pub allowed: (Consent, String),
    /// What its steps change something through.
    pub(super) executor: Executor,
    /// What the backup of a dry run would hold.
    pub(super) backed: Option<BackupContent>,
}

impl Performer {
    /// Of a task on the cluster, with what an earlier attempt knew (nothing at first). `connection` is that of the
    /// cluster's task, `state` our state folder.
    pub fn new(
        (spec, connection): (ClusterSpec, Connection),
        options: Options,
        state: PathBuf,
        task: Task,
        facts: Facts,
    ) -> Self {
        let (take_over, allowed, executor) = (None, (Consent::default(), String::new()), Executor::Real);
        Self { spec, connection, options, state, task, facts, take_over, allowed, executor, backed: None }
    }

    /// Writes down what is known, before it is needed.
    pub(super) async fn keep_facts(&self, journal: &Journal) -> Result<(), Problem> {
        let facts = self.facts.clone();
        Ok(journal.beside(move |j| j.facts(&facts)).await?)
    }

    pub(super) fn preserves(&self) -> bool {
        matches!(self.task, Task::Restart { preserve: true })
    }

    /// How the cluster's machines are reached.
    pub(super) fn access(&self) -> Access<'_> {
        Access { spec: &self.spec, options: &self.options, connection: &self.connection }
    }

    /// The cluster's connection, once Ray has answered over it.
    pub(super) async fn connect(&self) -> Result<Channel, Problem> {
        self.connection.channel().await
    }

    pub(super) fn file(&self) -> Result<&Path, Problem> {
        config::file_of(&self.spec).map_err(|e| failure(e.what(), &e.hint))
    }
}
