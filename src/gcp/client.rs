//! The client: base URLs, login, connections, and the attempts of one call.

use super::GcpError;
use super::identity::Identity;
use super::limits::{ATTEMPT_TIMEOUT, CONNECT_TIMEOUT, FIRST_PAUSE, MAX_ATTEMPTS, WAIT_LIMIT};
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

/// The data that all clones share.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) endpoints: Endpoints,
    pub(super) credentials: Arc<Credentials>,
    http: Arc<OnceLock<reqwest::Client>>,
    waits: Waits,
    /// Maximum total time that a call waits because Google asks it to.
    wait_limit: Duration,
    /// Poll interval of an operation.
    pub(super) poll_interval: Duration,
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
                wait_limit: ATTEMPT_TIMEOUT,
                poll_interval: Duration::from_secs(1),
            }),
        }
    }

    /// The same client for calls that may wait: if Google asks to wait longer than [`ATTEMPT_TIMEOUT`], they do, up to
    /// [`WAIT_LIMIT`]. Calls of other clients fail immediately, with an error that states the wait.
    #[must_use]
    pub fn with_waits(&self) -> Self {
        Self { inner: Arc::new(Inner { wait_limit: WAIT_LIMIT, ..(*self.inner).clone() }) }
    }

    /// Sets the function that is called when calls of this client, of its clones and of their patient clients begin to
    /// wait because Google asks them to.
    pub fn on_wait(&self, listener: impl Fn(GoogleWait) + Send + Sync + 'static) {
        self.inner.waits.listen(listener);
    }

    /// Base URLs of the services.
    pub fn endpoints(&self) -> &Endpoints {
        &self.inner.endpoints
    }

    /// Gets an access token, and returns the login that it comes from.
    pub async fn log_in(&self) -> Result<Arc<Identity>, GcpError> {
        let mut attempts = self.inner.attempts(LOGIN, "", Effect::None);
        attempts.authorized().await?;
        Ok(attempts.identity)
    }

    /// An access token of the login, to be passed to another program; it is valid for an hour at most.
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
    /// The HTTP client; created at the first use, because that fails without a CA bundle.
    pub(super) fn http(&self) -> Result<&reqwest::Client, GcpError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("marin-tui/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| GcpError::from_chain(&e))?;
        Ok(self.http.get_or_init(|| client))
    }

    /// The headers that authorize a call, and their login.
    async fn authorize(&self) -> Result<Authorized, GcpError> {
        // This comes first: google-cloud-auth creates a client of its own, which must not run without a CA bundle.
        self.http()?;
        self.credentials.authorize().await
    }

    /// The attempts of a call to this service. A service has separate waits in each project, as quotas are per project.
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

/// The attempts of a call: at most [`MAX_ATTEMPTS`], each authorized. None begins later than [`ATTEMPT_TIMEOUT`] after
/// the first one, except after the waits that Google asks for.
pub(super) struct Attempts<'a> {
    inner: &'a Inner,
    service: String,
    project: String,
    effect: Effect,
    /// The login of the last attempt.
    identity: Arc<Identity>,
    made: u32,
    /// When the call began, moved forward by the time waited because Google asked for it.
    since: Instant,
    /// Time waited because Google asked for it.
    waited: Duration,
}

impl Attempts<'_> {
    /// Authorizes the next attempt, after any wait that Google asked for. A login that fails temporarily is retried,
    /// even for a call that changes something.
    pub(super) async fn authorized(&mut self) -> Result<HeaderMap, GcpError> {
        let service = self.service.clone();
        self.wait_for(&service).await?;
        loop {
            self.wait_for(LOGIN).await?;
            match self.inner.authorize().await {
                Ok(Authorized { headers, identity }) => {
                    self.identity = identity;
                    return Ok(headers);
                }
                Err(e) => {
                    self.inner.waits.record(LOGIN, &e);
                    if !self.pause(&e).await {
                        return Err(e.in_project(&self.project));
                    }
                }
            }
        }
    }

    /// After this error: pauses before a retry, or returns the final error. A call that changes something is retried
    /// only when Google refused it for its quota and stated a retry delay.
    pub(super) async fn again(&mut self, error: GcpError) -> Result<(), GcpError> {
        self.inner.waits.record(&self.service, &error);
        let repeatable = self.effect == Effect::None || matches!(error, GcpError::Quota { .. });
        if repeatable && self.pause(&error).await {
            return Ok(());
        }
        Err(error.read_from(&self.identity).in_project(&self.project))
    }

    /// Whether to retry after this error; if so, pauses briefly. A wait that Google asks for precedes the next attempt.
    async fn pause(&mut self, error: &GcpError) -> bool {
        let pause = FIRST_PAUSE * 2_u32.pow(self.made - 1);
        let in_time = match error.retry_after() {
            Some(after) => self.waited + after <= self.inner.wait_limit,
            None => self.since.elapsed() + pause <= ATTEMPT_TIMEOUT,
        };
        if self.made == MAX_ATTEMPTS || !error.may_pass() || !in_time {
            return false;
        }
        tokio::time::sleep(pause).await;
        self.made += 1;
        true
    }

    /// Waits until the service may be called again; if that is too long, returns the error that asked for the wait.
    async fn wait_for(&mut self, service: &str) -> Result<(), GcpError> {
        while let Some((left, error)) = self.inner.waits.remaining(service) {
            if self.waited + left > self.inner.wait_limit {
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
