//! Application-default credentials, asked before every call, so that a missing login is said at once.

use super::GcpError;
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::credentials::{self as google, CacheableResource};
use http::{Extensions, HeaderMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

pub use google_cloud_auth::credentials;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// For a new access token.
const TOKEN: Duration = Duration::from_secs(10);

type Make = dyn Fn() -> Result<google::Credentials, BuildError> + Send + Sync;

/// Who we are. Holds how credentials are made, not the credentials: after a new login they are made anew.
#[derive(Clone)]
pub struct Login(Arc<Make>);

impl Login {
    /// `GOOGLE_APPLICATION_CREDENTIALS`, else what `gcloud auth application-default login` wrote, else the metadata
    /// server of the machine we run on.
    pub fn application_default() -> Self {
        Self::by(|| google::Builder::default().with_scopes([SCOPE]).build())
    }

    /// Others.
    pub fn by(make: impl Fn() -> Result<google::Credentials, BuildError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// The credentials in force.
#[derive(Debug)]
pub(super) struct Credentials {
    login: Login,
    made: Mutex<Option<google::Credentials>>,
}

impl Credentials {
    pub(super) fn new(login: Login) -> Self {
        Self { login, made: Mutex::new(None) }
    }

    /// The credentials, for Google's own clients.
    pub(super) async fn get(&self) -> Result<google::Credentials, GcpError> {
        let mut made = self.made.lock().await;
        if let Some(credentials) = &*made {
            return Ok(credentials.clone());
        }
        let credentials = (self.login.0)().map_err(|e| GcpError::from_build(&e))?;
        Ok(made.insert(credentials).clone())
    }

    /// Headers that authorize a call. Credentials whose grant is gone never work again, even after a new login: they
    /// are dropped then, and made anew at the next call.
    pub(super) async fn headers(&self) -> Result<HeaderMap, GcpError> {
        let credentials = self.get().await?;
        let answer = tokio::time::timeout(TOKEN, credentials.headers(Extensions::new())).await;
        let error = match answer {
            Ok(Ok(CacheableResource::New { data, .. })) => return Ok(data),
            // Only for a caller that sent an entity tag.
            Ok(Ok(CacheableResource::NotModified)) => return Ok(HeaderMap::new()),
            Ok(Err(e)) => GcpError::from_chain(&e),
            Err(_) => GcpError::Timeout { after: TOKEN },
        };
        *self.made.lock().await = None;
        Err(error)
    }
}
