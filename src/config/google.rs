//! The Google Cloud names in a cluster file: its project, and the secret that holds its Ray token.
//!
//! No field of Ray's schema names the secret; the setup command that writes `auth_token` on the nodes does.

use super::settings::{Override, Settings};
use crate::model::{GoogleNames, Provider, SecretName};
use serde_yaml::Value;

/// The parts of a cluster file that are read: its commands, and `type`, `project_id` and `use_internal_ips`.
pub struct Declared<'a> {
    /// Lists of shell commands.
    pub commands: [&'a Value; 4],
    /// `provider.type`.
    pub provider: Provider,
    /// `provider.project_id`.
    pub project: Option<&'a str>,
    /// `provider.use_internal_ips`.
    pub internal_ips: bool,
}

/// Names from the file, else from the cluster's settings, else (provider `gcp`) the default secret of the settings.
pub fn names(declared: &Declared, chosen: &Override, settings: &Settings) -> GoogleNames {
    let project = declared.project.map(str::to_owned).or_else(|| chosen.project.clone());
    let in_file = declared.commands.iter().find_map(|list| in_commands(list));
    let name = match &in_file {
        Some(access) if SecretName::is_name(&access.secret) => Some(access.secret.clone()),
        None if declared.provider == Provider::Gcp => {
            Some(chosen.token_secret.as_ref().unwrap_or(&settings.token_secret).clone())
        }
        // This applies also when the file names a shell variable, whose value is not known here.
        _ => chosen.token_secret.clone(),
    };
    let elsewhere = in_file.and_then(|access| access.project).filter(|p| SecretName::is_project(p));
    let secret = name.map(|name| SecretName { project: elsewhere.or_else(|| project.clone()), name });
    GoogleNames { project, internal_ips: declared.internal_ips, token_secret: secret }
}

/// A secret that a command line reads.
#[derive(Debug, PartialEq, Eq)]
struct Access {
    secret: String,
    project: Option<String>,
}

/// The first command of the list that writes `auth_token` from a secret.
fn in_commands(list: &Value) -> Option<Access> {
    match list {
        Value::String(command) => in_command(command),
        Value::Sequence(commands) => commands.iter().find_map(in_commands),
        _ => None,
    }
}

fn in_command(command: &str) -> Option<Access> {
    let joined = command.replace("\\\n", " ");
    // A pipe stays inside: `... | tee ~/.ray/auth_token`.
    let parts = joined.split(['\n', ';']).flat_map(|line| line.split("&&"));
    parts.filter(|part| !part.trim_start().starts_with('#')).find_map(access)
}

fn access(part: &str) -> Option<Access> {
    if !part.contains("auth_token") {
        return None;
    }
    let words: Vec<&str> = part
        .split_whitespace()
        .map(|w| w.trim_matches(['(', ')', '{', '}', '`', '\'', '"']))
        .filter(|w| !w.is_empty())
        .collect();
    let gcloud = words.iter().position(|w| w.rsplit(['/', '(']).next() == Some("gcloud"))?;
    let words = &words[gcloud + 1..];
    let asks = |verbs: [&str; 3]| verbs.iter().all(|v| words.contains(v));
    if !asks(["secrets", "versions", "access"]) {
        return None;
    }
    let option = |name: &str| {
        let value = words.iter().enumerate().find_map(|(i, w)| match w.strip_prefix(name)? {
            "" => words.get(i + 1).copied(),
            rest => rest.strip_prefix('='),
        })?;
        Some(value.trim_matches(['\'', '"', ')']).to_owned())
    };
    let secret = option("--secret")?;
    // The full resource name is allowed, too.
    let full: Vec<&str> = secret.split('/').collect();
    if let ["projects", project, "secrets", name] = full.as_slice() {
        return Some(Access { secret: (*name).into(), project: Some((*project).into()) });
    }
    Some(Access { secret, project: option("--project") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_writes_the_token_names_the_secret() {
        let cases = [
            (
                "(umask 077 && gcloud secrets versions access latest --secret=A > $HOME/.ray/auth_token)",
                Some(("A", None)),
            ),
            (
                "gcloud secrets versions access latest --secret=A --project=p-1 > ~/.ray/auth_token",
                Some(("A", Some("p-1"))),
            ),
            (
                "/snap/bin/gcloud --project p-1 secrets versions access latest --secret A | tee ~/.ray/auth_token",
                Some(("A", Some("p-1"))),
            ),
            (
                "gcloud secrets versions access latest --secret=\"A\" --out-file=$HOME/.ray/auth_token",
                Some(("A", None)),
            ),
            (
                "printf %s \"$(gcloud secrets versions access latest --secret='A')\" > ~/.ray/auth_token",
                Some(("A", None)),
            ),
            (
                "gcloud secrets versions access 7 --secret=projects/p-2/secrets/A > ~/.ray/auth_token",
                Some(("A", Some("p-2"))),
            ),
            (
                "gcloud secrets versions access latest --secret=HF > hf && gcloud secrets versions access latest \\\n --secret=A > ~/.ray/auth_token",
                Some(("A", None)),
            ),
            (
                "gcloud secrets versions access latest --secret=$NAME > ~/.ray/auth_token",
                Some(("$NAME", None)),
            ),
            ("# gcloud secrets versions access latest --secret=A > ~/.ray/auth_token", None),
            ("gcloud secrets versions access latest --secret=A > ~/.cache/token", None),
            ("gcloud secrets versions list A > ~/.ray/auth_token", None),
            ("gcloud secrets versions access latest --secret= > ~/.ray/auth_token", Some(("", None))),
            ("mkdir -p ~/.ray && touch ~/.ray/auth_token", None),
            ("", None),
        ];
        for (command, wanted) in cases {
            let found = in_command(command);
            let found = found.as_ref().map(|a| (a.secret.as_str(), a.project.as_deref()));
            assert_eq!(found, wanted, "{command}");
        }
    }

    #[test]
    fn file_then_settings_then_the_default() {
        let yes = "gcloud secrets versions access latest --secret=FILE > ~/.ray/auth_token";
        let unknown = "gcloud secrets versions access latest --secret=$X > ~/.ray/auth_token";
        let cases = [
            (yes, Provider::Gcp, None, Some("FILE")),
            (yes, Provider::Local, Some("MINE"), Some("FILE")),
            ("true", Provider::Gcp, Some("MINE"), Some("MINE")),
            ("true", Provider::Gcp, None, Some("RAY_AUTH_TOKEN")),
            ("true", Provider::Local, Some("MINE"), Some("MINE")),
            ("true", Provider::Local, None, None),
            (unknown, Provider::Gcp, None, None),
            (unknown, Provider::Gcp, Some("MINE"), Some("MINE")),
        ];
        for (command, provider, mine, wanted) in cases {
            let commands = Value::Sequence(vec![Value::String(command.into())]);
            let none = Value::Null;
            let declared = Declared {
                commands: [&none, &commands, &none, &none],
                provider,
                project: Some("p"),
                internal_ips: false,
            };
            let chosen = Override { token_secret: mine.map(str::to_owned), ..Override::default() };
            let names = names(&declared, &chosen, &Settings::default());
            let name = names.token_secret.as_ref().map(|s| s.name.as_str());
            assert_eq!(name, wanted, "{command} {provider} {mine:?}");
        }
    }
}
