//! A callback for changing requests at a simulated head or at the simulated Google. It is called when a request has
//! arrived and before it is answered.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;

type Hears = dyn Fn(&str, &str, &Value) + Send + Sync;

/// Called with the method, the path with its query, and the JSON body (null without one) of each changing request.
#[derive(Clone, Default)]
pub struct RequestObserver(Option<Arc<Hears>>);

impl RequestObserver {
    /// A witness with this callback, which must not access the simulated service.
    pub fn new(hears: impl Fn(&str, &str, &Value) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    pub(super) fn hear(&self, method: &str, path: &str, body: &Value) {
        if let Some(hears) = &self.0 {
            hears(method, path, body);
        }
    }
}

impl fmt::Debug for RequestObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestObserver")
    }
}
