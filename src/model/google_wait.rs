//! A wait that Google has asked for.

use std::time::Duration;

/// Google answered a call with a time to wait (`Retry-After`, RFC 9110, section 10.2.3; `google.rpc.RetryInfo`), and the
/// call is repeated after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleWait {
    /// The project of the call; empty for the service that gives access tokens, which all calls need.
    pub project: String,
    /// What Google said; safe to print.
    pub reason: String,
    /// For how long Google wants no call.
    pub asked: Duration,
    /// How much of it is left.
    pub left: Duration,
}

impl GoogleWait {
    /// The wait in words when that much of it is left.
    pub fn words(&self, left: Duration) -> String {
        let Self { reason, asked, .. } = self;
        format!("Waiting {} s as requested by Google ({reason}); {}", asked.as_secs(), Self::next(left))
    }

    /// When the call is repeated; never `0 s`.
    pub fn next(left: Duration) -> String {
        format!("next try in {} s", left.as_millis().div_ceil(1000).max(1))
    }

    /// Whether calls in this project wait for it.
    pub fn is_of(&self, project: Option<&str>) -> bool {
        self.project.is_empty() || project == Some(self.project.as_str())
    }
}
