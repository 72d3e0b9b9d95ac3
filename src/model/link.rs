//! The state of the connection to a cluster: what works, what fails, since when, and a hint.

use super::{Hint, Target, Timestamp};
use std::time::Duration;

/// What the console is doing to reach a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking up the head's address.
    Address,
    /// Opening the SSH connection and its forwards.
    Tunnel,
    /// Waiting for the dashboard's first answer.
    Dashboard,
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
        /// Round trip of the last small request; none when it was not answered.
        latency: Option<Duration>,
        /// State comes through the GCS; false: the dashboard answers for it (the slower fallback).
        gcs: bool,
        /// The cluster asks for a token (`/api/authentication_mode`).
        token_auth: bool,
        /// What is wrong with the dashboard while the GCS answers: the state is shown, but logs, job actions and
        /// machine figures are not available.
        dashboard: Option<Problem>,
    },
    /// Broken; tries again by itself.
    Retrying {
        /// Cause of the failure.
        problem: Problem,
        /// When the next try starts.
        at: Timestamp,
    },
    /// The connection is down, and retrying cannot succeed without an operator's fix.
    Stopped {
        /// Cause of the failure.
        problem: Problem,
    },
}

/// The kind of a problem, which determines the actions that the console offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The cluster's file or the settings are broken.
    Config,
    /// No head address could be found.
    Address,
    /// Several heads of the cluster are running, and none is chosen.
    SeveralHeads,
    /// The service that knows the head's address answers no more questions for now.
    Quota {
        /// For how long it wants none.
        after: Duration,
    },
    /// The host cannot be reached (DNS, route, refused, timed out).
    Unreachable,
    /// The host refused our key or user.
    KeyRefused,
    /// The host's key is not the one we know.
    HostKeyChanged {
        /// Fingerprint of the known key, `SHA256:...`; empty when it could not be read.
        known: String,
        /// Fingerprint that the host offers now.
        offered: String,
    },
    /// A local port could not be had.
    PortInUse,
    /// The connection was lost.
    TunnelLost,
    /// The tunnel works; nothing answers behind it.
    DashboardSilent,
    /// The dashboard answers, but not as Ray does.
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
    /// The problem in two or three words, the same in console and commands.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match self {
            Self::Config => "broken file",
            Self::Address => "head not found",
            Self::SeveralHeads => "multiple heads",
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
            Self::Other => "broken",
        }
    }

    /// Whether Ray answers but refuses the token, so that waiting does not help.
    #[must_use]
    pub const fn is_of_token(&self) -> bool {
        matches!(self, Self::TokenMissing | Self::TokenRefused)
    }
}

/// What is wrong, since when, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// One sentence in plain words; safe to print.
    pub what: String,
    /// What to do now; empty when waiting is all there is.
    pub hint: Hint,
    /// Since when it is so.
    pub since: Timestamp,
}

impl Problem {
    /// A problem that begins at `since`. Its sentence is made safe to print, and a password in an address is masked.
    pub fn new(kind: ProblemKind, what: impl AsRef<str>, hint: impl Into<Hint>, since: Timestamp) -> Self {
        let what = super::userinfo::without_passwords(what.as_ref());
        Self { kind, what: super::text::printable(&what).into_owned(), hint: hint.into(), since }
    }

    /// What is wrong and what to do, as a command prints it.
    pub fn in_commands(&self, target: Target<'_>) -> String {
        self.joined(&self.hint.in_commands(target))
    }

    /// What is wrong, and the hint in these words; a hint that says nothing is left out.
    pub fn joined(&self, hint: &str) -> String {
        if hint.is_empty() { self.what.clone() } else { format!("{}; {hint}", self.what) }
    }
}

/// What the console costs a head: counted, so that it can be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests in the last minute.
    pub requests_per_minute: u64,
    /// Bytes received in the last minute.
    pub bytes_per_minute: u64,
}
