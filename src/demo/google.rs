//! Simulated Google services: Secret Manager, Compute Engine, Cloud TPU, Artifact Registry, the permissions of Cloud
//! Resource Manager and the OAuth token endpoint on one loopback port, with the wire formats, paging, long-running
//! operations and errors recorded from the real services.
//!
//! Requests without a token issued by `/token` are refused. `tests/real/google.rs` checks the simulation with Google's
//! own clients. Tests set its state directly; a simulated fleet adds its clusters to it.

pub(super) mod answer;
pub mod compute;
mod fault;
mod groups;
mod login;
mod making;
pub mod managed;
mod permissions;
pub mod registry;
mod secrets;
pub(super) mod state;
pub mod tpu;
mod zonal;

use super::fleet::cloud::Cloud;
use super::locked;
use crate::model::json::object;
use crate::model::sort;
use crate::task;
use answer::{Answer, ApiRequest, base64, not_found, ok, refusal, status_of};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use answer::{NUMBER, PROJECT};
pub use fault::Fault;
pub use state::{State, Stored};

/// The running server. Dropping it stops the server.
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

    /// Starts at this address; on port 80 of 169.254.169.254 it also serves as a machine's metadata server.
    pub async fn start_at(address: &str) -> io::Result<Self> {
        Self::serving(address, PROJECT, None).await
    }

    /// Starts on a free port for the given project, with the TPUs of a simulated fleet.
    pub(super) async fn start_for(project: &str, cloud: Cloud) -> io::Result<Self> {
        Self::serving("127.0.0.1:0", project, Some(cloud)).await
    }

    /// Starts the server. Without a cloud, only the resources listed in the state exist.
    async fn serving(address: &str, project: &str, cloud: Option<Cloud>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = State { project: project.into(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let task = task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, cloud) = (shared.clone(), cloud.clone());
                task::spawn(async move {
                    let service = service_fn(move |request| serve(request, shared.clone(), cloud.clone()));
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

    /// The state, for reading and changing.
    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Adds a fault for every path that contains `words`.
    pub fn fail(&self, words: &str, fault: Fault) {
        self.fail_at("", words, fault);
    }

    /// Like [`Self::fail`], for one HTTP method.
    pub fn fail_at(&self, method: &'static str, words: &str, fault: Fault) {
        self.state().faults.push((method, words.into(), fault));
    }

    /// Removes all faults.
    pub fn recover(&self) {
        self.state().faults.clear();
    }

    /// Method, path and query of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The number of requests whose method and URI contain `words`.
    pub fn requests_with(&self, words: &str) -> usize {
        self.state().requests.iter().filter(|r| r.contains(words)).count()
    }

    /// Adds a version to a secret, creating the secret if needed; returns the version number.
    pub fn put_secret(&self, name: &str, value: &str) -> usize {
        let mut state = self.state();
        let versions = state.secrets.entry(name.into()).or_default();
        versions.push(Stored::enabled(value.as_bytes()));
        versions.len()
    }

    /// Writes application-default credentials of a user account whose tokens are issued by this server.
    pub fn write_adc(&self, folder: &Path) -> io::Result<PathBuf> {
        write_login(&folder.join("adc.json"), &self.person())
    }

    /// The credentials of a user account, as gcloud writes them.
    pub fn person(&self) -> Value {
        json!({
            "type": "authorized_user", "client_id": "id.apps.googleusercontent.com", "client_secret": "not-a-secret",
            "refresh_token": "1//refresh", "token_uri": format!("{}/token", self.url()),
        })
    }

    /// The credentials of a user who impersonates a service account (`gcloud auth application-default login
    /// --impersonate-service-account`).
    pub fn impersonated(&self, account: &str) -> Value {
        let url = format!("{}/v1/projects/-/serviceAccounts/{account}:generateAccessToken", self.url());
        json!({
            "type": "impersonated_service_account", "service_account_impersonation_url": url, "delegates": [],
            "source_credentials": self.person(),
        })
    }

    /// The credentials of an external account whose identity provider writes its tokens to a file (`gcloud iam
    /// workload-identity-pools create-cred-config`).
    pub fn external(&self, subject: &Path) -> Value {
        json!({
            "type": "external_account", "universe_domain": "googleapis.com",
            "audience": format!("//iam.googleapis.com/projects/{NUMBER}/locations/global/workloadIdentityPools/p/providers/x"),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("{}/v1/token", self.url()),
            "credential_source": {"file": subject, "format": {"type": "text"}},
        })
    }
}

/// Writes credentials to a file that only its owner can read (mode 0600).
pub fn write_login(file: &Path, login: &Value) -> io::Result<PathBuf> {
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    open?.write_all(login.to_string().as_bytes())?;
    Ok(file.to_owned())
}

async fn serve(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
    cloud: Option<Cloud>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let fault = record(&parts, &mut locked(&state));
    if let Some(fault) = &fault
        && let Some(page) = apply_network_fault(fault).await?
    {
        return Ok(page);
    }
    let request = parsed(&parts, &body);
    if request.method != Method::GET && !login::issues_token(&request.path) {
        let uri = &parts.uri;
        let target = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
        let observer = locked(&state).observer.clone();
        observer.call(request.method.as_str(), &target, &request.body);
    }
    let (code, body) = match &fault {
        Some(Fault::Recorded { code, body }) => {
            (status_of(*code), serde_json::from_str(body).map_err(io::Error::other)?)
        }
        fault => answered(&request, &parts.headers, &state, cloud.as_ref(), fault.as_ref()),
    };
    let mut answer = text_answer(code.as_u16(), "application/json; charset=UTF-8", body.to_string());
    if let Some(Fault::Busy(seconds)) = fault {
        answer.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    Ok(answer)
}

/// Records a request. Returns the fault that applies to it.
fn record(parts: &Parts, state: &mut State) -> Option<Fault> {
    state.requests.push(format!("{} {}", parts.method, parts.uri));
    let matches = |(method, words, _): &&(&str, String, Fault)| {
        (method.is_empty() || parts.method == *method) && parts.uri.path().contains(words.as_str())
    };
    state.faults.iter().find(matches).map(|f| f.2.clone())
}

/// Applies a fault between the client and the services: delays the response, closes the connection, or returns a page
/// that is not theirs.
async fn apply_network_fault(fault: &Fault) -> io::Result<Option<Response<Full<Bytes>>>> {
    let page = match fault {
        Fault::HangUp => return Err(io::ErrorKind::ConnectionReset.into()),
        Fault::Latency(by) => {
            tokio::time::sleep(*by).await;
            None
        }
        Fault::Held(until) => {
            until.acquire().await.map_err(io::Error::other)?.forget();
            None
        }
        Fault::Html(code) => {
            let page =
                "<html><head><title>Error</title></head><body><h1>Error: Server Error</h1></body></html>";
            Some((*code, page))
        }
        Fault::SignIn => Some((200, "<!DOCTYPE html><html><body>Sign in to this network</body></html>")),
        _ => None,
    };
    Ok(page.map(|(code, page)| text_answer(code, "text/html; charset=UTF-8", page.into())))
}

fn parsed(parts: &Parts, body: &[u8]) -> ApiRequest {
    let query = parts.uri.query().unwrap_or_default();
    let query = query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (decoded(k), decoded(v)));
    let form = parts.headers.get("content-type").is_some_and(|t| t == "application/x-www-form-urlencoded");
    ApiRequest {
        method: parts.method.clone(),
        path: decoded(parts.uri.path()),
        query: sort::collected(query),
        body: if form { from_form(body) } else { serde_json::from_slice(body).unwrap_or_default() },
        base: format!("http://{}", header(&parts.headers, "host").unwrap_or_default()),
    }
}

/// A header, if it is text.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// The response to a request. All endpoints require an access token, except those that issue one.
fn answered(
    request: &ApiRequest,
    headers: &HeaderMap,
    state: &Mutex<State>,
    cloud: Option<&Cloud>,
    fault: Option<&Fault>,
) -> Answer {
    if request.path == "/token" {
        login::refreshed(request, fault)
    } else if request.path == "/v1/token" {
        login::exchanged(request)
    } else if let Some(of) = request.path.strip_prefix(login::OF_MACHINE) {
        match header(headers, "metadata-flavor") {
            Some("Google") => login::machine(of),
            _ => refusal(403, "PERMISSION_DENIED", None, "Missing required header 'Metadata-Flavor'"),
        }
    } else if header(headers, "authorization") != Some(&format!("Bearer {}", login::BEARER)) {
        refusal(
            401,
            "UNAUTHENTICATED",
            Some("ACCESS_TOKEN_TYPE_UNSUPPORTED"),
            "Request had invalid credentials.",
        )
    } else if let Some(refused) = fault.and_then(|fault| refused(fault, &request.path)) {
        refused
    } else {
        route(request, &mut locked(state), cloud, fault)
    }
}

/// The error of a fault that refuses authenticated requests.
fn refused(fault: &Fault, path: &str) -> Option<Answer> {
    match fault {
        Fault::Refuse { code, status, reason, message } => {
            let reason = Some(*reason).filter(|r| !r.is_empty());
            Some(if path.starts_with("/compute/") {
                zonal::refusal(*code, reason.unwrap_or("backendError"), message)
            } else {
                refusal(*code, status, reason, message)
            })
        }
        Fault::Busy(_) => Some(refusal(
            429,
            "RESOURCE_EXHAUSTED",
            Some("RATE_LIMIT_EXCEEDED"),
            "Quota exceeded for requests per minute.",
        )),
        _ => None,
    }
}

fn route(request: &ApiRequest, state: &mut State, cloud: Option<&Cloud>, fault: Option<&Fault>) -> Answer {
    let parts: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["v1", "projects", "-", "serviceAccounts", account] => login::impersonated(request, account),
        ["v1", "projects", project, "locations", location, rest @ ..] => {
            registry::answer(request, state, [project, location], rest)
        }
        ["v3", "projects", project] => permissions::answer(request, state, project),
        ["v1", "projects", project, rest @ ..] => secrets::answer(request, state, project, rest, fault),
        ["compute", "v1", "projects", project, rest @ ..] => match cloud {
            Some(cloud) => {
                cloud.around_machines(state, |state| compute::answer(request, state, project, rest))
            }
            None => compute::answer(request, state, project, rest),
        },
        [version @ ("v2" | "v2alpha1"), "projects", project, "locations", zone, rest @ ..] => {
            let parent = tpu::TpuParent { version, project, zone };
            let Some(cloud) = cloud else { return tpu::answer(request, state, &parent, rest) };
            // Only the lists that are needed are built: they may have thousands of entries.
            let reads = request.method == Method::GET;
            let kinds = if reads { rest.get(..1).unwrap_or_default() } else { &["nodes", "queuedResources"] };
            cloud.around(zone, kinds, state, |state| tpu::answer(request, state, &parent, rest))
        }
        _ => not_found(&request.path),
    }
}

/// Parses a form. The token endpoint also accepts forms (RFC 6749, section 6); Google's Python client sends one.
fn from_form(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let fields = text.split('&').filter_map(|p| p.split_once('='));
    object(fields.map(|(k, v)| (decoded(k), decoded(v))))
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
