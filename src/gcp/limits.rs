//! How long Google is waited for, and how often it is asked again.

use std::time::Duration;

/// Timeout of one attempt.
pub const CALL: Duration = Duration::from_secs(20);

/// Timeout for opening a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// How long a call that may wait for Google waits in all, where Google asks it to. Quotas are counted by the minute.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Attempts of a call that may be repeated.
pub(super) const TRIES: u32 = 3;

/// The pause before the second attempt; it doubles with each further one.
pub(super) const PAUSE: Duration = Duration::from_millis(300);
