//! Faults of the simulated services.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A fault of every request whose path contains the given words.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A status with Google's error body; `reason` is that of its `ErrorInfo`.
    Refuse {
        /// The HTTP status.
        code: u16,
        /// Its word in the body.
        status: &'static str,
        /// The reason; empty for none.
        reason: &'static str,
        /// The sentence.
        message: &'static str,
    },
    /// Exactly this answer, as it was recorded; of the token endpoints too.
    Recorded {
        /// The HTTP status.
        code: u16,
        /// The JSON body.
        body: &'static str,
    },
    /// 429 with this `Retry-After`, in seconds.
    Busy(u64),
    /// The load balancer's HTML page.
    Html(u16),
    /// A 200 that is a sign-in page.
    SignIn,
    /// The payload's checksum is not that of the payload.
    BadChecksum,
    /// The payload comes without a checksum.
    NoChecksum,
    /// Answers that much later.
    Latency(Duration),
    /// Answers once there is a permit; each answer uses one up.
    Held(Arc<Semaphore>),
    /// The token endpoint refuses: `invalid_grant` or another OAuth error, with its `error_subtype`.
    Grant {
        /// OAuth's word.
        error: &'static str,
        /// Google's addition to it.
        subtype: Option<&'static str>,
    },
    /// The token endpoint reports that the client's clock is wrong.
    Skew,
    /// Closes the connection without an answer.
    HangUp,
}
