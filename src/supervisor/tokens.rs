//! Renews tokens automatically: looks on this machine first, then fetches from the cluster's secret. If the cluster
//! refuses the token, it is fetched once more, and then the one before it is tried.

use super::cloud::kind;
use crate::gcp::{self, GcpError, Google};
use crate::model::command_line::shell_quote;
use crate::model::{
    ClusterName, ClusterSpec, Fix, Hint, Problem, ProblemKind, Secret, SecretName, Target, Timestamp, Verb,
};
use crate::task;
use crate::token::{self, Found, Source, TokenError, TokenSources};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Minimum interval between requests for a secret: a refusal is repeated with every refresh, and several clusters share
/// a secret.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
/// How long a token that a cluster has refused is not tried again as the previous one.
const REFUSED_INTERVAL: Duration = Duration::from_secs(300);
/// Number of refused tokens of a cluster that are known.
const MAX_REFUSED: usize = 4;

/// The latest version of a secret, as fetched and saved.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The token for the head's dashboard and GCS.
    pub token: Secret,
    /// Version of the secret that holds the token.
    pub version: String,
    /// Whether the secret's file on this machine contains it.
    pub kept: bool,
    /// All files that contain it.
    pub files: Vec<PathBuf>,
    /// Failures to save it on this machine, each with a hint.
    pub failures: Vec<String>,
}

/// The time of the last answer, and the answer. Locked during a request to Google, so that two clusters with one secret
/// send one request.
type Answer = Arc<Mutex<Option<(Instant, Result<Fetched, Problem>)>>>;

/// Manages the tokens of all clusters.
pub struct TokenManager {
    sources: TokenSources,
    google: Google,
    /// One answer per secret, so that a slow project does not delay others.
    answers: std::sync::Mutex<BTreeMap<SecretName, Answer>>,
    /// The tokens that clusters have refused lately.
    refused: std::sync::Mutex<BTreeMap<ClusterName, VecDeque<(Secret, Instant)>>>,
}

impl TokenManager {
    /// Creates a manager that searches these sources and fetches secrets with this client.
    pub fn new(sources: TokenSources, google: Google) -> Self {
        let (answers, refused) = Default::default();
        Self { sources, google, answers, refused }
    }

    /// The cluster's token on this machine. Reads files.
    pub fn on_this_machine(&self, spec: &ClusterSpec) -> Result<Found, Problem> {
        self.find(spec).map_err(|e| e.problem(&spec.name, &self.sources, Timestamp::now()))
    }

    fn find(&self, spec: &ClusterSpec) -> Result<Found, TokenError> {
        token::find(&self.sources, &spec.name, spec.google.token_secret.as_ref())
    }

    /// The cluster's token: from this machine, or else from its secret.
    pub async fn token(self: &Arc<Self>, spec: &ClusterSpec) -> Result<Secret, Problem> {
        let missing = match self.find_in_background(spec).await? {
            Ok(found) => {
                if found.exposed {
                    tracing::warn!(cluster = %spec.name, "{} is readable by others; run chmod 600 on it", found.source);
                }
                return Ok(found.token);
            }
            Err(e) => e,
        };
        let here = missing.problem(&spec.name, &self.sources, Timestamp::now());
        // As in Ray, it is an error if the user named a source that cannot be used.
        let named = self.sources.variable.is_some() || self.sources.path_variable.is_some();
        let Some(secret) = spec.google.token_secret.as_ref().filter(|_| !named) else { return Err(here) };
        let fetched = self.fetch_rate_limited(secret).await;
        match fetched {
            Ok(fetched) => Ok(fetched.token),
            // Never use the token of Ray's own commands, which belongs to another cluster here: the head would receive
            // it.
            Err(problem) => {
                let what = format!("no token for {} on this machine, and {}", spec.name, problem.what);
                let hint = problem.hint.and(here.hint);
                Err(Problem::new(problem.kind, what, hint, problem.since))
            }
        }
    }

    /// After the cluster refused this token: returns another one, if this machine or the secret has one. A cluster that
    /// was not restarted since a rotation needs the previous one.
    pub async fn renew(self: &Arc<Self>, spec: &ClusterSpec, refused: &Secret) -> Result<Secret, Problem> {
        let wanted = spec.google.token_secret.as_ref();
        let found = self.find_in_background(spec).await?;
        self.add_refused(&spec.name, refused);
        let secret = match (found, wanted) {
            (Ok(found), _) if found.token != *refused => return Ok(found.token),
            (Ok(found), Some(secret)) if found.from_secret => secret,
            (Ok(found), _) => return Err(refused_from(&found, wanted)),
            (Err(_), Some(secret)) => secret,
            (Err(e), None) => return Err(e.problem(&spec.name, &self.sources, Timestamp::now())),
        };
        let now = Timestamp::now();
        let latest = self.fetch_rate_limited(secret).await;
        if let Ok(fetched) = &latest
            && fetched.token != *refused
        {
            return Ok(fetched.token.clone());
        }
        if let Some(previous) = self.previous(secret).await
            && !self.has_refused(&spec.name, &previous)
        {
            tracing::info!(cluster = %spec.name, "trying the previous token of secret {secret}");
            return Ok(previous);
        }
        match latest {
            Ok(fetched) => {
                let what = format!(
                    "the cluster refuses this token (version {} of secret {secret}, the latest)",
                    fetched.version
                );
                let hint = Hint::from(
                    "the cluster was started with a different token: check that it uses this secret",
                )
                .and(Verb::Restart.to("or restart it"));
                Err(Problem::new(ProblemKind::TokenRefused, what, hint, now))
            }
            Err(problem) => {
                let version = self.version_of(secret, refused).await;
                let which = version.map(|v| format!(" (version {v})")).unwrap_or_default();
                let what = format!("the cluster refuses this token{which}, and {}", problem.what);
                Err(Problem::new(ProblemKind::TokenRefused, what, problem.hint, now))
            }
        }
    }

    /// The previous token of the secret, from a file, which may be on a network file system.
    async fn previous(self: &Arc<Self>, secret: &SecretName) -> Option<Secret> {
        let (manager, secret) = (self.clone(), secret.clone());
        task::spawn_blocking(move || manager.sources.previous(&secret)).await.ok()?
    }

    /// The version of the secret that has this token, from a file, which may be on a network file system.
    async fn version_of(self: &Arc<Self>, secret: &SecretName, token: &Secret) -> Option<String> {
        let (manager, secret, token) = (self.clone(), secret.clone(), token.clone());
        task::spawn_blocking(move || manager.sources.version_of(&secret, &token)).await.ok()?
    }

    /// Records that the cluster has refused this token.
    fn add_refused(&self, cluster: &ClusterName, token: &Secret) {
        let mut all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let of_cluster = all.entry(cluster.clone()).or_default();
        of_cluster.retain(|(known, _)| known != token);
        of_cluster.push_back((token.clone(), Instant::now()));
        let over = of_cluster.len().saturating_sub(MAX_REFUSED);
        of_cluster.drain(..over);
    }

    /// Whether the cluster has refused this token lately.
    fn has_refused(&self, cluster: &ClusterName, token: &Secret) -> bool {
        let all = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_cluster = all.get(cluster).into_iter().flatten();
        of_cluster.any(|(known, at)| known == token && at.elapsed() < REFUSED_INTERVAL)
    }

    /// Fetches the latest version and saves it.
    pub async fn fetch(self: &Arc<Self>, secret: &SecretName) -> Result<Fetched, Problem> {
        let (version, token) = self.latest(secret).await?;
        Ok(self.keep(secret, version, token).await)
    }

    /// Fetches the latest version and its token without saving it.
    pub async fn latest(&self, secret: &SecretName) -> Result<(String, Secret), Problem> {
        let failed = |what: String, hint: Hint| {
            let what = format!("cannot fetch secret {secret}: {what}");
            Problem::new(ProblemKind::TokenMissing, what, hint, Timestamp::now())
        };
        let Some(project) = &secret.project else {
            let hint = "set `project` of the cluster in the settings, or `provider.project_id` in its file";
            return Err(failed("its project is unknown".into(), hint.into()));
        };
        let latest = self.google.latest_version(project, &secret.name).await;
        let latest = latest.map_err(|e| {
            let problem = failed(e.to_string(), e.hint());
            Problem { kind: kind(&e, ProblemKind::TokenMissing), ..problem }
        })?;
        let origin = format!("version {}", latest.version);
        let token = token::parse_payload(latest.value.expose(), &origin).map_err(|e| {
            let (name, project) = (shell_quote(&secret.name), shell_quote(project));
            let line = format!("gcloud secrets versions add {name} --project={project} --data-file=-");
            let purpose = "add a version with the token, which is read from standard input";
            failed(e.to_string(), Fix::command(purpose, line).into())
        })?;
        tracing::info!("fetched {origin}");
        Ok((latest.version, token))
    }

    /// Saves a version of a secret on this machine.
    async fn keep(self: &Arc<Self>, secret: &SecretName, version: String, token: Secret) -> Fetched {
        let (manager, kept, name) = (self.clone(), (version.clone(), token.clone()), secret.clone());
        // The directory may be on a network file system.
        let keep = move || manager.sources.keep(&name, &kept.0, &kept.1);
        let failures = task::spawn_blocking(keep).await.unwrap_or_default();
        let is_written = |file: &PathBuf| !failures.iter().any(|e| e.is_of_writing(file));
        let files: Vec<PathBuf> = self.sources.files_of(secret).into_iter().filter(is_written).collect();
        let kept = files.contains(&self.sources.file_of(secret));
        let failures = failures.iter().map(|e| format!("{e}; {}", e.hint(&self.sources.cache)));
        let failures: Vec<String> = failures.collect();
        for failure in &failures {
            tracing::warn!("the token works, but {failure}");
        }
        Fetched { token, version, kept, files, failures }
    }

    /// Creates the secret with this token, or with a random one, and saves the token on this machine. A secret that
    /// already has versions is not changed.
    pub async fn init(
        self: &Arc<Self>,
        secret: &SecretName,
        token: Option<Secret>,
    ) -> Result<Fetched, Problem> {
        let project = project_of(secret)?;
        match self.google.create_secret(project, &secret.name).await {
            Ok(()) => {}
            Err(GcpError::Exists { .. }) => match self.google.latest_version(project, &secret.name).await {
                // An interrupted command created the secret without a version.
                Err(GcpError::NotFound { .. }) => {}
                Ok(latest) => {
                    let what = format!("it already exists (version {}) and was not changed", latest.version);
                    let fetch = Fix::command("fetch it", Target::default().line("token fetch"));
                    return Err(of_secret(
                        secret,
                        &what,
                        Hint::from(fetch).and("or add a version with --rotate"),
                    ));
                }
                Err(e) => return Err(of_secret(secret, &e.to_string(), e.hint())),
            },
            Err(e) => return Err(of_secret(secret, &e.to_string(), e.hint())),
        }
        self.add_version(secret, token).await
    }

    /// Adds a version with this token, or with a random one, to an existing secret, and saves the token on this
    /// machine. The value is not read back: the alias `latest` may lag behind a new version
    /// (cloud.google.com/secret-manager/docs/access-secret-version), and a user who may add versions is not necessarily
    /// allowed to read them.
    pub async fn add_version(
        self: &Arc<Self>,
        secret: &SecretName,
        token: Option<Secret>,
    ) -> Result<Fetched, Problem> {
        let project = project_of(secret)?;
        let failed = |e: GcpError| of_secret(secret, &e.to_string(), e.hint());
        let token = match token {
            Some(token) => token,
            None => gcp::random_token().map_err(failed)?,
        };
        let version = match self.google.add_version(project, &secret.name, &token).await {
            Err(GcpError::NotFound { .. }) => {
                let hint = "check the name; without --rotate the secret is created";
                return Err(of_secret(secret, "it does not exist", hint.into()));
            }
            added => added.map_err(failed)?,
        };
        Ok(self.keep(secret, version, token).await)
    }

    /// Like [`Self::fetch`], but returns the last answer if it is recent.
    async fn fetch_rate_limited(self: &Arc<Self>, secret: &SecretName) -> Result<Fetched, Problem> {
        let last = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.entry(secret.clone()).or_default().clone()
        };
        let mut last = last.lock().await;
        match &*last {
            Some((at, answer)) if at.elapsed() < MIN_INTERVAL => answer.clone(),
            _ => {
                let answer = self.fetch(secret).await;
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }

    /// Looks for the token on a separate thread, because its files may be on a network file system.
    async fn find_in_background(
        self: &Arc<Self>,
        spec: &ClusterSpec,
    ) -> Result<Result<Found, TokenError>, Problem> {
        let (manager, spec) = (self.clone(), spec.clone());
        let found = task::spawn_blocking(move || manager.find(&spec)).await;
        found.map_err(|e| Problem::new(ProblemKind::Other, e.to_string(), "", Timestamp::now()))
    }
}

fn of_secret(secret: &SecretName, what: &str, hint: Hint) -> Problem {
    Problem::new(ProblemKind::Other, format!("secret {secret}: {what}"), hint, Timestamp::now())
}

fn project_of(secret: &SecretName) -> Result<&str, Problem> {
    let unknown = || of_secret(secret, "its project is unknown", "set it with --project".into());
    secret.project.as_deref().ok_or_else(unknown)
}

/// The problem of a refused token that the user has set and must change.
fn refused_from(found: &Found, secret: Option<&SecretName>) -> Problem {
    let what = format!("the cluster refuses this token (from {})", found.source);
    let hint = match secret {
        Some(secret) => format!("fix or remove it; the token is then fetched from secret {secret}"),
        None if found.source == Source::Variable => {
            "set it to the cluster's token, or unset it and write the token to ~/.ray/auth_token".into()
        }
        None => format!("write the cluster's token to {}", found.source),
    };
    Problem::new(ProblemKind::TokenRefused, what, hint, Timestamp::now())
}
