//! A callback for changing requests to a simulated head or to the simulated Google services. It is called after a
//! request has arrived and before the response is sent.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;

type Callback = dyn Fn(&str, &str, &Value) + Send + Sync;

/// Called with the method, the path with its query, and the JSON body (null without one) of each changing request.
#[derive(Clone, Default)]
pub struct RequestObserver(Option<Arc<Callback>>);

impl RequestObserver {
    /// An observer with this callback, which must not access the simulated service.
    pub fn new(callback: impl Fn(&str, &str, &Value) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    pub(super) fn call(&self, method: &str, path: &str, body: &Value) {
        if let Some(callback) = &self.0 {
            callback(method, path, body);
        }
    }
}

impl fmt::Debug for RequestObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestObserver")
    }
}
