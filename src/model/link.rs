//! The state of the connection to a cluster: its phase or problem, its age, and a hint.

use super::{Hint, Target, Timestamp};
use std::time::Duration;

/// Phase of opening a connection to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking up the head's address.
    Address,
    /// Opening the SSH connection and its forwards.
    Tunnel,
    /// Waiting for the dashboard's first response.
    Dashboard,
}

impl Phase {
    /// What is being done, as a phrase.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Address => "looking up the head",
            Self::Tunnel => "connecting over SSH",
            Self::Dashboard => "querying Ray",
        }
    }
}

/// The state of the connection to one cluster, as the front end shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// The connection is being opened.
    Connecting {
        /// Current phase of the connection.
        phase: Phase,
        /// When the attempt began.
        since: Timestamp,
    },
    /// The connection works.
    Up {
        /// When the connection was opened.
        since: Timestamp,
        /// Round-trip time of the last small request; none if there was no response.
        latency: Option<Duration>,
        /// Whether state is read from the GCS; false if it is read from the dashboard (the slower fallback).
        gcs: bool,
        /// Whether the cluster requires a token (`/api/authentication_mode`).
        token_auth: bool,
        /// The problem with the dashboard while the GCS responds: the state is shown, but logs, job actions and machine
        /// metrics are not available.
        dashboard: Option<Problem>,
    },
    /// The connection is down and is retried automatically.
    Retrying {
        /// Cause of the failure.
        problem: Problem,
        /// When the next attempt starts.
        at: Timestamp,
    },
    /// The connection is down, and retrying cannot succeed until the operator fixes the cause.
    Stopped {
        /// Cause of the failure.
        problem: Problem,
    },
}

/// The kind of a problem, which determines the actions that the console offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The cluster file or the settings are invalid.
    Config,
    /// No head address could be found.
    Address,
    /// Several heads of the cluster are running, and none is selected.
    MultipleHeads,
    /// The service that provides the head's address currently refuses requests because of a quota.
    Quota {
        /// Time until requests are accepted again.
        after: Duration,
    },
    /// The host cannot be reached (DNS, route, refused, timed out).
    Unreachable,
    /// The host refused our key or user.
    KeyRefused,
    /// The host key differs from the known one.
    HostKeyChanged {
        /// Fingerprint of the known key, `SHA256:...`; empty if it could not be read.
        known: String,
        /// Fingerprint of the key that the host offers now.
        offered: String,
    },
    /// A local port could not be opened.
    PortInUse,
    /// The connection was lost.
    TunnelLost,
    /// The tunnel works, but the dashboard does not respond.
    DashboardSilent,
    /// The responses do not come from a Ray dashboard.
    NotRay,
    /// 401: the cluster requires a token and none was found.
    TokenMissing,
    /// 403: the cluster refuses our token.
    TokenRefused,
    /// There is no Google Cloud login on this machine.
    Login,
    /// Any other problem.
    Other,
}

impl ProblemKind {
    /// The problem in a few words, for console and commands.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        match self {
            Self::Config => "broken file",
            Self::Address => "head not found",
            Self::MultipleHeads => "multiple heads",
            Self::Quota { .. } => "quota",
            Self::Unreachable => "unreachable",
            Self::KeyRefused => "key refused",
            Self::HostKeyChanged { .. } => "host key changed",
            Self::PortInUse => "port in use",
            Self::TunnelLost => "connection lost",
            Self::DashboardSilent => "dashboard not responding",
            Self::NotRay => "not Ray",
            Self::TokenMissing => "no token",
            Self::TokenRefused => "token refused",
            Self::Login => "not logged in",
            Self::Other => "error",
        }
    }

    /// Whether Ray responds but the token is missing or refused, so that waiting does not help.
    #[must_use]
    pub const fn is_of_token(&self) -> bool {
        matches!(self, Self::TokenMissing | Self::TokenRefused)
    }
}

/// A problem, its start, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// The problem in one sentence; safe to print.
    pub what: String,
    /// What to do; empty if the operator can only wait.
    pub hint: Hint,
    /// When it began.
    pub since: Timestamp,
}

impl Problem {
    /// A problem that began at `since`. Its sentence is made safe to print, and passwords in URLs are masked.
    pub fn new(kind: ProblemKind, what: impl AsRef<str>, hint: impl Into<Hint>, since: Timestamp) -> Self {
        let what = super::userinfo::without_passwords(what.as_ref());
        Self { kind, what: super::text::printable(&what).into_owned(), hint: hint.into(), since }
    }

    /// The problem and its hint, as a command prints them.
    pub fn in_commands(&self, target: Target<'_>) -> String {
        self.joined(&self.hint.in_commands(target))
    }

    /// The problem, followed by the given hint unless it is empty.
    pub fn joined(&self, hint: &str) -> String {
        if hint.is_empty() { self.what.clone() } else { format!("{}; {hint}", self.what) }
    }
}

/// The load that the console causes on a head, for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests in the last minute.
    pub requests_per_minute: u64,
    /// Bytes received in the last minute.
    pub bytes_per_minute: u64,
}
