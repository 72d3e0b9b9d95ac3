//! `marin-tui setup`: checks what this machine needs to reach the clusters, and sets up what it can.
//!
//! Each check covers one thing and reports what is wrong; none stops the others. The command can be repeated: an
//! existing file is never replaced.

mod given;
mod google;
mod here;
mod keys;
mod reached;
mod report;

use super::google::google;
use super::reach::{Progress, Reach};
use super::{GlobalArguments, SourceArguments, trust};
use crate::config::{self, Config, ConfigError, Entry, Env, Folders, Settings, Sources, TrustState};
use crate::model::amount::counted;
use crate::model::command_line::shell_quote;
use crate::model::{Fix, Hint, SecretName, Target, Timestamp};
use anyhow::bail;
use given::Setup;
pub use given::SetupArguments;
use report::{Check, Status};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui --infra ~/src/infra setup                 check this machine, and set up what is missing
  marin-tui --infra ~/src/infra setup --write-settings --key-secret RAY_CLUSTER_PRIVATE_KEY
  marin-tui setup --check                             fix nothing; exit 1 if action is needed
  marin-tui -c us-central2 setup --check --json       for one cluster, as JSON

Fetches the token and, if a secret is configured for it, the clusters' private key; creates the program's directories; \
and removes other users' access to your private key. An existing key or settings file is never replaced.

Exit codes: 0 everything is ok, 1 you need to take action.";

/// This command line, without `--check`.
fn again(arguments: &SetupArguments, global: &SourceArguments) -> String {
    let path = |path: &PathBuf| shell_quote(&path.to_string_lossy());
    let options = [
        ("--infra", global.infra.as_ref().map(path)),
        ("--config", global.config.as_ref().map(path)),
        ("-c", global.cluster.as_deref().map(shell_quote)),
        ("setup", Some(String::new())),
        ("--key-secret", arguments.key_secret.as_deref().map(shell_quote)),
    ];
    let words = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?)));
    let line: String = words.map(|words| words.trim_end().to_owned()).collect();
    format!("marin-tui{line}")
}

/// Runs all checks and prints them.
pub(super) fn run(
    arguments: &SetupArguments,
    global: &GlobalArguments,
    sources: &Sources,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    if let Some(name) = arguments.key_secret.as_ref().filter(|name| !SecretName::is_name(name)) {
        bail!("`{name}` is not a secret name; use its short name: letters, digits, - and _");
    }
    let mut checks = vec![here::settings(arguments, sources, env)];
    let (config, env, found) = clusters((arguments, &global.sources), sources, env)?;
    let chosen = global.sources.cluster.as_deref();
    let clusters = match chosen {
        Some(name) if !config.entries.is_empty() => vec![config::resolve(name, &config.entries)?.clone()],
        _ => config.entries.iter().filter_map(Entry::cluster).cloned().collect(),
    };
    checks.extend(found);
    checks.extend(config.entries.iter().filter(|_| chosen.is_none()).filter_map(|entry| match entry {
        Entry::Broken(broken) => Some(Check::problem("cluster-files", "", &broken.problem)),
        Entry::Cluster(_) => None,
    }));
    let checks = Reach::block_on(async {
        let setup = Setup {
            google: google(&config.settings),
            folders: Folders::new(&env),
            clusters,
            fixes: !arguments.check,
            again: again(arguments, &global.sources),
            progress: Progress::new(),
            config,
            env,
        };
        checks.push(here::folders(&setup));
        checks.push(here::ssh(&setup).await);
        checks.extend(google::checks(&setup).await);
        let keys = keys::checks(&setup).await;
        let tokens = reached::tokens(&setup).await;
        let ready = keys.iter().chain(&tokens).all(|check| check.status != Status::ActionNeeded);
        checks.extend(keys);
        checks.extend(tokens);
        let (head, version) = reached::head(&setup, global, ready).await;
        checks.push(head);
        checks.push(here::ray(&setup, version.as_deref()).await);
        Ok(checks)
    })?;
    report::print(&checks, arguments.json)?;
    match checks.iter().filter(|check| check.status == Status::ActionNeeded).count() {
        0 => Ok(ExitCode::SUCCESS),
        n => {
            eprintln!("marin-tui: {n} of {} checks need action", checks.len());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The settings and clusters that can be read, and messages about the cluster files.
fn clusters(
    (arguments, global): (&SetupArguments, &SourceArguments),
    sources: &Sources,
    env: &Env,
) -> anyhow::Result<(Config, Env, Option<Check>)> {
    let none = |check| {
        let settings = Settings::read(sources.config.as_deref(), env).unwrap_or_default();
        (Config { settings, entries: Vec::new(), skipped: Vec::new() }, env.clone(), Some(check))
    };
    let failed = |e: &ConfigError| match e {
        ConfigError::File(e) => Check::needs("cluster-files", "", e.what(), &e.hint),
        ConfigError::NoClusters(folder) => {
            let with = SourceArguments { infra: Some("DIR".into()), ..global.clone() };
            let hint = Hint::from(Fix::command(
                "copy or check out Ray's cluster files, and specify their directory",
                again(arguments, &with),
            ));
            let hint =
                hint.and("or set `infra` in the settings").and("or connect to a dashboard with --address");
            Check::needs("cluster-files", "", format!("no cluster files found in {}", folder.display()), hint)
        }
        other => Check::needs("cluster-files", "", other.to_string(), ""),
    };
    let loaded = match config::read(sources, env, Timestamp::now()) {
        Ok(loaded) => loaded,
        Err(e) => return Ok(none(failed(&e))),
    };
    let records = config::Records::of(env);
    let is_trusted = loaded
        .review()
        .is_none_or(|review| loaded.is_named() || review.state(&records) == TrustState::Trusted);
    let admitted = if is_trusted {
        loaded.admit(&records)
    } else if !arguments.check && io::stdin().is_terminal() {
        Ok(trust::admit(loaded, env)?)
    } else {
        let folder = loaded.review().map(|review| review.folder.display().to_string()).unwrap_or_default();
        let what = format!("{folder} is not trusted");
        let hint = Fix::command("review what its files do, and trust it", Target::default().line("trust"));
        return Ok(none(Check::needs("cluster-files", "", what, hint)));
    };
    Ok(match admitted {
        Ok((mut config, env)) => {
            if let Some(name) = &arguments.key_secret {
                config.settings.ssh_key_secret = Some(name.clone());
            }
            let read = config.entries.iter().filter_map(Entry::cluster).count();
            let what = counted(read, "cluster");
            let check = (read > 0).then(|| Check::new("cluster-files", "", Status::Ok, what));
            (config, env, check)
        }
        Err(e) => none(failed(&e)),
    })
}
