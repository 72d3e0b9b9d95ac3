//! Faults of the simulated services.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A fault that applies to every request whose path contains given words.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A status with Google's error body.
    Refuse {
        /// The HTTP status.
        code: u16,
        /// The `status` in the body, such as `PERMISSION_DENIED`.
        status: &'static str,
        /// The `reason` in the `ErrorInfo`; empty for none.
        reason: &'static str,
        /// The error message.
        message: &'static str,
    },
    /// Exactly this recorded response; also applies to the token endpoints.
    Recorded {
        /// The HTTP status.
        code: u16,
        /// The JSON body.
        body: &'static str,
    },
    /// 429 with this `Retry-After`, in seconds.
    Busy(u64),
    /// An HTML error page of the load balancer, with this status.
    Html(u16),
    /// Status 200 with the sign-in page of a network.
    SignIn,
    /// The checksum does not match the payload.
    BadChecksum,
    /// The payload has no checksum.
    NoChecksum,
    /// Delays the response by this duration.
    Latency(Duration),
    /// Delays the response until a permit is available; each response consumes one.
    Held(Arc<Semaphore>),
    /// The token endpoint returns `invalid_grant` or another OAuth error.
    Grant {
        /// The OAuth `error`.
        error: &'static str,
        /// Google's `error_subtype`.
        subtype: Option<&'static str>,
    },
    /// The token endpoint reports that the client's clock is wrong.
    Skew,
    /// Closes the connection without a response.
    HangUp,
}
