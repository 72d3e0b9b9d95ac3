//! The client: base URLs, login, connections, and the attempts of one call.

use super::GcpError;
use super::identity::Identity;
use super::limits::{CALL, CONNECT, PATIENCE, PAUSE, TRIES};
use super::login::{Authorized, Credentials, Login};
use super::waits::{LOGIN, Waits};
use crate::model::{GoogleWait, Secret};
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
#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) endpoints: Endpoints,
    pub(super) credentials: Arc<Credentials>,
    http: Arc<OnceLock<reqwest::Client>>,
    waits: Waits,
    /// How long a call waits in all where Google asks it to.
    patience: Duration,
    /// Poll interval of an operation.
    pub(super) look: Duration,
}

impl Google {
    /// A client with these base URLs and this login.
    pub fn new(endpoints: Endpoints, login: Login) -> Self {
        // Without a default both reqwest and google-cloud-auth panic; an error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            inner: Arc::new(Inner {
                endpoints,
                credentials: Arc::new(Credentials::new(login)),
                http: Arc::default(),
                waits: Waits::default(),
                patience: CALL,
                look: Duration::from_secs(1),
            }),
        }
    }

    /// The same client for calls that nothing else waits for: where Google asks to wait longer than [`CALL`], they do, up
    /// to [`PATIENCE`]. Those of others fail at once, and say how long.
    #[must_use]
    pub fn patient(&self) -> Self {
        Self { inner: Arc::new(Inner { patience: PATIENCE, ..(*self.inner).clone() }) }
    }

    /// From now on this function is called when calls of this client, of its clones and of their patient ones begin to
    /// wait because Google asks them to.
    pub fn tell_waits(&self, tell: impl Fn(GoogleWait) + Send + Sync + 'static) {
        self.inner.waits.tell(tell);
    }

    /// Base URLs of the services.
    pub fn endpoints(&self) -> &Endpoints {
        &self.inner.endpoints
    }

    /// Gets an access token, and says which login gave it.
    pub async fn log_in(&self) -> Result<Arc<Identity>, GcpError> {
        let mut attempts = self.inner.attempts(LOGIN, "", Effect::None);
        attempts.authorized().await?;
        Ok(attempts.identity)
    }

    /// An access token of the login, for a program that has to be given one; it is valid for an hour at most.
    pub async fn access_token(&self) -> Result<Secret, GcpError> {
        let headers = self.inner.attempts(LOGIN, "", Effect::None).authorized().await?;
        let bearer = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let none =
            || GcpError::LoginRefused { why: "it returned no bearer token".into(), login: Box::default() };
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

    /// The attempts of a call of this service, which is one in each project: quotas are counted so.
    pub(super) fn attempts(&self, service: &str, project: &str, effect: Effect) -> Attempts<'_> {
        Attempts {
            inner: self,
            service: format!("{service} {project}"),
            project: project.to_owned(),
            effect,
            identity: Arc::default(),
            made: 1,
            since: Instant::now(),
            waited: Duration::ZERO,
        }
    }
}

/// Whether a call changes anything at Google.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Change,
}

/// The attempts of a call: at most [`TRIES`], each with a login, within [`CALL`] and what Google asks to wait.
pub(super) struct Attempts<'a> {
    inner: &'a Inner,
    service: String,
    project: String,
    effect: Effect,
    /// The login of the last attempt.
    identity: Arc<Identity>,
    made: u32,
    /// When the call began; later by what was waited because Google asked for it.
    since: Instant,
    /// What was waited because Google asked for it.
    waited: Duration,
}

impl Attempts<'_> {
    /// Authorizes the next attempt, once Google wants one. Whatever the call changes, a login that fails for a moment is
    /// asked for again.
    pub(super) async fn authorized(&mut self) -> Result<HeaderMap, GcpError> {
        let service = self.service.clone();
        self.wanted(&service).await?;
        loop {
            self.wanted(LOGIN).await?;
            match self.inner.authorize().await {
                Ok(Authorized { headers, identity }) => {
                    self.identity = identity;
                    return Ok(headers);
                }
                Err(e) => {
                    self.inner.waits.learn(LOGIN, &e);
                    if !self.pause(&e).await {
                        return Err(e.in_project(&self.project));
                    }
                }
            }
        }
    }

    /// After this error: pauses, or fails for good. A call that changes something is repeated only when Google has not
    /// begun with it and says when to come again.
    pub(super) async fn again(&mut self, error: GcpError) -> Result<(), GcpError> {
        self.inner.waits.learn(&self.service, &error);
        let repeatable = self.effect == Effect::None || matches!(error, GcpError::Quota { .. });
        if repeatable && self.pause(&error).await {
            return Ok(());
        }
        Err(error.read_from(&self.identity).in_project(&self.project))
    }

    /// Whether to try again after this error; pauses shortly. What Google asks to wait is waited before the next attempt.
    async fn pause(&mut self, error: &GcpError) -> bool {
        let pause = PAUSE * 2_u32.pow(self.made - 1);
        let in_time = match error.retry_after() {
            Some(after) => self.waited + after <= self.inner.patience,
            None => self.since.elapsed() + pause <= CALL,
        };
        if self.made == TRIES || !error.may_pass() || !in_time {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.made += 1;
        true
    }

    /// Waits until the service may be asked again; where that is too long, fails as the call did to which Google said so.
    async fn wanted(&mut self, service: &str) -> Result<(), GcpError> {
        while let Some((left, error)) = self.inner.waits.left(service) {
            if self.waited + left > self.inner.patience {
                return Err(error);
            }
            self.inner.waits.begins(service, &self.project);
            tokio::time::sleep(left).await;
            self.waited += left;
            self.since += left;
        }
        Ok(())
    }
}
