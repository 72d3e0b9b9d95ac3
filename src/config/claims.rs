//! The actions that the content of a directory would cause: commands, hosts, secrets, files and addresses, listed for
//! review before any of them is used.

use super::settings::Settings;
use crate::model::text::printable;
use crate::model::{ClusterSpec, HeadAddress, Provider};
use serde_yaml::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of characters shown of one command, so that a long one does not push the others off the screen.
const MAX_SHOWN: usize = 1000;

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestedActionKind {
    /// Runs a command.
    Run,
    /// Connects to a host or a service.
    Contact,
    /// Reads a file or a secret.
    Read,
    /// Sends a file or a value of ours to another machine.
    Send,
}

impl RequestedActionKind {
    /// The verb in the list and in JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Contact => "contact",
            Self::Read => "read",
            Self::Send => "send",
        }
    }
}

/// One action that the content would cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestedAction {
    pub kind: RequestedActionKind,
    /// The command, host, file, secret or address, as written in the content.
    pub what: String,
    /// The purpose, and when it happens.
    pub why: String,
}

impl RequestedAction {
    pub(super) fn new(kind: RequestedActionKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind, what: what.into(), why: why.into() }
    }
}

/// The actions that a cluster file would cause; `text` is its content.
pub fn of_cluster(spec: &ClusterSpec, text: &str, settings: &Settings) -> Vec<RequestedAction> {
    let mut all = Vec::new();
    let mut claim = |kind, what: String, why: &str| all.push(RequestedAction::new(kind, what, why));
    let file = spec.file.as_deref().unwrap_or(Path::new("")).display();
    let ray = settings.ray.join(" ");
    let is_google = spec.provider == Provider::Gcp;
    let project = spec.google.project.as_deref().filter(|_| is_google);
    if let Some(project) = project {
        claim(
            RequestedActionKind::Contact,
            format!("Google Cloud, project {project}"),
            "to find the head and the TPUs",
        );
    }
    let user = spec.auth.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    match &spec.head {
        HeadAddress::Ssh(host) => {
            let port = spec.auth.port.map(|port| format!(" port {port}")).unwrap_or_default();
            claim(RequestedActionKind::Contact, format!("{user}{host}{port}"), "over SSH, as the head");
        }
        HeadAddress::RayLookup => {
            let when =
                if project.is_some() { "to find the head if Google fails" } else { "to find the head" };
            claim(RequestedActionKind::Run, format!("{ray} get-head-ip {file}"), when);
            claim(RequestedActionKind::Contact, format!("{user}<head address>"), "over SSH");
        }
        HeadAddress::Direct { .. } => {}
    }
    claim(
        RequestedActionKind::Run,
        format!("{ray} up, {ray} down {file}"),
        "when you start, stop or restart the cluster",
    );
    claim(RequestedActionKind::Send, "the cluster's Ray token".into(), "to the head, if it requires one");
    if let Some(key) = &spec.auth.private_key {
        claim(RequestedActionKind::Read, key.display().to_string(), "over SSH, to log in");
    }
    if let Some(secret) = &spec.google.token_secret {
        claim(
            RequestedActionKind::Read,
            format!("secret {secret}"),
            "from Google Secret Manager, as the cluster's Ray token",
        );
    }
    let value: Value = serde_yaml::from_str(text).unwrap_or_default();
    all.extend(of_value(&value, spec));
    all
}

/// The actions of keys that are not fields of a [`ClusterSpec`]. Every mapping of the file is searched, including those
/// with anchors and merge keys.
fn of_value(value: &Value, spec: &ClusterSpec) -> Vec<RequestedAction> {
    let mut all = Vec::new();
    let proxy = spec.auth.proxy_command.as_deref();
    if let Some(proxy) = proxy {
        all.push(RequestedAction::new(
            RequestedActionKind::Run,
            proxy,
            "over SSH, to reach the head (ssh_proxy_command)",
        ));
    }
    each_entry(value, &mut |key, value| {
        // Only a mapping mounts files.
        if key == "file_mounts" && !matches!(value, Value::Mapping(_)) {
            return;
        }
        each_text(value, &mut |text| {
            let is_listed = key == "ssh_proxy_command" && proxy == Some(text);
            all.extend(of_text(key, text).filter(|_| !is_listed));
        });
    });
    all
}

/// The action that a text in the value of a key causes; `None` if it causes none.
fn of_text(key: &str, text: &str) -> Option<RequestedAction> {
    use RequestedActionKind::{Contact, Run, Send};
    let action = |kind, why: &str| RequestedAction::new(kind, text, format!("{why} ({key})"));
    let command = |why: &str| RequestedAction::new(Run, cut(text), format!("{why} ({key})"));
    Some(match key {
        // Outside `auth`, or as a map by region, only ray uses it.
        "ssh_proxy_command" => action(Run, "by ray, to reach the machines"),
        "module" => RequestedAction::new(Run, text, "a Python module that ray loads (provider.module)"),
        "coordinator_address" => RequestedAction::new(Contact, text, "by ray (provider.coordinator_address)"),
        "worker_ips" => action(Contact, "over SSH, when workers are started or stopped"),
        "image" | "worker_image" | "head_image" => action(Run, "as the container of the cluster's machines"),
        "startup-script" => command("on the cluster's machines, when they start"),
        "file_mounts" | "cluster_synced_files" | "ssh_public_key" => {
            action(Send, "to the cluster's machines, when you start them")
        }
        key if key.ends_with("run_options") => command("as options of the container"),
        key if key.ends_with("_commands") => command("on the cluster's machines, when you start them"),
        _ => return None,
    })
}

/// A command, cut for display.
fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… (+{} characters)", &text[..at], text[at..].chars().count()),
    }
}

/// Calls `visit` for every `key: value` pair, at any depth.
fn each_entry(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Mapping(entries) => {
            for (key, value) in entries {
                visit(key.as_str().unwrap_or_default(), value);
                each_entry(value, visit);
            }
        }
        Value::Sequence(items) => items.iter().for_each(|item| each_entry(item, visit)),
        Value::Tagged(tagged) => each_entry(&tagged.value, visit),
        _ => {}
    }
}

/// Calls `visit` for every string, at any depth.
fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Sequence(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Mapping(entries) => entries.iter().for_each(|(_, value)| each_text(value, visit)),
        Value::Tagged(tagged) => each_text(&tagged.value, visit),
        _ => {}
    }
}

/// The actions of the variables of `.marin.yaml`. `token_file` is the path in `RAY_AUTH_TOKEN_PATH`, with
/// links resolved.
pub fn of_variables(variables: &BTreeMap<String, String>, token_file: Option<&Path>) -> Vec<RequestedAction> {
    let mut all = Vec::new();
    if let Some(address) = variables.get("RAY_ADDRESS") {
        all.push(RequestedAction::new(
            RequestedActionKind::Contact,
            address,
            "as the cluster's dashboard (RAY_ADDRESS)",
        ));
        all.push(RequestedAction::new(
            RequestedActionKind::Send,
            format!("the Ray token to {address}"),
            "if it requires one",
        ));
    }
    if variables.contains_key("RAY_AUTH_TOKEN") {
        all.push(RequestedAction::new(
            RequestedActionKind::Send,
            "the token in .marin.yaml",
            "to every cluster (RAY_AUTH_TOKEN)",
        ));
    }
    if let Some(file) = token_file {
        let what = format!("the first line of {}", file.display());
        all.push(RequestedAction::new(
            RequestedActionKind::Read,
            &what,
            "as the Ray token of every cluster (RAY_AUTH_TOKEN_PATH)",
        ));
        all.push(RequestedAction::new(
            RequestedActionKind::Send,
            what,
            "to every cluster that requires a token",
        ));
    }
    let others: Vec<&str> =
        variables.keys().map(String::as_str).filter(|name| !super::shared::NAMES.contains(name)).collect();
    if !others.is_empty() {
        let why = "to a cluster whose job asks for it with `submit-job --env NAME`";
        all.push(RequestedAction::new(
            RequestedActionKind::Send,
            format!("the values of {}", others.join(", ")),
            why,
        ));
    }
    all
}

/// The claims as lines for display; a claim of several clusters is one line that names them.
pub fn lines(claims: &BTreeMap<RequestedAction, Vec<String>>) -> Vec<String> {
    let line = |(claim, of): (&RequestedAction, &Vec<String>)| {
        let of = match of.as_slice() {
            [] => String::new(),
            [one] => format!("; cluster {one}"),
            few if few.len() <= 3 => format!("; clusters {}", few.join(", ")),
            many => format!("; {} clusters", many.len()),
        };
        printable(&format!("  {:<8} {}  ({}{of})", claim.kind.label(), claim.what, claim.why)).into_owned()
    };
    claims.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Env, cluster};
    use super::*;

    fn claims(text: &str) -> Vec<String> {
        let env = Env::new(&[("HOME", "/home/me")], "/w");
        let spec = cluster::parse(text, Path::new("/w/infra/c.yaml"), &Settings::default(), &env).unwrap();
        let all = of_cluster(&spec, text, &Settings::default());
        all.into_iter().map(|c| format!("{} {} | {}", c.kind.label(), c.what, c.why)).collect()
    }

    #[test]
    fn all_actions_of_a_cluster_file_are_listed() {
        let all = claims(
            "cluster_name: a\nprovider: {type: local, head_ip: 10.0.0.1, worker_ips: [w1, w2], coordinator_address: 'c:1'}\n\
             auth: {ssh_user: me, ssh_private_key: ~/.ssh/id, ssh_proxy_command: 'nc evil 22'}\n\
             file_mounts: {/there: ~/.aws}\ncluster_synced_files: [/etc/passwd]\n\
             setup_commands: [one, 'gcloud secrets versions access latest --secret=S --project=p-1 > ~/.ray/auth_token']\n",
        );
        for wanted in [
            "run nc evil 22 |",
            "contact me@10.0.0.1 |",
            "contact w1 |",
            "contact w2 |",
            "contact c:1 |",
            "read /home/me/.ssh/id |",
            "read secret S in project p-1 |",
            "send the cluster's Ray token |",
            "send ~/.aws |",
            "send /etc/passwd |",
            "run one | on the cluster's machines, when you start them (setup_commands)",
            "run gcloud secrets versions access latest --secret=S --project=p-1 > ~/.ray/auth_token |",
            "run ray up, ray down /w/infra/c.yaml |",
        ] {
            assert!(all.iter().any(|c| c.starts_with(wanted)), "{wanted}: {all:#?}");
        }
        let all = claims(
            "cluster_name: a\nx: &p {ssh_proxy_command: {r1: 'nc a', r2: [nc b]}}\n\
             provider: {type: external, module: evil.provider}\nauth: {<<: *p}\n",
        );
        for wanted in
            ["run nc a |", "run nc b |", "run evil.provider |", "run ray get-head-ip /w/infra/c.yaml |"]
        {
            assert!(all.iter().any(|c| c.starts_with(wanted)), "{wanted}: {all:#?}");
        }
    }

    #[test]
    fn control_characters_are_removed_from_the_list() {
        let claim = RequestedAction::new(RequestedActionKind::Run, "a\u{1b}[2Jb\nc", "x");
        let many = (0..4).map(|n| format!("c{n}")).collect();
        let lines = lines(&BTreeMap::from([(claim, many)]));
        assert!(lines[0].contains("4 clusters") && !lines[0].contains(['\u{1b}', '\n']), "{lines:?}");
    }
}
