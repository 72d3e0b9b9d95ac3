//! Version and session of the Ray that responds.

use super::super::client::Client;
use super::super::{RayError, json};
use crate::model::Text;
use serde::Deserialize;
use std::time::Duration;

/// Interval of reading version and session when the state does not contain them.
pub(super) const IDENTITY_EVERY: Duration = Duration::from_secs(30);

/// The response of `GET /api/version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `ray_version`.
    pub ray_version: Text,
    /// `session_name`: changes when the head restarts.
    pub session: Text,
}

impl Client {
    /// Ray's version and session. The cheapest call that needs the token.
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
