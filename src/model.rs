//! Plain data types that all modules share. No I/O, no async, no ratatui.
//!
//! Terms are Ray's own (node, job, submission id, driver, resource demand). Text received from a cluster is a [`Text`],
//! so that hostile text cannot be printed by accident; secrets are a [`Secret`].

pub mod amount;
pub mod autoscaler;
pub mod capacity;
pub mod chips;
pub mod cloud;
pub mod cluster;
pub mod cluster_totals;
pub mod command_line;
pub mod consent;
pub mod delayed;
pub mod digest;
pub mod draft;
pub mod drift;
mod file_search;
pub mod fix;
#[cfg(test)]
pub(crate) mod fuzz;
pub mod google_wait;
pub mod host;
pub mod image;
pub mod inspect;
pub mod job;
pub mod job_stacks;
pub mod job_worker;
pub mod json;
pub mod layout;
pub mod leftover;
pub mod link;
pub mod log;
pub mod log_match;
mod log_name;
pub mod machine_type;
pub mod named;
pub mod natural;
pub mod node;
pub mod operation;
pub mod operation_lock;
pub mod order;
pub mod others;
pub mod preview;
pub mod provider;
pub mod raylet;
pub mod resize;
pub mod running_head;
pub mod secret;
pub mod service;
pub mod sgr;
pub mod slice;
pub mod sort;
pub mod step;
pub mod text;
pub mod time;
pub mod update;
pub mod userinfo;
pub mod vitals;
pub mod work;
pub mod worker;

pub use autoscaler::{
    Autoscaler, AutoscalerVersion, Demand, DemandKind, LaunchFailure, NodeTypeCount, PendingNode,
};
pub use capacity::{Capacity, QueuedState};
pub use chips::{ChipSource, ChipUse, Chips, ChipsRead, HostChips};
pub use cluster::{ClusterName, ClusterSpec, GoogleNames, HeadAddress, NodeTypeLimits, SecretName, SshAuth};
pub use cluster_totals::{Chip, ClusterTotals};
pub use consent::{Confirmation, Confirmed, Consent, RefusalReason, TakeOver};
pub use delayed::{DelayedSince, DelayedTpu};
pub use digest::Digest;
pub use draft::{Draft, FormEvent, FormId};
pub use drift::{Drift, Effect};
pub use file_search::{
    FileMatches, FileSearch, FileSearchEvent, FileSearchId, LineMatch, SearchTally, SearchedNode,
};
pub use fix::{Fix, Hint, Target, Verb};
pub use google_wait::GoogleWait;
pub use host::{HostName, NotAHost, authority};
pub use image::{ImageName, Registry, tag_fault};
pub use inspect::{Bundle, HostInspection, HostProcess, Inspection, JobInspection, PlacementGroup, Subject};
pub use job::{Job, JobId, JobIds, JobKey, JobStatus, OWNER_UNKNOWN, SubmissionId};
pub use job_stacks::{DriverStacks, JobStacks, StackGroup, StackThread, StackWorker};
pub use job_worker::{JobWorker, WorkerFile, WorkerList, WorkerState};
pub use layout::{Layout, PaneLayout, TableLayout};
pub use leftover::{Cleaned, Leftover, LeftoverKind, leftovers};
pub use link::{Cost, Link, Phase, Problem, ProblemKind};
pub use log::{FollowedLog, Line, LogBatch, LogEnd, LogPart, LogSource, StreamId};
pub use log_match::{LogMatch, LogMatches, MAX_DOWNLOAD, NotSearched};
pub use log_name::{CompressedLog, LOG_DIRECTORY, LogName};
pub use named::{Named, is_named, named, without_first_word};
pub use node::{
    Death, DeathReason, Node, NodeId, NodeState, Physical, Resource, Resources, TpuChip, node_names,
};
pub use operation::{CancelledState, NewWorker, Operation, OperationKind, Progress, Task, runs_already};
pub use operation_lock::{LOCK_INTERVAL, LOCK_STALE, Liveness, OperationLock};
pub use order::{Changed, JournaledOperation, OperationEnd, OperationEvent, Order, Refusal};
pub use others::Others;
pub use preview::{AffectedJob, Preview, Restoration, WorkerOffer, WorkerType};
pub use provider::Provider;
pub use raylet::{RayletThread, RayletThreads};
pub use resize::ResizeRequest;
pub use running_head::{RunningHead, several_heads};
pub use secret::{SECRET_VARIABLES, Secret, is_secret_in, marked_secret, named_secrets};
pub use service::{LocalPorts, Service};
pub use sgr::{SgrColor, TextStyle};
pub use step::StepName;
pub use text::Text;
pub use time::Timestamp;
pub use update::{ClusterEvent, JobStopOutcome, MissingPart, Request, Snapshot, SnapshotPart};
pub use userinfo::{shown_address, without_passwords};
pub use vitals::{
    Checkpoint, ClusterVitals, JobActivity, LogRead, ReadingCost, Run, RunWarning, VitalLimits, Vitals,
    WarningKind,
};
pub use work::{Counted, DeadActor, Holding, Wait, Work};
pub use worker::{DRAIN_SECS, MOST_WORKERS, is_worker_name, worker_names};
