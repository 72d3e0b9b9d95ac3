//! Which Ray answers, and in which session.

use super::super::client::Client;
use super::super::{RayError, json};
use crate::model::Text;
use serde::Deserialize;
use std::time::Duration;

/// Interval of reading version and session when the state does not contain them.
pub(super) const IDENTITY_EVERY: Duration = Duration::from_secs(30);

/// What `GET /api/version` tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `ray_version`.
    pub ray_version: Text,
    /// `session_name`: changes when the head restarts.
    pub session: Text,
}

impl Client {
    /// Which Ray answers. Needs the token, and is the cheapest call that does.
    pub async fn version(&self) -> Result<Identity, RayError> {
        #[derive(Deserialize)]
        struct Version {
            ray_version: String,
            #[serde(default)]
            session_name: String,
        }
        let route = "/api/version";
        let version: Version = json::read(route, &self.get(route).await?)?;
        Ok(Identity { ray_version: version.ray_version.into(), session: version.session_name.into() })
    }
}
