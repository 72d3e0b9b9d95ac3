//! Checks this machine: settings, directories, ssh, the ray command.

use super::given::{Setup, SetupArguments};
use super::report::{Check, Status};
use crate::cli::directories::{make_folders, token_sources};
use crate::cli::tool;
use crate::config::{self, Env, Settings, Sources};
use crate::model::command_line::shell_quote;
use crate::model::{Fix, HeadAddress, Hint, Secret};
use crate::supervisor;
use std::path::Path;

/// Checks the settings file, and writes it on request.
pub(super) fn settings(arguments: &SetupArguments, sources: &Sources, env: &Env) -> Check {
    let name = "settings";
    let file = sources.config.as_deref().map_or_else(|| Settings::file(env), |named| env.expand(named));
    let of = file.display().to_string();
    let is_there = file.exists();
    if arguments.write_settings && !is_there {
        let folder = sources.infra.as_deref().unwrap_or(Path::new("infra"));
        let infra = Some(env.expand(folder)).filter(|folder| folder.exists());
        let text = config::first_settings(infra.as_deref(), arguments.key_secret.as_deref());
        return match text.map(|text| config::write_first(&file, &Secret::new(text))) {
            Ok(Ok(())) => Check::new(name, of, Status::Fixed, "created with all defaults"),
            Ok(Err(e)) => {
                let hint = format!("make {of} writable, or choose another file with --config");
                Check::needs(name, of, format!("cannot be written: {e}"), hint)
            }
            Err(e) => Check::needs(name, of, e.what(), e.hint),
        };
    }
    match Settings::read(sources.config.as_deref(), env) {
        Err(e) => Check::needs(name, of, e.what(), e.hint),
        Ok(_) if arguments.write_settings => {
            Check::new(name, of, Status::Ok, "already exists; it was not changed")
        }
        Ok(_) if is_there => Check::new(name, of, Status::Ok, "read"),
        Ok(_) => Check::new(name, of, Status::Ok, "no such file, so the defaults apply"),
    }
}

/// Checks the program's own directories. Every command creates those that it needs, so a missing one is not a fault.
pub(super) fn folders(setup: &Setup) -> Check {
    let name = "directories";
    let Setup { folders, env, .. } = setup;
    let missing =
        [&folders.state, &folders.tokens, &folders.run].iter().filter(|folder| !folder.exists()).count();
    let of = folders.state.display().to_string();
    if missing > 0 && !setup.fixes {
        return Check::new(name, of, Status::Ok, "created when needed");
    }
    match make_folders(folders, &token_sources(env, folders)) {
        Ok(()) if missing > 0 => Check::new(name, of, Status::Fixed, "created"),
        Ok(()) => Check::new(name, of, Status::Ok, "private"),
        Err(e) => Check::needs(name, of, format!("{e:#}"), Hint::none()),
    }
}

/// Whether no cluster is reached by ssh.
fn is_direct(setup: &Setup) -> bool {
    let is_direct = |head: &HeadAddress| matches!(head, HeadAddress::Direct { .. });
    !setup.clusters.is_empty() && setup.clusters.iter().all(|spec| is_direct(&spec.head))
}

/// Checks the ssh program.
pub(super) async fn ssh(setup: &Setup) -> Check {
    let (name, settings) = ("ssh", &setup.config.settings);
    let of = settings.ssh.display().to_string();
    if is_direct(setup) {
        return Check::new(name, of, Status::NotNeeded, "not needed: the dashboard is reached directly");
    }
    let configuration = settings.ssh_config.as_ref().map(|file| setup.env.expand(file));
    if let Some(file) = configuration.filter(|file| !file.is_file()) {
        let what = format!("its configuration {} does not exist", file.display());
        return Check::needs(name, of, what, "correct or remove `ssh_config` in the settings");
    }
    match supervisor::ssh_version(&settings.ssh).await {
        Ok(version) => Check::new(name, of, Status::Ok, version),
        Err(problem) => Check::problem(name, of, &problem),
    }
}

/// Checks the ray command, and whether it matches the version of a head (if one was reached): an older command may not
/// know settings in the cluster file.
pub(super) async fn ray(setup: &Setup, head: Option<&str>) -> Check {
    let (name, command) = ("ray", &setup.config.settings.ray);
    let of = command.join(" ");
    if is_direct(setup) {
        return Check::new(
            name,
            of,
            Status::NotNeeded,
            "a cluster without a cluster file cannot be started from here",
        );
    }
    let version = head.map_or_else(String::new, |version| format!("=={version}"));
    let install = || {
        let line = format!("python3 -m pip install {}", shell_quote(&format!("ray[default]{version}")));
        Hint::from(Fix::command("install Ray", line)).and("or set the command as `ray` in the settings")
    };
    let needed = "needed to start, restart and stop clusters";
    if tool::find(Path::new(&command[0]), &setup.env).is_none() {
        return Check::needs(name, of, format!("cannot find {}, {needed}", command[0]), install());
    }
    setup.progress.show(format!("asking `{of}` for its version"));
    let words: Vec<&str> = command.iter().map(String::as_str).chain(["--version"]).collect();
    let lines = match tool::run(&words, |_| ())
        .await
        .and_then(|ran| ran.require_success(&format!("`{of} --version`")))
    {
        Ok(lines) => lines,
        Err(e) => return Check::needs(name, of, format!("{e:#}"), install()),
    };
    // `ray, version 2.60.0`.
    let printed = lines.iter().rev().find_map(|line| line.split("version ").nth(1)).map(str::trim);
    let Some(own) = printed else {
        let printed = lines.last().cloned().unwrap_or_default();
        return Check::needs(name, of, format!("it printed no version: {printed}"), install());
    };
    match (numbers(own), head, head.and_then(numbers)) {
        (Some(mine), Some(head), Some(theirs)) if mine < theirs || mine.0 != theirs.0 => {
            let what = format!("version {own} does not match the clusters, which run Ray {head}");
            Check::needs(name, of, what, install())
        }
        (_, Some(head), _) => {
            Check::new(name, of, Status::Ok, format!("version {own}; the head runs {head}"))
        }
        _ => Check::new(name, of, Status::Ok, format!("version {own}; not compared with a head")),
    }
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_their_first_two_numbers() {
        assert_eq!(numbers("2.60.0"), Some((2, 60)));
        assert_eq!(numbers("3.0.0.dev0"), Some((3, 0)));
        assert!(numbers("2.9.3") < numbers("2.53.0"));
        assert_eq!(numbers("nightly"), None);
    }
}
