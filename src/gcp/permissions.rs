//! Tests which of the permissions that this program needs a login has in a project.

use super::needs::{NEEDS, Need};
use super::rest::Call;
use super::{GcpError, Google};
use reqwest::Method;
use serde_json::json;

/// A need, and its permissions that the login does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct Lack {
    pub need: &'static Need,
    /// The missing permissions, in the order of the need's.
    pub missing: Vec<&'static str>,
}

impl Google {
    /// Tests in one call which of all [`NEEDS`] the login has, granted on the project or above it.
    pub async fn lacks(&self, project: &str) -> Result<Vec<Lack>, GcpError> {
        let base = &self.inner.endpoints.resource_manager;
        let all: Vec<_> = NEEDS.iter().flat_map(|need| need.permissions).collect();
        let answer = self
            .inner
            .call(&Call {
                method: Method::POST,
                url: format!("{base}/v3/projects/{project}:testIamPermissions"),
                query: &[],
                body: Some(&json!({ "permissions": all })),
            })
            .await?;
        // If no permission is granted, the response has no list.
        let has = |permission: &&&'static str| {
            let granted = answer["permissions"].as_array();
            granted.is_some_and(|granted| granted.iter().any(|one| one == **permission))
        };
        let lack = |need: &'static Need| Lack {
            need,
            missing: need.permissions.iter().filter(|one| !has(one)).copied().collect(),
        };
        Ok(NEEDS.iter().map(lack).collect())
    }
}
