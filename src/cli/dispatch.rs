//! Runs a command and provides what it needs: nothing, files on this machine, or clusters.

#[cfg(feature = "demo")]
use super::demo_ray;
use super::jobs::JobCommand;
use super::reach::Reach;
use super::{Arguments, Command, GlobalArguments};
use super::{
    audit, auth, backups, chips, cleanup, cluster_logs, completions, configs, console, demo, exec, forward,
    image, jobs, list, man, manual, nodes, operate, registry, setup, ssh, status, token, tpus, trust, update,
    workers,
};
use crate::config::{self, Config, Entry, Env, Settings, Sources, Unresolved};
use crate::model::command_line::Given;
use crate::model::{Target, Timestamp};
use clap::CommandFactory;
use std::process::ExitCode;

/// Runs the command of the arguments, or the console when there is none.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { global, command, renewed } = arguments;
    let arguments = &global.sources;
    let given = Given::files(arguments.infra.as_deref(), arguments.config.as_deref());
    given.at(arguments.address.as_deref(), arguments.gcs.as_deref()).keep();
    let Some(command) = command else { return open_console(global) };
    if let Some(done) = without_files(command) {
        return done;
    }
    let (env, sources) = (Env::current(), sources(global));
    if let Some(done) = without_clusters(command, global, &sources, &env) {
        return done;
    }
    if let Some(words) = sources.unused_address(&env) {
        eprintln!("{words}");
    }
    let loaded = config::read(&sources, &env, Timestamp::now())?;
    let chosen = global.sources.cluster.as_deref();
    if let Command::Clusters(arguments) = command
        && !arguments.wide
    {
        // This command only prints, so it needs no trust.
        return list::run(*arguments, &loaded.into_displayed()?, chosen);
    }
    let (mut config, env) = trust::admit(loaded, &env)?;
    config.settings.read_only |= global.read_only;
    command.allowed(config.settings.read_only)?;
    match command {
        Command::Clusters(arguments) => list::run(*arguments, &config, chosen),
        Command::Status(arguments) => status::run(arguments, global, &config, &env),
        Command::Token { action } => done(token::run(action, &config, &env, chosen)),
        Command::Auth(arguments) => done(auth::run(arguments, &config, &env, chosen)),
        Command::AuthEnv { shell } => done(token::auth_env(*shell, &config, &env, chosen)),
        Command::ClusterLogs(arguments) if arguments.is_of_all() => {
            cluster_logs::run_all(arguments, &Reach::all(global, &config, &env)?)
        }
        Command::Jobs(JobCommand::ListJobs(arguments)) if chosen.is_none() && has_several(&config) => {
            for broken in config.entries.iter().filter_map(Entry::broken) {
                eprintln!("incomplete: {}", broken.problem.in_commands(Target::default()));
            }
            jobs::list_all(arguments, &Reach::all(global, &config, &env)?)
        }
        _ => {
            let reach = Reach::new(global, &config, env).map_err(|e| unnamed(e, renewed.as_deref()))?;
            on_cluster(command, &reach)
        }
    }
}

/// Whether there is more than one cluster.
fn has_several(config: &Config) -> bool {
    config.entries.iter().filter_map(Entry::cluster).nth(1).is_some()
}

/// The error about a missing cluster name; for an old command line with its new form.
fn unnamed(error: anyhow::Error, renewed: Option<&str>) -> anyhow::Error {
    let is_unnamed = matches!(error.downcast_ref(), Some(Unresolved::Several(_)));
    match renewed.and_then(|line| line.strip_prefix("marin-tui ")).filter(|_| is_unnamed) {
        Some(rest) => anyhow::anyhow!("{error}; run `marin-tui -c NAME {rest}`"),
        None => error,
    }
}

fn done(ran: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    ran.map(|()| ExitCode::SUCCESS)
}

fn sources(global: &GlobalArguments) -> Sources {
    let arguments = &global.sources;
    Sources {
        infra: arguments.infra.clone(),
        config: arguments.config.clone(),
        address: arguments.address.clone(),
        gcs: arguments.gcs.clone(),
        cluster: arguments.cluster.clone(),
    }
}

fn open_console(global: &GlobalArguments) -> anyhow::Result<ExitCode> {
    if global.sources.accept_host_key.is_some() {
        anyhow::bail!(
            "--accept-host-key works with commands only; the console shows both fingerprints and asks"
        );
    }
    console::check_terminal(&global.display)?;
    let env = Env::current();
    let loaded = config::read(&sources(global), &env, Timestamp::now())?;
    let (mut config, env): (Config, Env) = trust::admit(loaded, &env)?;
    config.settings.read_only |= global.read_only;
    done(console::run(global, config, &env))
}

/// Runs a command that needs none of the user's files; `None` for other commands.
fn without_files(command: &Command) -> Option<anyhow::Result<ExitCode>> {
    Some(match command {
        #[cfg(feature = "demo")]
        Command::DemoRay(arguments) => demo_ray::run(arguments),
        Command::Help { words } => done(manual::run(words, Arguments::command())),
        Command::Man(arguments) => done(man::run(arguments, Arguments::command())),
        Command::Completions(arguments) => done(completions::run(*arguments)),
        Command::PrintSettings => {
            print!("{}", config::DEFAULTS);
            Ok(ExitCode::SUCCESS)
        }
        _ => return None,
    })
}

/// Runs a command that uses settings, records or the table of clusters; `None` for one that needs the clusters.
fn without_clusters(
    command: &Command,
    global: &GlobalArguments,
    sources: &Sources,
    env: &Env,
) -> Option<anyhow::Result<ExitCode>> {
    let settings = || Settings::read(sources.config.as_deref(), env);
    let allowed = || command.allowed(global.read_only || settings()?.read_only);
    Some(match command {
        Command::Demo(options) => done(demo::run(options, global, env)),
        Command::Audit { json } => done(audit::print(&audit::log(env, &config::Folders::new(env)), *json)),
        Command::Backups(arguments) => settings()
            .map_err(Into::into)
            .and_then(|settings| backups::run(arguments, &config::Folders::new(env), &settings, env)),
        Command::Configs { action } => done(configs::run(action, sources, env)),
        Command::Image { action } => allowed().and_then(|()| image::run(action, sources, env)),
        Command::Registry { action } => allowed().and_then(|()| registry::run(action, sources, env)),
        Command::Trust(arguments) => done(trust::run(arguments, sources, env.clone())),
        Command::Setup(arguments) => setup::run(arguments, global, sources, env),
        _ => return None,
    })
}

/// Runs a command on one cluster.
fn on_cluster(command: &Command, reach: &Reach) -> anyhow::Result<ExitCode> {
    match command {
        Command::Workers(command) => workers::run(command, reach),
        Command::Operate(command) => operate::run(command, reach),
        Command::UpdateCluster(arguments) => update::run(arguments, reach),
        Command::Jobs(command) => jobs::run(command, reach),
        Command::Forward(which) => forward::run(which, reach),
        Command::Ssh(host) => ssh::run(host, reach),
        Command::Exec(arguments) => exec::run(arguments, reach),
        Command::ListNodes(arguments) => nodes::run(arguments, reach),
        Command::Chips(arguments) => chips::run(arguments, reach),
        Command::ClusterLogs(arguments) => cluster_logs::run(arguments, reach),
        Command::Tpus(command) => tpus::run(command, reach),
        Command::RunCleanup(arguments) => cleanup::run(arguments, reach),
        _ => unreachable!("a command without a cluster has run before"),
    }
}
