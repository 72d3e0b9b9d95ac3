//! A simulated Google: Secret Manager, Compute Engine, Cloud TPU, Artifact Registry and the OAuth token endpoint on one
//! loopback port, with the wire formats, paging, long-running operations and errors recorded from the real services.
//!
//! Requests without a token of `/token` are refused. `tests/real_google.rs` checks it with Google's own clients. Tests
//! set its state directly; a simulated fleet shows its clusters there.

pub mod compute;
mod groups;
pub mod registry;
mod secrets;
pub mod tpu;

use super::fleet::cloud::Cloud;
use super::locked;
use super::witness::Witness;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub use secrets::Stored;

/// The default project.
pub const PROJECT: &str = "hai-test";
/// Its number, which Secret Manager returns instead of the name.
pub const NUMBER: &str = "1234567890";
/// The bearer token that `/token` gives out.
const BEARER: &str = "ya29.made-up-access-token";

/// A fault of every request whose path contains the given words.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A status with Google's error body; `reason` is that of its `ErrorInfo`.
    Refuse {
        code: u16,
        /// Its word in the body.
        status: &'static str,
        /// The reason; empty for none.
        reason: &'static str,
        message: &'static str,
    },
    /// The load balancer's HTML page.
    Html(u16),
    /// A 200 that is a sign-in page.
    SignIn,
    /// The payload's checksum is not that of the payload.
    BadChecksum,
    /// Answers that much later.
    Latency(Duration),
    /// Answers once there is a permit; each answer uses one up.
    Held(Arc<Semaphore>),
    /// The token endpoint refuses: `invalid_grant` or another OAuth error, with its `error_subtype`.
    Grant {
        /// OAuth's word.
        error: &'static str,
        /// Google's addition to it.
        subtype: Option<&'static str>,
    },
    /// The token endpoint reports that the client's clock is wrong.
    Skew,
    /// Closes the connection without an answer.
    HangUp,
}

/// The services' state. Tests change it while the server runs.
#[derive(Debug, Default)]
pub struct State {
    /// The project that everything lies in.
    project: String,
    /// The source of TPUs; without one only the lists below count.
    cloud: Option<Cloud>,
    /// By secret's name.
    pub secrets: BTreeMap<String, Vec<Stored>>,
    /// Compute instances as Compute shows them.
    pub instances: Vec<Value>,
    /// Instance groups likewise.
    pub groups: Vec<Value>,
    /// Zones that Compute says it could not reach.
    pub unreachable: Vec<String>,
    /// Items on one page of any list; 0 puts all on one.
    pub page: usize,
    /// TPU nodes as TPU shows them.
    pub nodes: Vec<Value>,
    /// Queued resources likewise.
    pub queued: Vec<Value>,
    /// Images of Artifact Registry likewise.
    pub images: Vec<Value>,
    /// Operations under way: name to (times asked until done, the finished operation).
    operations: BTreeMap<String, (u32, Value)>,
    /// Fails operations that begin from now on with this message.
    pub failing_operations: Option<String>,
    /// Deletions of TPU nodes report success without an effect.
    pub idle_deletions: bool,
    /// Faults: method (empty: any), words in the path, fault.
    faults: Vec<(&'static str, String, Fault)>,
    requests: Vec<String>,
    /// Called with each change by a client.
    pub witness: Witness,
    made: u32,
}

impl State {
    /// The next number for a name.
    fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Begins an operation: `pending` until it was asked for twice, then `finished`.
    fn begin(&mut self, name: String, finished: Value) {
        self.operations.insert(name, (2, finished));
    }

    /// The current state of an operation; `None` when there is none of that name.
    fn operation(&mut self, name: &str, pending: impl Fn(&Value) -> Value) -> Option<Value> {
        let (left, finished) = self.operations.get_mut(name)?;
        if *left > 1 {
            *left -= 1;
            return Some(pending(finished));
        }
        Some(finished.clone())
    }
}

/// The running server; gone when dropped.
pub struct Google {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Drop for Google {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Google {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Google").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Google {
    /// Starts on a free port.
    pub async fn start() -> io::Result<Self> {
        Self::start_at("127.0.0.1:0").await
    }

    /// Starts at this address; on port 80 of 169.254.169.254 it is a machine's metadata server too.
    pub async fn start_at(address: &str) -> io::Result<Self> {
        Self::serving(address, State { project: PROJECT.into(), ..State::default() }).await
    }

    /// Starts on a free port, for that project and with the TPUs of a simulated fleet.
    pub(super) async fn start_for(project: &str, cloud: Cloud) -> io::Result<Self> {
        let state = State { project: project.into(), cloud: Some(cloud), ..State::default() };
        Self::serving("127.0.0.1:0", state).await
    }

    async fn serving(address: &str, state: State) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serve(request, shared.clone()));
                    // An error means that the client disconnected, or that a fault closed the connection.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { address, state, task })
    }

    /// Base URL of all services.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The state, to look at or to change.
    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Adds a fault for every path that contains `words`.
    pub fn fail(&self, words: &str, fault: Fault) {
        self.fail_at("", words, fault);
    }

    /// The same for one HTTP method.
    pub fn fail_at(&self, method: &'static str, words: &str, fault: Fault) {
        self.state().faults.push((method, words.into(), fault));
    }

    /// Removes all faults.
    pub fn hint(&self) {
        self.state().faults.clear();
    }

    /// Method and path with query of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The number of requests whose method and path contain these words.
    pub fn asked(&self, words: &str) -> usize {
        self.state().requests.iter().filter(|r| r.contains(words)).count()
    }

    /// Adds a version to a secret, which is made when there is none; returns its number.
    pub fn put_secret(&self, name: &str, value: &str) -> usize {
        let mut state = self.state();
        let versions = state.secrets.entry(name.into()).or_default();
        versions.push(Stored::enabled(value.as_bytes()));
        versions.len()
    }

    /// Writes application-default credentials of a person whose tokens come from this server.
    pub fn write_adc(&self, folder: &Path) -> io::Result<PathBuf> {
        let file = folder.join("adc.json");
        let body = json!({
            "type": "authorized_user", "client_id": "id.apps.googleusercontent.com", "client_secret": "not-a-secret",
            "refresh_token": "1//refresh", "token_uri": format!("{}/token", self.url()),
        });
        let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
        open?.write_all(body.to_string().as_bytes())?;
        Ok(file)
    }
}

/// One request, taken apart.
struct Asked {
    method: Method,
    path: String,
    query: BTreeMap<String, String>,
    body: Value,
    /// `http://host:port`, for the links that answers hold.
    base: String,
}

impl Asked {
    /// A parameter that is there and not empty: Google's clients send empty defaults (`pageToken=`).
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// One page of `all`, and the token of the next. The caller's `pageSize` counts when it is smaller.
    fn page<'a, T>(&self, all: &'a [T], page: usize) -> (&'a [T], Option<String>) {
        let wanted = self.parameter("pageSize").or_else(|| self.parameter("maxResults"));
        let wanted = wanted.and_then(|s| s.parse().ok()).filter(|n| *n > 0).unwrap_or(usize::MAX);
        let size = wanted.min(if page == 0 { usize::MAX } else { page });
        let from =
            self.parameter("pageToken").and_then(|t| t.strip_prefix("from-")?.parse().ok()).unwrap_or(0);
        let to = all.len().min(usize::saturating_add(from, size));
        (&all[from.min(all.len())..to], (to < all.len()).then(|| format!("from-{to}")))
    }
}

type Answer = (StatusCode, Value);

fn ok(body: Value) -> Answer {
    (StatusCode::OK, body)
}

/// The error body of Secret Manager and TPU.
fn refusal(code: u16, status: &str, reason: Option<&str>, message: &str) -> Answer {
    let mut error = json!({"code": code, "message": message, "status": status});
    if let Some(reason) = reason {
        let metadata = match reason {
            "SERVICE_DISABLED" => {
                json!({"service": "secretmanager.googleapis.com", "consumer": format!("projects/{PROJECT}")})
            }
            "IAM_PERMISSION_DENIED" => {
                json!({"permission": "secretmanager.versions.access", "resource": format!("projects/{PROJECT}")})
            }
            _ => json!({}),
        };
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
            "domain": "googleapis.com", "metadata": metadata}]);
    }
    (status_of(code), json!({"error": error}))
}

fn status_of(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn not_found(what: &str) -> Answer {
    refusal(404, "NOT_FOUND", None, &format!("{what} not found."))
}

async fn serve(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let text = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let (fault, bearer) = {
        let mut state = locked(&state);
        state.requests.push(format!("{} {}", parts.method, parts.uri));
        let is_meant = |(method, words, _): &&(&str, String, Fault)| {
            (method.is_empty() || parts.method == *method) && path.contains(words.as_str())
        };
        let fault = state.faults.iter().find(is_meant).map(|f| f.2.clone());
        (fault, parts.headers.get("authorization").and_then(|v| v.to_str().ok()).map(str::to_owned))
    };
    match &fault {
        Some(Fault::HangUp) => return Err(std::io::ErrorKind::ConnectionReset.into()),
        Some(Fault::Latency(by)) => tokio::time::sleep(*by).await,
        Some(Fault::Held(until)) => until.acquire().await.map_err(io::Error::other)?.forget(),
        Some(Fault::Html(code)) => {
            let page =
                "<html><head><title>Error</title></head><body><h1>Error: Server Error</h1></body></html>";
            return Ok(text_answer(*code, "text/html; charset=UTF-8", page.into()));
        }
        Some(Fault::SignIn) => {
            let page = "<!DOCTYPE html><html><body>Sign in to this network</body></html>";
            return Ok(text_answer(200, "text/html; charset=UTF-8", page.into()));
        }
        _ => {}
    }
    let host = parts.headers.get("host").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    let query = query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (decoded(k), decoded(v)));
    let form = parts.headers.get("content-type").is_some_and(|t| t == "application/x-www-form-urlencoded");
    let asked = Asked {
        method: parts.method,
        path: decoded(&path),
        query: query.collect(),
        body: if form { from_form(&text) } else { serde_json::from_slice(&text).unwrap_or_default() },
        base: format!("http://{host}"),
    };
    if asked.method != Method::GET && asked.path != "/token" {
        let target = parts.uri.path_and_query().map_or_else(|| path.clone(), ToString::to_string);
        let witness = locked(&state).witness.clone();
        witness.hear(asked.method.as_str(), &target, &asked.body);
    }
    let (code, body) = if asked.path == "/token" {
        token(&asked, fault.as_ref())
    } else if asked.path == "/computeMetadata/v1/instance/service-accounts/default/token" {
        match parts.headers.get("metadata-flavor") {
            Some(flavor) if flavor == "Google" => {
                ok(json!({"access_token": BEARER, "expires_in": 3599, "token_type": "Bearer"}))
            }
            _ => refusal(403, "PERMISSION_DENIED", None, "Missing required header 'Metadata-Flavor'"),
        }
    } else if bearer.as_deref() != Some(&format!("Bearer {BEARER}")) {
        refusal(
            401,
            "UNAUTHENTICATED",
            Some("ACCESS_TOKEN_TYPE_UNSUPPORTED"),
            "Request had invalid credentials.",
        )
    } else if let Some(Fault::Refuse { code, status, reason, message }) = fault {
        let reason = Some(reason).filter(|r| !r.is_empty());
        if asked.path.starts_with("/compute/") {
            compute::refusal(code, reason.unwrap_or("backendError"), message)
        } else {
            refusal(code, status, reason, message)
        }
    } else {
        route(&asked, &mut locked(&state), fault.as_ref())
    };
    Ok(text_answer(code.as_u16(), "application/json; charset=UTF-8", body.to_string()))
}

fn route(asked: &Asked, state: &mut State, fault: Option<&Fault>) -> Answer {
    let parts: Vec<&str> = asked.path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["v1", "projects", project, "locations", location, "repositories", repository, rest @ ..] => {
            registry::answer(asked, state, [project, location, repository], rest)
        }
        ["v1", "projects", project, rest @ ..] => secrets::answer(asked, state, project, rest, fault),
        ["compute", "v1", "projects", project, rest @ ..] => match state.cloud.clone() {
            Some(cloud) => cloud.around_heads(state, |state| compute::answer(asked, state, project, rest)),
            None => compute::answer(asked, state, project, rest),
        },
        [version @ ("v2" | "v2alpha1"), "projects", project, "locations", zone, rest @ ..] => {
            let place = tpu::Place { version, project, zone };
            let Some(cloud) = state.cloud.clone() else { return tpu::answer(asked, state, &place, rest) };
            // Built only when needed: the list may have thousands of entries.
            let reads = asked.method == Method::GET;
            let kinds = if reads { rest.get(..1).unwrap_or_default() } else { &["nodes", "queuedResources"] };
            cloud.around(zone, kinds, state, |state| tpu::answer(asked, state, &place, rest))
        }
        _ => not_found(&asked.path),
    }
}

/// Refreshes an authorized user's grant.
fn token(asked: &Asked, fault: Option<&Fault>) -> Answer {
    match fault {
        Some(Fault::Grant { error, subtype }) => {
            let mut body = json!({"error": error, "error_description": "Token has been expired or revoked."});
            if let Some(subtype) = subtype {
                body["error_subtype"] = json!(subtype);
                body["error_description"] = json!("reauth related error (invalid_rapt)");
            }
            (StatusCode::BAD_REQUEST, body)
        }
        Some(Fault::Skew) => {
            let why = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. \
                       Check your iat and exp values in the JWT claim.";
            (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant", "error_description": why}))
        }
        Some(Fault::Refuse { code, .. }) => (status_of(*code), json!({"error": "internal_failure"})),
        _ if asked.body["refresh_token"].as_str().is_none_or(str::is_empty) => {
            (StatusCode::BAD_REQUEST, json!({"error": "invalid_request"}))
        }
        _ => ok(json!({"access_token": BEARER, "expires_in": 3599, "token_type": "Bearer"})),
    }
}

/// The token endpoint takes forms too (RFC 6749, section 6); Google's Python client sends one.
fn from_form(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let fields = text.split('&').filter_map(|p| p.split_once('='));
    fields.map(|(k, v)| (decoded(k), Value::String(decoded(v)))).collect::<serde_json::Map<_, _>>().into()
}

fn text_answer(code: u16, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status_of(code);
    answer.headers_mut().insert("content-type", HeaderValue::from_static(kind));
    answer
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The checksum that Secret Manager gives: CRC-32C (Castagnoli), reflected. By table, as no code of ours does it.
fn crc32c(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|n| (0..8).fold(n, |c, _| if c & 1 == 1 { (c >> 1) ^ 0x82F6_3B78 } else { c >> 1 }))
        .collect();
    !bytes.iter().fold(!0u32, |c, b| (c >> 8) ^ table[((c ^ u32::from(*b)) & 0xff) as usize])
}

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}
