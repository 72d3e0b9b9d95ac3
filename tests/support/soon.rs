//! Waits for a future, with a time limit.

use std::time::Duration;

/// Time limit of a wait.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Awaits the future; panics after [`DEADLINE`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("timed out waiting until {what}"))
}
