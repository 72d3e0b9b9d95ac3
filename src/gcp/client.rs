//! The client: base URLs, login, connections, and the attempts of one call.

use super::GcpError;
use super::identity::Identity;
use super::limits::{CALL, CONNECT, PAUSE, TRIES};
use super::login::{Authorized, Credentials, Login};
use crate::model::Secret;
use http::HeaderMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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
    /// Cloud Resource Manager v3.
    pub resource_manager: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        let of = |service: &str| format!("https://{service}.googleapis.com");
        Self {
            secret_manager: of("secretmanager"),
            compute: of("compute"),
            tpu: of("tpu"),
            artifact_registry: of("artifactregistry"),
            resource_manager: of("cloudresourcemanager"),
        }
    }
}

impl Endpoints {
    /// All services at one address.
    pub fn all_at(url: &str) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self {
            secret_manager: url.clone(),
            compute: url.clone(),
            tpu: url.clone(),
            artifact_registry: url.clone(),
            resource_manager: url,
        }
    }
}

/// A client of Google Cloud. Cheap to clone; clones share connections and credentials. It connects at the first call.
#[derive(Clone, Debug)]
pub struct Google {
    pub(super) inner: Arc<Inner>,
}

/// What all clones share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) endpoints: Endpoints,
    pub(super) credentials: Credentials,
    pub(super) http: OnceLock<reqwest::Client>,
    /// Poll interval of an operation.
    pub(super) look: Duration,
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

    /// Gets an access token, and says which login gave it.
    pub async fn log_in(&self) -> Result<Arc<Identity>, GcpError> {
        let mut attempts = self.inner.attempts("", Effect::None);
        attempts.authorized().await?;
        Ok(attempts.identity)
    }

    /// An access token of the login, for a program that has to be given one; it is valid for an hour at most.
    pub async fn access_token(&self) -> Result<Secret, GcpError> {
        let headers = self.inner.attempts("", Effect::None).authorized().await?;
        let bearer = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let none = || GcpError::LoginRefused { why: "it gave no bearer token".into(), login: Box::default() };
        token.map(Secret::new).ok_or_else(none)
    }
}

impl Inner {
    /// The HTTP client; made at the first use, because without a CA bundle it cannot be made at all.
    pub(super) fn http(&self) -> Result<&reqwest::Client, GcpError> {
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

    /// What authorizes a call.
    async fn authorize(&self) -> Result<Authorized, GcpError> {
        // First: google-cloud-auth makes a client of its own, which must not meet a missing CA bundle.
        self.http()?;
        self.credentials.authorize().await
    }

    /// The attempts of a call in this project.
    pub(super) fn attempts(&self, project: &str, effect: Effect) -> Attempts<'_> {
        let identity = Arc::default();
        Attempts {
            inner: self,
            project: project.to_owned(),
            effect,
            identity,
            made: 1,
            since: Instant::now(),
        }
    }
}

/// Whether a call changes anything at Google.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Change,
}

/// The attempts of a call: at most [`TRIES`], within [`CALL`], each with a login.
pub(super) struct Attempts<'a> {
    inner: &'a Inner,
    project: String,
    effect: Effect,
    /// The login of the last attempt.
    identity: Arc<Identity>,
    made: u32,
    since: Instant,
}

impl Attempts<'_> {
    /// Authorizes the next attempt. Whatever the call changes, a login that fails for a moment is asked for again.
    pub(super) async fn authorized(&mut self) -> Result<HeaderMap, GcpError> {
        loop {
            match self.inner.authorize().await {
                Ok(Authorized { headers, identity }) => {
                    self.identity = identity;
                    return Ok(headers);
                }
                Err(e) if self.wait(&e).await => {}
                Err(e) => return Err(e.in_project(&self.project)),
            }
        }
    }

    /// After this error: waits, or fails for good. A call that changes something is repeated only when Google has not
    /// begun with it and says when to come again.
    pub(super) async fn again(&mut self, error: GcpError) -> Result<(), GcpError> {
        let repeatable = self.effect == Effect::None || matches!(error, GcpError::Quota { .. });
        if repeatable && self.wait(&error).await {
            return Ok(());
        }
        Err(error.read_from(&self.identity).in_project(&self.project))
    }

    /// Waits for a short pause, or as long as Google asks, and returns whether to retry after this error.
    async fn wait(&mut self, error: &GcpError) -> bool {
        let pause = (PAUSE * 2_u32.pow(self.made - 1)).max(error.retry_after().unwrap_or_default());
        if self.made == TRIES || !error.may_pass() || self.since.elapsed() + pause > CALL {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.made += 1;
        true
    }
}
