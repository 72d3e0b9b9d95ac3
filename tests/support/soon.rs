//! Waits for what comes by itself, and gives up in the end.

use std::time::Duration;

/// How long anything may take before a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// What the future gives; a panic when it takes too long.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}
