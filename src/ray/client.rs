//! The HTTP client of the dashboard: connection, token, limits, errors, and counters of requests and bytes.
//!
//! Connections are kept alive, bodies are limited, redirects are not followed. The routes are in other modules.

use super::RayError;
use super::error::message_of;
use crate::model::Secret;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The addresses of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Addresses that can be reached from this machine.
    Direct {
        /// Base URL of the dashboard, `http://10.0.0.1:8265`; `https` works too.
        dashboard: String,
        /// `host:port` of the GCS, when it can be reached.
        gcs: Option<String>,
    },
    /// Unix sockets of the forwards of an SSH connection: other users cannot connect to them, nor replace them when the
    /// connection is closed.
    Sockets {
        /// The socket of the dashboard.
        dashboard: PathBuf,
        /// The socket of the GCS.
        gcs: PathBuf,
    },
}

impl Endpoint {
    /// The dashboard's base URL, without a slash at its end.
    fn base(&self) -> &str {
        match self {
            Self::Direct { dashboard, .. } => dashboard.trim_end_matches('/'),
            // The address as seen on the head.
            Self::Sockets { .. } => "http://localhost:8265",
        }
    }
}

/// Timeouts and size limit of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Timeout for opening a connection.
    pub connect: Duration,
    /// Timeout of a whole call, including its body. A starting head accepts connections about 10 s before it responds.
    pub call: Duration,
    /// Maximum size of one response in bytes.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), call: Duration::from_secs(20), body: 64 << 20 }
    }
}

/// Counters of one channel.
#[derive(Debug, Default)]
pub struct Counter {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    pub(super) fn ask(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn receive(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Requests sent since the client was created.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of bodies received since the client was created.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The load that this console has caused on a head: requests and bytes.
#[derive(Debug, Default)]
pub struct Meter {
    /// Calls to the dashboard, its log streams included.
    pub http: Counter,
    /// Calls to the GCS.
    pub gcs: Counter,
}

/// A client of one head. Cheap to clone; clones share connections and counters.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    http: reqwest::Client,
    pub(super) endpoint: Endpoint,
    pub(super) token: Option<Secret>,
    authorization: Option<HeaderValue>,
    pub(super) limits: Limits,
    pub(super) meter: Meter,
}

/// The characters that are encoded in a path or query: everything but RFC 3986's unreserved characters.
const OUTSIDE_ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// An id or a value, percent-encoded for a path segment or a query (RFC 3986).
pub(super) fn encoded(id: &str) -> String {
    match id {
        // A URL parser would resolve these path segments, encoded or not; no id of Ray has this form.
        "." | ".." => id.replace('.', "%252E"),
        _ => utf8_percent_encode(id, OUTSIDE_ID).to_string(),
    }
}

impl Client {
    /// A client with the default limits. It does not connect yet.
    pub fn new(endpoint: Endpoint, token: Option<Secret>) -> Result<Self, RayError> {
        Self::with_limits(endpoint, token, Limits::default())
    }

    /// A client with other limits.
    pub fn with_limits(endpoint: Endpoint, token: Option<Secret>, limits: Limits) -> Result<Self, RayError> {
        let http = connector(&endpoint, limits)?;
        let authorization = match &token {
            None => None,
            Some(token) => {
                let mut value =
                    HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
                        RayError::Setup(
                            "the token contains characters that are not allowed in an HTTP header".to_owned(),
                        )
                    })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let inner = Inner { http, endpoint, token, authorization, limits, meter: Meter::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The addresses of this client.
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// The token it sends.
    pub fn token(&self) -> Option<&Secret> {
        self.inner.token.as_ref()
    }

    /// Whether both are clones of the same client.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The load that it has caused on the head.
    pub fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    /// A request with the token. It has no `Origin` and no `Referer`: Ray refuses requests that look like a browser's.
    pub(super) fn request(&self, method: Method, route: &str) -> RequestBuilder {
        let request = self.inner.http.request(method, format!("{}{route}", self.inner.endpoint.base()));
        match &self.inner.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// Sends a request; a status other than success is an error.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, RayError> {
        self.inner.meter.http.ask();
        let response = request.send().await.map_err(|e| silent(&e))?;
        if response.status().is_success() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// [`Client::send`] for an endless response: it waits for the headers only.
    pub(super) async fn open(&self, request: RequestBuilder) -> Result<Response, RayError> {
        let began = tokio::time::timeout(self.inner.limits.call, self.send(request)).await;
        began.map_err(|_| RayError::Silent("the response timed out".to_owned()))?
    }

    async fn refusal(&self, response: Response) -> RayError {
        const MAX_ERROR_PAGE: usize = 256 << 10;
        let status = response.status();
        let html = is_html(&response);
        // The status is reported even when the error page cannot be read.
        let body = self.body(response, MAX_ERROR_PAGE).await.unwrap_or_default();
        let message = self.without_token(&message_of(&body));
        match status {
            StatusCode::UNAUTHORIZED => RayError::TokenMissing,
            StatusCode::FORBIDDEN if message.contains("authentication token") => RayError::TokenRefused,
            _ if html => RayError::NotRay(format!("it returned {status} with HTML")),
            _ if status.is_redirection() => RayError::NotRay(format!("it returned {status}, a redirect")),
            StatusCode::FORBIDDEN => RayError::Forbidden(message),
            StatusCode::NOT_FOUND => RayError::NotFound(message),
            _ => RayError::Status { code: status.as_u16(), message },
        }
    }

    /// A server's message with our token masked: some of Ray's errors repeat the request.
    pub(super) fn without_token(&self, words: &str) -> String {
        /// A shorter token is not masked: it may be part of an ordinary word.
        const MIN_MASKED_LENGTH: usize = 8;
        let token = self.inner.token.as_ref().map(Secret::expose).filter(|t| t.len() >= MIN_MASKED_LENGTH);
        token.map_or_else(|| words.to_owned(), |token| words.replace(token, "***"))
    }

    /// Reads a body of at most `limit` bytes.
    pub(super) async fn body(&self, mut response: Response, limit: usize) -> Result<Bytes, RayError> {
        let expected = response.content_length().unwrap_or(0) as usize;
        if expected > limit {
            return Err(RayError::TooLarge(limit));
        }
        let mut body = BytesMut::with_capacity(expected);
        while let Some(chunk) = response.chunk().await.map_err(|e| silent(&e))? {
            self.inner.meter.http.receive(chunk.len());
            if body.len() + chunk.len() > limit {
                return Err(RayError::TooLarge(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// The complete response of a GET request.
    pub(super) async fn get(&self, route: &str) -> Result<Bytes, RayError> {
        let request = self.request(Method::GET, route).timeout(self.inner.limits.call);
        let response = self.send(request).await?;
        if is_html(&response) {
            return Err(RayError::NotRay("it returned HTML".to_owned()));
        }
        self.body(response, self.inner.limits.body).await
    }
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    kind.is_some_and(|v| v.starts_with("text/html"))
}

/// The error of a connection, without the URL.
pub(super) fn silent(error: &reqwest::Error) -> RayError {
    use std::error::Error;
    if error.is_timeout() {
        let what = if error.is_connect() { "connection timed out" } else { "the response timed out" };
        return RayError::Silent(what.to_owned());
    }
    if error.is_builder() {
        return RayError::Setup(format!("invalid address: {error}"));
    }
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    RayError::Silent(cause.to_string())
}

fn connector(endpoint: &Endpoint, limits: Limits) -> Result<reqwest::Client, RayError> {
    let dashboard = endpoint.base();
    let url = reqwest::Url::parse(dashboard)
        .map_err(|e| RayError::Setup(format!("{dashboard:?} is not a valid address: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(RayError::Setup(format!("{dashboard:?} is not an http or https address")));
    }
    // This fails when another module has installed a provider before, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .http1_only()
        .connect_timeout(limits.connect)
        .pool_idle_timeout(Duration::from_secs(300))
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("marin-tui/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // Otherwise a machine without CA certificates could not even use plain HTTP.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    if let Endpoint::Sockets { dashboard, .. } = endpoint {
        builder = builder.unix_socket(dashboard.as_path());
    }
    builder.build().map_err(|e| match silent(&e) {
        RayError::Silent(why) | RayError::Setup(why) => RayError::Setup(why),
        other => other,
    })
}

/// Whether the host is this machine: such requests must not go through a proxy of the environment.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
