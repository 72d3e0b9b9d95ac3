//! Timeouts and retry limits of calls to Google.

use std::time::Duration;

/// Timeout of one attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout for opening a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum total time that a call of a patient client waits because Google asks it to. Quotas are counted per minute.
pub const WAIT_LIMIT: Duration = Duration::from_secs(300);

/// Maximum number of attempts of a call that may be repeated.
pub(super) const MAX_ATTEMPTS: u32 = 3;

/// The pause before the second attempt; it doubles with each further one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(300);
