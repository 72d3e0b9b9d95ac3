//! Who hears what clients change at a simulated head or at the simulated Google: each request that does more than read,
//! when it has come in and before it is answered.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;

type Hears = dyn Fn(&str, &str, &Value) + Send + Sync;

/// Hears the method, the path with its query, and the JSON body (null without one) of each changing request.
#[derive(Clone, Default)]
pub struct Witness(Option<Arc<Hears>>);

impl Witness {
    /// One that does this with each of them; it must not look at the double meanwhile.
    pub fn new(hears: impl Fn(&str, &str, &Value) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    pub(super) fn hear(&self, method: &str, path: &str, body: &Value) {
        if let Some(hears) = &self.0 {
            hears(method, path, body);
        }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
