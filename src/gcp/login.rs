//! Application-default credentials, requested before every call, so that a missing login is reported at once.

use super::GcpError;
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::credentials::{self as google, CacheableResource};
use http::{Extensions, HeaderMap};
use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

pub use google_cloud_auth::credentials;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Timeout for a new access token.
const TOKEN: Duration = Duration::from_secs(10);
/// The metadata server of Google's machines (Compute Engine documentation, "VM metadata"), and the timeout for
/// connecting to it, which is local to the machine.
const METADATA: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);
const NEXT_DOOR: Duration = Duration::from_millis(800);
/// Below the home folder, where `gcloud auth application-default login` writes.
const WELL_KNOWN: &str = ".config/gcloud/application_default_credentials.json";

type Make = dyn Fn() -> Result<google::Credentials, GcpError> + Send + Sync;

/// Where the credentials come from. Not the credentials themselves: they are read again after a new login.
#[derive(Clone)]
pub struct Login {
    make: Arc<Make>,
    /// Google's own search order.
    ambient: bool,
}

impl Login {
    /// `GOOGLE_APPLICATION_CREDENTIALS`, else what `gcloud auth application-default login` wrote, else the metadata
    /// server of the machine we run on.
    pub fn application_default() -> Self {
        let made = Self::by(|| google::Builder::default().with_scopes([SCOPE]).build());
        Self { ambient: true, ..made }
    }

    /// Those of a file as `gcloud auth application-default login` writes it, or of a service account's key, and no others.
    pub fn file(path: PathBuf) -> Self {
        Self { make: Arc::new(move || from_file(&path)), ambient: false }
    }

    pub fn by(make: impl Fn() -> Result<google::Credentials, BuildError> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(move || make().map_err(|e| GcpError::from_build(&e))), ambient: false }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// The current credentials.
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
        // Without a file Google's crate asks the metadata server; on a network that drops the request every call
        // would wait for credentials that do not exist.
        if self.login.ambient && !is_somewhere(|name| std::env::var_os(name), METADATA).await {
            return Err(GcpError::NoCredentials);
        }
        let credentials = (self.login.make)()?;
        Ok(made.insert(credentials).clone())
    }

    /// Headers that authorize a call. Credentials with a revoked grant never work again, even after a new login: they
    /// are dropped and read again at the next call.
    pub(super) async fn headers(&self) -> Result<HeaderMap, GcpError> {
        let credentials = self.get().await?;
        let answer = tokio::time::timeout(TOKEN, credentials.headers(Extensions::new())).await;
        let error = match answer {
            Ok(Ok(CacheableResource::New { data, .. })) => return Ok(data),
            // This is returned only to a caller that sent an entity tag.
            Ok(Ok(CacheableResource::NotModified)) => return Ok(HeaderMap::new()),
            Ok(Err(e)) => GcpError::from_chain(&e),
            Err(_) => GcpError::Timeout { after: TOKEN },
        };
        *self.made.lock().await = None;
        Err(error)
    }
}

fn from_file(path: &Path) -> Result<google::Credentials, GcpError> {
    let wrong = |why: String| GcpError::CredentialsFile { why: format!("{}: {why}", path.display()) };
    let text = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let grant: serde_json::Value = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    let made = match grant["type"].as_str() {
        Some("authorized_user") => google::user_account::Builder::new(grant).build(),
        Some("service_account") => google::service_account::Builder::new(grant).build(),
        _ => return Err(wrong("its `type` must be authorized_user or service_account".into())),
    };
    made.map_err(|e| GcpError::from_build(&e))
}

/// Whether application-default credentials can exist: there is a file, or this is one of Google's machines.
async fn is_somewhere(variable: impl Fn(&str) -> Option<OsString>, metadata: SocketAddr) -> bool {
    if ["GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST"].iter().any(|name| variable(name).is_some()) {
        return true;
    }
    if variable("HOME").is_some_and(|home| Path::new(&home).join(WELL_KNOWN).exists()) {
        return true;
    }
    matches!(timeout(NEXT_DOOR, TcpStream::connect(metadata)).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_no_login_is_named_with_what_is_wrong() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("login.json");
        let why = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            from_file(&file).unwrap_err().to_string()
        };
        let words = [
            (None, "No such file"),
            (Some("{"), "EOF"),
            (Some("{\"type\": \"other\"}"), "must be authorized_user"),
            (Some("{\"type\": \"authorized_user\"}"), "missing field"),
        ];
        for (text, wanted) in words {
            let said = why(text);
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
    }

    #[tokio::test]
    async fn a_login_is_in_a_file_or_next_door_or_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        // Nobody has this one: it is kept, and nobody listens on it.
        let kept = tokio::net::TcpSocket::new_v4().unwrap();
        kept.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nobody = kept.local_addr().unwrap();
        let only = |set: &'static str| {
            let home = home.path().as_os_str().to_owned();
            move |name: &str| match name {
                "HOME" => Some(home.clone()),
                name => (name == set).then(|| "x".into()),
            }
        };
        assert!(!is_somewhere(|_| None, nobody).await);
        assert!(!is_somewhere(only(""), nobody).await);
        assert!(is_somewhere(only(""), there).await);
        assert!(is_somewhere(only("GOOGLE_APPLICATION_CREDENTIALS"), nobody).await);
        assert!(is_somewhere(only("GCE_METADATA_HOST"), nobody).await);
        let file = home.path().join(WELL_KNOWN);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "{}").unwrap();
        assert!(is_somewhere(only(""), nobody).await);
    }
}
