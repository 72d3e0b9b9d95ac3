//! Long-running operations: Compute's (`status`, `error.errors`) and those of google.longrunning (`done`, `error`).

use super::GcpError;
use super::client::Inner;
use serde_json::Value;
use std::time::Duration;

/// Timeout of an operation; deleting a large slice takes minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Inner {
    /// Polls the operation until it has ended and returns its response or its error. `url` builds the URL from its
    /// name.
    pub(super) async fn follow(
        &self,
        operation: Value,
        url: impl Fn(&str) -> String,
    ) -> Result<Value, GcpError> {
        let wait = async {
            let mut operation = operation;
            // The first polls come quickly, for short operations.
            let mut pause = self.poll_interval / 16;
            loop {
                if let Some(outcome) = outcome(&operation) {
                    return outcome;
                }
                let name = operation["name"].as_str().unwrap_or_default().to_owned();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(self.poll_interval);
                operation = self.get(&url(&name), &[]).await?;
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.unwrap_or(Err(GcpError::Timeout { after: TIMEOUT }))
    }
}

/// The result of an operation; `None` while it runs.
fn outcome(operation: &Value) -> Option<Result<Value, GcpError>> {
    let is_done = operation["done"] == true || operation["status"] == "DONE";
    if !is_done {
        return None;
    }
    let error = &operation["error"];
    if error.is_null() {
        return Some(Ok(operation["response"].clone()));
    }
    let first = &error["errors"][0];
    let message = error["message"].as_str().or_else(|| first["message"].as_str());
    let code = first["code"].as_str().unwrap_or_default();
    Some(Err(GcpError::from_operation(code, message.unwrap_or("no reason given"))))
}
