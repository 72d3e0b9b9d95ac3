//! `marin-tui token` and `auth-env`: manage tokens without ever showing one.

use super::google::google;
use super::reach::{confirm, runtime};
use super::{audit, columns};
use crate::cli::output;
use crate::config::{self, Config, Entry, Env, Folders};
use crate::model::sort;
use crate::model::{ClusterSpec, Fix, Hint, Problem, Secret, SecretName, Target};
use crate::supervisor::{Fetched, TokenManager};
use crate::token::{self, Source, TokenSources};
use anyhow::{Context, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui token status                          show the source of each cluster's token
  marin-tui token fetch --cluster us-central2     fetch the latest version from Secret Manager
  RAY_AUTH_TOKEN_PATH=$(marin-tui token path --cluster us-central2) ray job list
  marin-tui token init-secret --cluster staging   create the secret with a random token
  marin-tui token init-secret --cluster staging --rotate
  marin-tui token init-secret --cluster staging --from-file token.txt

Tokens are never printed.";

pub(super) const ENV_EXAMPLES: &str = "\
Examples:
  eval \"$(marin-tui auth-env --cluster us-central2)\"
  marin-tui auth-env --cluster us-central2 --shell fish | source
  eval `marin-tui auth-env --cluster us-central2 --shell csh`

Prints the path of the token file, never the token.";

/// Subcommands of `token`.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// Show the source of each cluster's token on this machine
    #[command(after_help = EXAMPLES)]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch the latest tokens from Secret Manager and save them
    #[command(after_help = EXAMPLES)]
    Fetch,
    /// Print the path of the cluster's token file; fetch the token first if it is missing
    #[command(after_help = EXAMPLES)]
    Path,
    /// Create the cluster's secret with a random token, or with one that exists; an existing secret is not changed
    #[command(after_help = EXAMPLES)]
    InitSecret {
        /// Secret name [default: the cluster's]
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        /// Project of the secret [default: the cluster's]
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Add a version to the existing secret, after confirmation; running clusters use the old one until a restart
        #[arg(long)]
        rotate: bool,
        /// Store the token in this file instead of a random one; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        /// Skip confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

impl Action {
    /// The command's name if it changes anything outside this machine, which a read-only session refuses.
    pub(super) fn changes(&self) -> Option<&'static str> {
        matches!(self, Self::InitSecret { .. }).then_some("token init-secret")
    }
}

/// Shells by their syntax for setting a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// POSIX shells: sh, bash, zsh.
    Sh,
    /// The fish shell.
    Fish,
    /// C shells: csh, tcsh.
    Csh,
}

/// The context of the commands: clusters, token sources, Google.
pub(super) struct TokenContext<'a> {
    pub config: &'a Config,
    pub token_sources: TokenSources,
    pub manager: Arc<TokenManager>,
    chosen: Option<&'a str>,
}

impl<'a> TokenContext<'a> {
    pub fn new(config: &'a Config, env: &Env, chosen: Option<&'a str>) -> Self {
        let folders = Folders::new(env);
        let token_sources = super::directories::token_sources(env, &folders);
        let manager = TokenManager::new(token_sources.clone(), google(&config.settings));
        Self { config, token_sources, manager: Arc::new(manager), chosen }
    }

    /// The cluster of `--cluster`, or the only configured one.
    pub fn cluster(&self) -> anyhow::Result<&'a ClusterSpec> {
        Ok(config::chosen(self.chosen, &self.config.entries)?)
    }

    fn clusters(&self) -> anyhow::Result<Vec<&'a ClusterSpec>> {
        if self.chosen.is_some() {
            return Ok(vec![self.cluster()?]);
        }
        Ok(self.config.entries.iter().filter_map(Entry::cluster).collect())
    }
}

/// Converts a problem to the error of a command.
pub(super) fn failed(problem: &Problem) -> anyhow::Error {
    anyhow!("{}", problem.in_commands(Target::default()))
}

/// Runs a subcommand of `token`.
pub fn run(action: &Action, config: &Config, env: &Env, chosen: Option<&str>) -> anyhow::Result<()> {
    let context = TokenContext::new(config, env, chosen);
    match action {
        Action::Status { json } => runtime()?.block_on(status(&context, *json)),
        Action::Fetch => runtime()?.block_on(fetch(&context)),
        Action::Path => {
            let path = runtime()?.block_on(path(&context))?;
            writeln!(output::stdout(), "{}", path.display()).map_err(Into::into)
        }
        Action::InitSecret { secret, project, rotate, from_file, yes } => {
            let (cluster, secret) = secret_of(&context, secret.as_deref(), project.as_deref())?;
            let token = from_file.as_deref().map(read_token).transpose()?;
            if *rotate {
                confirm(&rotation(&context, &secret), *yes)?;
            }
            let done = runtime()?.block_on(async {
                if *rotate {
                    context.manager.add_version(&secret, token).await
                } else {
                    context.manager.init(&secret, token).await
                }
            });
            let outcome = match &done {
                Ok(made) => format!("version {}", made.version),
                Err(problem) => format!("failed: {}", problem.what),
            };
            let what = format!("token init-secret{} {secret}", if *rotate { " --rotate" } else { "" });
            audit::write(&audit::log(env, &Folders::new(env)), &cluster.name, &what, &outcome);
            report(&secret, &done.map_err(|p| failed(&p))?)
        }
    }
}

/// Runs `auth-env`.
pub fn auth_env(shell: Shell, config: &Config, env: &Env, chosen: Option<&str>) -> anyhow::Result<()> {
    let context = TokenContext::new(config, env, chosen);
    let path = runtime()?.block_on(path(&context))?;
    let text = lines(shell, &path)?;
    output::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// Why this machine has no token, and what Google reports about the secret that would be fetched. The token is not
/// saved.
async fn missing(context: &TokenContext<'_>, spec: &ClusterSpec, here: Problem) -> Problem {
    let named = context.token_sources.variable.is_some() || context.token_sources.path_variable.is_some();
    let Some(secret) = spec.google.token_secret.as_ref().filter(|_| !named) else { return here };
    match context.manager.latest(secret).await {
        Ok((version, _)) => {
            let what = format!("{}; version {version} of secret {secret} can be fetched", here.what);
            let line = Target::of(&spec.name).line("token fetch");
            Problem { what, hint: Hint::from(Fix::command("fetch it", line)), ..here }
        }
        Err(problem) => {
            let what = format!("{}, and {}", here.what, problem.what);
            Problem { what, hint: problem.hint.and(here.hint.clone()), ..here }
        }
    }
}

/// Prints one row per cluster with the token found on this machine. Google is queried for missing tokens.
async fn status(context: &TokenContext<'_>, as_json: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let mut values = Vec::new();
    let clusters = context.clusters()?;
    let found = clusters.iter().map(async |spec| match context.manager.on_this_machine(spec) {
        Ok(found) => Ok(found),
        Err(here) => Err(missing(context, spec, here).await),
    });
    let found = futures_util::future::join_all(found).await;
    for (spec, found) in clusters.into_iter().zip(found) {
        let secret = spec.google.token_secret.as_ref();
        let version = found
            .as_ref()
            .ok()
            .and_then(|f| secret.and_then(|s| context.token_sources.version_of(s, &f.token)));
        let (from, exposed) = match &found {
            Ok(found) => (found.source.to_string(), found.exposed),
            Err(problem) => (problem.what.clone(), false),
        };
        let mut value = json!({
            "cluster": spec.name.as_str(), "secret": secret.map(|s| &s.name),
            "project": secret.and_then(|s| s.project.as_ref()), "found": found.is_ok(),
            "source": found.as_ref().ok().map(|f| f.source.to_string()), "version": version,
            "others_can_read": exposed, "error": found.as_ref().err().map(|p| &p.what),
        });
        let hint = found.as_ref().err().map(|p| &p.hint);
        super::hints::add(&mut value, hint, Target::of(&spec.name));
        values.push(value);
        let warning = if exposed { " (others can read it: chmod 600)" } else { "" };
        rows.push(vec![
            spec.name.to_string(),
            secret.map_or_else(|| "-".into(), ToString::to_string),
            version.unwrap_or_else(|| "-".into()),
            format!("{from}{warning}"),
        ]);
    }
    if as_json {
        return output::json(&values);
    }
    Ok(columns::print(&mut output::stdout(), &["CLUSTER", "SECRET", "VERSION", "SOURCE"], &rows)?)
}

/// Fetches the secrets of the clusters, each once.
async fn fetch(context: &TokenContext<'_>) -> anyhow::Result<()> {
    let clusters = context.clusters()?;
    let secrets = clusters.iter().filter_map(|c| c.google.token_secret.as_ref());
    let secrets = sort::distinct(secrets);
    if secrets.is_empty() {
        bail!("no secret configured; set `clusters.NAME.token_secret` and `project` in the settings");
    }
    let mut failures = 0;
    for secret in &secrets {
        match context.manager.fetch(secret).await {
            Ok(fetched) => {
                print_fetched(&fetched);
                if !fetched.kept {
                    failures += 1;
                    eprintln!("marin-tui: version {} of secret {secret} was not saved", fetched.version);
                    continue;
                }
                let Fetched { version, .. } = &fetched;
                let saved = saved(&fetched);
                writeln!(output::stdout(), "version {version} of secret {secret} {saved}")?;
            }
            Err(problem) => {
                failures += 1;
                eprintln!("marin-tui: {:#}", failed(&problem));
            }
        }
    }
    match failures {
        0 => Ok(()),
        n => bail!("cannot fetch or save {n} of {} secrets", secrets.len()),
    }
}

/// Where the token was saved.
fn saved(fetched: &Fetched) -> String {
    let files: Vec<String> = fetched.files.iter().map(|file| file.display().to_string()).collect();
    format!("saved in {}", files.join(" and "))
}

fn print_fetched(fetched: &Fetched) {
    for error in &fetched.failures {
        eprintln!("marin-tui: {error}");
    }
}

/// The path of the cluster's token file.
async fn path(context: &TokenContext<'_>) -> anyhow::Result<PathBuf> {
    let spec = context.cluster()?;
    context.manager.token(spec).await.map_err(|p| failed(&p))?;
    let found = context.manager.on_this_machine(spec).map_err(|p| failed(&p))?;
    match found.source {
        Source::File(path) => Ok(path),
        other => {
            bail!("the token comes from {other}, not from a file; unset it to use the cluster's token file")
        }
    }
}

/// The named secret, or else that of the cluster.
fn secret_of<'a>(
    context: &TokenContext<'a>,
    name: Option<&str>,
    project: Option<&str>,
) -> anyhow::Result<(&'a ClusterSpec, SecretName)> {
    let spec = context.cluster()?;
    let of_cluster = spec.google.token_secret.as_ref();
    let name =
        name.or(of_cluster.map(|s| s.name.as_str())).context("no secret name; set it with --secret")?;
    let project = project.or(of_cluster.and_then(|s| s.project.as_deref()));
    let project = project.or(spec.google.project.as_deref()).context("no project; set it with --project")?;
    if !SecretName::is_name(name) || !SecretName::is_project(project) {
        bail!("`{name}` of `{project}` is not a valid secret; use letters, digits, - and _ in names");
    }
    Ok((spec, SecretName { project: Some(project.into()), name: name.into() }))
}

/// The token in a file, or on standard input.
fn read_token(file: &Path) -> anyhow::Result<Secret> {
    /// Maximum size of a payload (Secret Manager v1, `SecretPayload.data`).
    const MAX_SIZE: u64 = 64 * 1024;
    let origin = if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(MAX_SIZE).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(MAX_SIZE).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read the token from {origin}"))?;
    Ok(token::parse_payload(&text, &origin)?)
}

/// The question asked before a version is added; it names the clusters that use the secret.
fn rotation(context: &TokenContext, secret: &SecretName) -> String {
    let all = context.config.entries.iter().filter_map(Entry::cluster);
    let sharing: Vec<_> = all.filter(|c| c.google.token_secret.as_ref() == Some(secret)).collect();
    let names: Vec<_> = sharing.iter().map(|c| c.name.as_str()).collect();
    let used = match names.as_slice() {
        [] => "no cluster here uses it".to_owned(),
        [one] => format!("used by {one}"),
        several => format!("shared by {} clusters: {}", several.len(), several.join(", ")),
    };
    format!(
        "Add a version with a new token to secret {secret} ({used})? Running clusters use the old token until they are \
         restarted."
    )
}

fn report(secret: &SecretName, made: &Fetched) -> anyhow::Result<()> {
    print_fetched(made);
    if !made.kept {
        bail!("created version {} of secret {secret}; not saved on this machine", made.version);
    }
    writeln!(output::stdout(), "created version {} of secret {secret}; {}", made.version, saved(made))?;
    Ok(())
}

/// Shell commands that set the variables of Ray's commands. They unset `RAY_AUTH_TOKEN`, which takes precedence over
/// the path.
fn lines(shell: Shell, path: &Path) -> anyhow::Result<String> {
    let path = path
        .to_str()
        .filter(|p| !p.contains(['\n', '\r']))
        .context("the path is not UTF-8 text on one line")?;
    Ok(match shell {
        Shell::Sh => format!(
            "export RAY_AUTH_MODE=token\nexport RAY_AUTH_TOKEN_PATH='{}'\nunset RAY_AUTH_TOKEN\n",
            path.replace('\'', "'\\''")
        ),
        Shell::Fish => format!(
            "set -gx RAY_AUTH_MODE token\nset -gx RAY_AUTH_TOKEN_PATH '{}'\nset -e RAY_AUTH_TOKEN\n",
            path.replace('\\', "\\\\").replace('\'', "\\'")
        ),
        // Between backticks csh joins lines with spaces, and expands `!` also inside quotes.
        Shell::Csh => format!(
            "setenv RAY_AUTH_MODE token;\nsetenv RAY_AUTH_TOKEN_PATH '{}';\nunsetenv RAY_AUTH_TOKEN;\n",
            path.replace('\'', "'\\''").replace('!', "\\!")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_the_path_quoted_its_way() {
        let path = Path::new("/home/o'neil/a b!");
        assert!(lines(Shell::Sh, path).unwrap().contains("RAY_AUTH_TOKEN_PATH='/home/o'\\''neil/a b!'\n"));
        assert!(lines(Shell::Fish, path).unwrap().contains("RAY_AUTH_TOKEN_PATH '/home/o\\'neil/a b!'\n"));
        assert!(
            lines(Shell::Csh, path).unwrap().contains("RAY_AUTH_TOKEN_PATH '/home/o'\\''neil/a b\\!';\n")
        );
        assert!(lines(Shell::Sh, Path::new("/a\nb")).is_err());
    }
}
