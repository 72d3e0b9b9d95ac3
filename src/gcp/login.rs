//! Google logins, requested before every call, so that a missing one is reported immediately.
//!
//! Application-default credentials are found as gcloud and Google's Python client find them (AIP-4110), including
//! `CLOUDSDK_CONFIG`, which Google's crate ignores: the login that gcloud writes must be the one that is read.

use super::GcpError;
use super::identity::{CredentialSource, FILE, Identity};
use crate::task;
use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::credentials::{self as google, CacheableResource};
use http::{Extensions, HeaderMap};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

pub use google_cloud_auth::credentials;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Timeout for a new access token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The metadata server of Google's machines (Compute Engine documentation, "VM metadata"), and the timeout for
/// connecting to it, which is local to the machine.
const METADATA: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);
const METADATA_TIMEOUT: Duration = Duration::from_millis(800);
/// gcloud's directory below the home directory.
const FOLDER: &str = ".config/gcloud";

type Make = dyn Fn() -> Result<google::Credentials, BuildError> + Send + Sync;
type Variable = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// The source of the credentials, not the credentials themselves: they are read again after a new login.
#[derive(Clone)]
pub struct Login {
    source: Source,
    variable: Arc<Variable>,
}

#[derive(Clone)]
enum Source {
    Ambient,
    File(PathBuf),
    Made(Arc<Make>),
}

impl Login {
    fn from_source(source: Source) -> Self {
        Self { source, variable: Arc::new(|name| std::env::var_os(name)) }
    }

    /// `GOOGLE_APPLICATION_CREDENTIALS`, else what `gcloud auth application-default login` wrote, else the metadata
    /// server of the machine we run on.
    pub fn application_default() -> Self {
        Self::from_source(Source::Ambient)
    }

    /// The credentials in a file, of any type that `GOOGLE_APPLICATION_CREDENTIALS` may name, and no others.
    pub fn file(path: PathBuf) -> Self {
        Self::from_source(Source::File(path))
    }

    pub fn by(make: impl Fn() -> Result<google::Credentials, BuildError> + Send + Sync + 'static) -> Self {
        Self::from_source(Source::Made(Arc::new(make)))
    }

    /// The same with these environment variables instead of the process's.
    #[must_use]
    pub fn in_environment(self, variable: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> Self {
        Self { variable: Arc::new(variable), ..self }
    }

    async fn read(&self) -> Result<Made, GcpError> {
        // An empty variable counts as none, as with Google's Python client.
        let variable = |name: &str| (self.variable)(name).filter(|value| !value.is_empty());
        let charged =
            || variable("GOOGLE_CLOUD_QUOTA_PROJECT").and_then(|project| project.into_string().ok());
        let (credentials, identity) = match &self.source {
            Source::Made(make) => (make().map_err(|e| GcpError::from_build(&e))?, Identity::default()),
            Source::File(path) => from_file(path, CredentialSource::Setting(path.clone()), charged()).await?,
            Source::Ambient => match find(variable, METADATA).await? {
                source @ (CredentialSource::Variable(_)
                | CredentialSource::Folder(_)
                | CredentialSource::Home(_)) => {
                    let path = source.file().map(Path::to_owned).unwrap_or_default();
                    from_file(&path, source, charged()).await?
                }
                source => {
                    let builder = google::mds::Builder::default().with_scopes([SCOPE]);
                    let host = variable("GCE_METADATA_HOST").and_then(|host| host.into_string().ok());
                    let made = host
                        .into_iter()
                        .fold(builder, |b, host| b.with_endpoint(format!("http://{host}")))
                        .build();
                    (made.map_err(|e| GcpError::from_build(&e))?, Identity::at(source))
                }
            },
        };
        Ok(Made { credentials, identity: Arc::new(identity) })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Credentials, and the login they were created from.
#[derive(Clone, Debug)]
struct Made {
    credentials: google::Credentials,
    identity: Arc<Identity>,
}

/// The headers that authorize a call, and the login they come from.
#[derive(Debug)]
pub(super) struct Authorized {
    pub headers: HeaderMap,
    pub identity: Arc<Identity>,
}

/// The current credentials.
#[derive(Debug)]
pub(super) struct Credentials {
    login: Login,
    made: Mutex<Option<Made>>,
}

impl Credentials {
    pub(super) fn new(login: Login) -> Self {
        Self { login, made: Mutex::new(None) }
    }

    /// The credentials, for Google's own clients.
    pub(super) async fn get(&self) -> Result<google::Credentials, GcpError> {
        self.made().await.map(|made| made.credentials)
    }

    async fn made(&self) -> Result<Made, GcpError> {
        let mut made = self.made.lock().await;
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        Ok(made.insert(self.login.read().await?).clone())
    }

    /// Authorizes a call. Credentials with a revoked grant never work again, even after a new login: they are dropped
    /// and read again at the next call.
    pub(super) async fn authorize(&self) -> Result<Authorized, GcpError> {
        let Made { credentials, identity } = self.made().await?;
        let answer = tokio::time::timeout(TOKEN_TIMEOUT, credentials.headers(Extensions::new())).await;
        let error = match answer {
            Ok(Ok(CacheableResource::New { data, .. })) => return Ok(Authorized { headers: data, identity }),
            // This is returned only to a caller that sent an entity tag.
            Ok(Ok(CacheableResource::NotModified)) => {
                return Ok(Authorized { headers: HeaderMap::new(), identity });
            }
            Ok(Err(e)) => GcpError::from_login(&e, &identity),
            Err(_) => GcpError::Timeout { after: TOKEN_TIMEOUT },
        };
        *self.made.lock().await = None;
        Err(error)
    }
}

/// The credentials in a file, of any type that Google's crate supports. Calls are charged to the given project, else to
/// the file's.
async fn from_file(
    path: &Path,
    source: CredentialSource,
    charged: Option<String>,
) -> Result<(google::Credentials, Identity), GcpError> {
    let wrong = |why: String, identity: &Identity| {
        GcpError::CredentialsFile { why, login: Box::default() }.read_from(identity)
    };
    let unread = Identity::at(source.clone());
    let text = read_regular(path.to_owned()).await.map_err(|e| wrong(e.to_string(), &unread))?;
    let grant: Value = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string(), &unread))?;
    let identity = Identity::of(source, &grant);
    let charged = charged.or_else(|| grant["quota_project_id"].as_str().map(str::to_owned));
    let made = match grant["type"].as_str().unwrap_or_default() {
        "authorized_user" => {
            let builder = google::user_account::Builder::new(grant).with_scopes([SCOPE]);
            charged.into_iter().fold(builder, google::user_account::Builder::with_quota_project_id).build()
        }
        "service_account" => {
            let scope = google::service_account::AccessSpecifier::from_scopes([SCOPE]);
            let builder = google::service_account::Builder::new(grant).with_access_specifier(scope);
            charged.into_iter().fold(builder, google::service_account::Builder::with_quota_project_id).build()
        }
        "impersonated_service_account" => {
            let builder = google::impersonated::Builder::new(grant).with_scopes([SCOPE]);
            charged.into_iter().fold(builder, google::impersonated::Builder::with_quota_project_id).build()
        }
        "external_account" => {
            let builder = google::external_account::Builder::new(grant).with_scopes([SCOPE]);
            charged
                .into_iter()
                .fold(builder, google::external_account::Builder::with_quota_project_id)
                .build()
        }
        _ => {
            let why = "its `type` must be authorized_user, service_account, impersonated_service_account or \
                       external_account";
            return Err(wrong(why.into(), &identity));
        }
    };
    Ok((made.map_err(|e| GcpError::from_build(&e).read_from(&identity))?, identity))
}

/// Reads a regular file, which may be on a network file system; opening a pipe might never end, and it can be read only
/// once.
async fn read_regular(path: PathBuf) -> io::Result<Vec<u8>> {
    let read = move || {
        let kind = std::fs::metadata(&path)?.file_type();
        if kind.is_fifo() {
            let why = "it is not a regular file but a pipe; write the credentials to a file";
            return Err(io::Error::other(why));
        }
        if !kind.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        std::fs::read(&path)
    };
    task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// Finds the application-default credentials.
async fn find(
    variable: impl Fn(&str) -> Option<OsString>,
    metadata: SocketAddr,
) -> Result<CredentialSource, GcpError> {
    let variable = |name: &str| variable(name).map(PathBuf::from);
    if let Some(file) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return Ok(CredentialSource::Variable(file));
    }
    let chosen = variable("CLOUDSDK_CONFIG").map(|folder| CredentialSource::Folder(folder.join(FILE)));
    let usual = || variable("HOME").map(|home| CredentialSource::Home(home.join(FOLDER).join(FILE)));
    let gcloud = chosen.or_else(usual).unwrap_or_default();
    if gcloud.file().is_some_and(Path::exists) {
        return Ok(gcloud);
    }
    // On a network that drops the request every call would wait for credentials that do not exist.
    let is_here = variable("GCE_METADATA_HOST").is_some()
        || matches!(timeout(METADATA_TIMEOUT, TcpStream::connect(metadata)).await, Ok(Ok(_)));
    if is_here {
        Ok(CredentialSource::Metadata)
    } else {
        Err(GcpError::NoCredentials { login: Box::default() }.read_from(&Identity::at(gcloud)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn an_invalid_credentials_file_is_reported_with_the_cause() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("login.json");
        let why = async |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            from_file(&file, CredentialSource::Setting(file.clone()), None).await.unwrap_err().to_string()
        };
        let words = [
            (None, "No such file"),
            (Some("{"), "EOF"),
            (Some("{\"type\": \"other\"}"), "must be authorized_user"),
            (Some("{\"type\": \"authorized_user\"}"), "missing field"),
            (Some("{\"type\": \"impersonated_service_account\"}"), "missing field"),
            (Some("{\"type\": \"external_account\"}"), "missing field"),
        ];
        for (text, wanted) in words {
            let message = why(text).await;
            assert!(message.contains(wanted), "{text:?}: {message}");
            assert!(
                message.contains("login.json") && message.contains("google_credentials"),
                "{text:?}: {message}"
            );
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(why(None).await.contains("not a regular file"));
        fs::remove_dir(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(why(None).await.contains("a pipe; write the credentials to a file"));
    }

    #[tokio::test]
    async fn a_login_comes_from_a_file_or_the_metadata_server_or_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        // No other program can use this port: it stays bound, but nothing listens on it.
        let kept = tokio::net::TcpSocket::new_v4().unwrap();
        kept.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let unused = kept.local_addr().unwrap();
        let home = home.path().to_owned();
        let only = |set: &'static str, value: &Path| {
            let (home, value) = (home.clone().into_os_string(), value.as_os_str().to_owned());
            move |name: &str| match name {
                "HOME" => Some(home.clone()),
                name => (name == set).then(|| value.clone()),
            }
        };
        let x = Path::new("x");
        let none = find(|_| None, unused).await.unwrap_err();
        assert!(matches!(none, GcpError::NoCredentials { .. }), "{none:?}");
        let none = find(only("", x), unused).await.unwrap_err().to_string();
        assert!(none.contains(&format!("{}/.config/gcloud/{FILE}", home.display())), "{none}");
        assert_eq!(find(only("", x), there).await, Ok(CredentialSource::Metadata));
        assert_eq!(find(only("GCE_METADATA_HOST", x), unused).await, Ok(CredentialSource::Metadata));
        let variable = find(only("GOOGLE_APPLICATION_CREDENTIALS", x), unused).await;
        assert_eq!(variable, Ok(CredentialSource::Variable("x".into())));
        // gcloud writes only into the directory that CLOUDSDK_CONFIG names.
        for folder in [home.join(FOLDER), home.join("chosen")] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(FILE), "{}").unwrap();
        }
        assert_eq!(find(only("", x), unused).await, Ok(CredentialSource::Home(home.join(FOLDER).join(FILE))));
        let chosen = find(only("CLOUDSDK_CONFIG", &home.join("chosen")), unused).await;
        assert_eq!(chosen, Ok(CredentialSource::Folder(home.join("chosen").join(FILE))));
        let missing = find(only("CLOUDSDK_CONFIG", &home.join("elsewhere")), unused).await.unwrap_err();
        let (message, hint) = (missing.to_string(), missing.hint().to_string());
        assert!(message.contains("elsewhere/application_default_credentials.json"), "{message}");
        assert!(hint.contains("elsewhere gcloud auth application-default login"), "{hint}");
    }
}
