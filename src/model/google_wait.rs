//! A wait requested by Google.

use std::time::Duration;

/// Google responded to a call with a time to wait (`Retry-After`, RFC 9110, section 10.2.3; `google.rpc.RetryInfo`),
/// after which the call is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleWait {
    /// The project of the call; empty for the service that issues access tokens, which all calls need.
    pub project: String,
    /// Google's error message; safe to print.
    pub reason: String,
    /// The requested time to wait.
    pub requested: Duration,
    /// The remaining time.
    pub left: Duration,
}

impl GoogleWait {
    /// The wait in words, with the given remaining time.
    pub fn text(&self, left: Duration) -> String {
        let Self { reason, requested, .. } = self;
        format!("Waiting {} s as requested by Google ({reason}); {}", requested.as_secs(), Self::next(left))
    }

    /// When the call is repeated; never `0 s`.
    pub fn next(left: Duration) -> String {
        format!("next try in {} s", left.as_millis().div_ceil(1000).max(1))
    }

    /// Whether it applies to calls in this project.
    pub fn is_of(&self, project: Option<&str>) -> bool {
        self.project.is_empty() || project == Some(self.project.as_str())
    }
}
