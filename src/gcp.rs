//! Google Cloud as a client sees it: Secret Manager through Google's own crate, Compute Engine, Cloud TPU and
//! Artifact Registry as REST calls. It knows nothing of Ray except the labels of its machines.
//!
//! A call without an answer fails after [`CALL`] (no retry starts after that), with an error that has an exact hint.
//! Base URLs are a plain value, so that private endpoints and tests can replace Google's.

mod change;
mod clean;
mod compute;
mod error;
mod groups;
mod login;
mod operation;
mod proof;
mod registry;
mod rest;
mod secrets;
mod tpu;

pub use change::Change;
pub use clean::TpuPlace;
pub use compute::{Head, Heads, Instance};
pub use error::GcpError;
pub use groups::InstanceGroup;
pub use login::{Login, credentials};
pub use proof::{ChosenQueued, ChosenTpu};
pub use registry::Image;
pub use secrets::{SecretVersion, random_token};
pub use tpu::TpuApi;

use login::Credentials;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Timeout of one attempt.
pub const CALL: Duration = Duration::from_secs(20);
/// Timeout for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Attempts of a call that may be repeated, and the pause before the second; it doubles.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);

/// Base URLs of the services, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Secret Manager v1.
    pub secret_manager: String,
    /// Compute Engine v1.
    pub compute: String,
    /// Cloud TPU v2 and v2alpha1.
    pub tpu: String,
    /// Artifact Registry v1.
    pub artifact_registry: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        let of = |service: &str| format!("https://{service}.googleapis.com");
        Self {
            secret_manager: of("secretmanager"),
            compute: of("compute"),
            tpu: of("tpu"),
            artifact_registry: of("artifactregistry"),
        }
    }
}

impl Endpoints {
    /// All services at one address.
    pub fn all_at(url: &str) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self { secret_manager: url.clone(), compute: url.clone(), tpu: url.clone(), artifact_registry: url }
    }
}

/// A client of Google Cloud. Cheap to clone; clones share connections and credentials. It connects at the first call.
#[derive(Clone, Debug)]
pub struct Google {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    endpoints: Endpoints,
    credentials: Credentials,
    http: OnceLock<reqwest::Client>,
    /// Poll interval of an operation.
    look: Duration,
}

impl Google {
    /// A client with these base URLs and this login.
    pub fn new(endpoints: Endpoints, login: Login) -> Self {
        // Without a default both reqwest and google-cloud-auth panic; an error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let credentials = Credentials::new(login);
        let look = Duration::from_secs(1);
        Self { inner: Arc::new(Inner { endpoints, credentials, http: OnceLock::new(), look }) }
    }

    /// Base URLs of the services.
    pub fn endpoints(&self) -> &Endpoints {
        &self.inner.endpoints
    }

    /// Checks that there are credentials: without any, a call of Google's crates would retry for a minute.
    pub async fn preflight(&self) -> Result<(), GcpError> {
        self.inner.headers().await.map(|_| ())
    }
}

impl Inner {
    /// The HTTP client; made at the first use, because without a CA bundle it cannot be made at all.
    fn http(&self) -> Result<&reqwest::Client, GcpError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(CALL)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("marin-tui/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| GcpError::from_chain(&e))?;
        Ok(self.http.get_or_init(|| client))
    }

    /// Headers that authorize a call.
    async fn headers(&self) -> Result<http::HeaderMap, GcpError> {
        // First: google-cloud-auth makes a client of its own, which must not meet a missing CA bundle.
        self.http()?;
        self.credentials.headers().await
    }
}

/// Counts the attempts of a call that may be repeated.
struct Tries {
    made: u32,
    since: Instant,
}

impl Tries {
    fn new() -> Self {
        Self { made: 1, since: Instant::now() }
    }

    /// Waits for a short pause and returns whether to retry after this error. At most three attempts, within [`CALL`].
    async fn again(&mut self, error: &GcpError) -> bool {
        if self.made == TRIES || !error.may_pass() || self.since.elapsed() > CALL {
            return false;
        }
        tokio::time::sleep(PAUSE * 2_u32.pow(self.made - 1)).await;
        self.made += 1;
        true
    }
}
