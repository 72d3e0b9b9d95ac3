//! The script that joins a machine at Google to a cluster and keeps it there: `assets/worker-startup.sh`, with values
//! from the cluster file.

use super::failure;
use crate::config::{Launch, NodeLaunch};
use crate::gcp::Endpoints;
use crate::model::text::printable;
use crate::model::{ClusterSpec, Problem, authority};
use crate::ssh::quote;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

const TEMPLATE: &str = include_str!("../../assets/worker-startup.sh");
/// Interval at which a worker looks for its head.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Metadata values may have 256 KiB (Compute Engine, "metadata limitations").
const MAX_METADATA: usize = 256 << 10;

/// Google's services as a worker reaches them.
#[derive(Clone, Debug)]
pub struct Services {
    /// Base URL of Compute Engine.
    pub compute: String,
    /// Base URL of Secret Manager.
    pub secret_manager: String,
    /// Interval for looking for the head.
    pub poll_interval: Duration,
}

impl Services {
    /// The addresses of these endpoints. On a worker, a local address would refer to another machine, which would
    /// receive the worker's access token, so Google's own address is used instead.
    pub fn at(endpoints: &Endpoints) -> Self {
        let usual = Endpoints::default();
        let there = |here: &String, usual: String| if is_here(here) { usual } else { here.clone() };
        Self {
            compute: there(&endpoints.compute, usual.compute),
            secret_manager: there(&endpoints.secret_manager, usual.secret_manager),
            poll_interval: POLL_INTERVAL,
        }
    }
}

/// Whether the host of a URL is the local machine.
fn is_here(url: &str) -> bool {
    let host =
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default();
    let Ok((host, _)) = authority(host) else { return false };
    let name = host.as_str().trim_end_matches('.').to_ascii_lowercase();
    match name.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || address.is_unspecified()
        }
        // RFC 6761, section 6.3.
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// The startup script of a worker of this type. It contains no secret of ours, and the commands and options of the
/// cluster file unchanged (`worker::warnings`).
pub fn startup_script(
    spec: &ClusterSpec,
    launch: &Launch,
    node: &NodeLaunch,
    services: &Services,
) -> Result<String, Problem> {
    let missing = |what: &str, hint: &str| failure(format!("{} has no {what}", spec.name), hint);
    let project = spec.google.project.as_deref();
    let project = project.ok_or_else(|| missing("`provider.project_id`", "add it to the cluster file"))?;
    let image = node.image.as_deref().or(launch.image.as_deref());
    let image = image.ok_or_else(|| missing("`docker.image`", "add it; workers start in a container"))?;
    if image.starts_with('-') || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let what = format!("`{}` is not a valid image", printable(image));
        return Err(failure(what, "fix `docker.image` in the cluster file"));
    }
    let options = docker_words(&node.run_options.join(" ")).map_err(|why| {
        failure(format!("docker.run_options of {}: {why}", spec.name), "fix it in the cluster file")
    })?;
    let secret = spec.google.token_secret.as_ref();
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.add_filter("sh", |text: String| quote(&text));
    let values = context! {
        cluster => spec.name.as_str(),
        // Labels consist of letters, digits, - and _, so no head has one of these characters.
        label => spec.name.as_str().replace(['"', '\\'], ""),
        project, image, options,
        zone => spec.zone.as_deref().unwrap_or_default(),
        container => launch.container,
        port => launch.port.to_string(),
        compute => services.compute,
        secret_manager => services.secret_manager,
        secret => secret.map(|s| s.name.as_str()).unwrap_or_default(),
        secret_project => secret.and_then(|s| s.project.as_deref()).unwrap_or(project),
        registry => registry(image).unwrap_or_default(),
        resources => node.resources.to_string(),
        own => node.metadata().remove("startup-script").unwrap_or_default(),
        init => each(&node.init),
        join => in_container(node),
        look_seconds => services.poll_interval.as_secs_f64().to_string(),
    };
    let script = environment.render_str(TEMPLATE, values).map_err(|e| failure(e.to_string(), ""))?;
    if script.len() > MAX_METADATA {
        let hint = "shorten the setup commands; the metadata limit is 256 KB";
        return Err(failure(
            format!("the startup script of {} is {} bytes long", spec.name, script.len()),
            hint,
        ));
    }
    Ok(script)
}

/// The Google registry of an image; other registries need no login.
fn registry(image: &str) -> Option<&str> {
    let host = image.split('/').next()?;
    (host.ends_with(".pkg.dev") || host == "gcr.io" || host.ends_with(".gcr.io")).then_some(host)
}

/// Options of `docker run` for a line of bash, split into words as a shell does. A variable (`$NAME`, `${NAME}`) and a
/// leading `~` keep their meaning, as in Ray, which passes the options to a shell; everything else is quoted, so that
/// an option can neither end the command nor run another.
fn docker_words(options: &str) -> Result<String, &'static str> {
    let mut words = Vec::new();
    let mut rest = options.trim_start();
    while !rest.is_empty() {
        let (word, after) = docker_word(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words.join(" "))
}

/// The first word of a text that does not begin with a blank, quoted for bash, and the rest.
fn docker_word(text: &str) -> Result<(String, &str), &'static str> {
    let mut word = Word::default();
    let mut rest = text;
    if let Some(after) = rest
        .strip_prefix('~')
        .filter(|r| r.is_empty() || r.starts_with('/') || r.starts_with(char::is_whitespace))
    {
        word.quoted.push_str("\"$HOME\"");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        if word.within.is_none() && c.is_whitespace() {
            break;
        }
        rest = word.read(c, &rest[c.len_utf8()..])?;
    }
    Ok((word.end()?, rest))
}

/// A word of which the beginning has been read.
#[derive(Default)]
struct Word {
    /// The part that is quoted for bash.
    quoted: String,
    /// The text after that part, which is not quoted yet.
    plain: String,
    /// The quotation mark that has not been closed.
    within: Option<char>,
}

impl Word {
    /// Reads a character, which `after` follows. Returns the text after everything that was read.
    fn read<'a>(&mut self, c: char, after: &'a str) -> Result<&'a str, &'static str> {
        match (c, self.within) {
            ('\'', Some('\'')) | ('"', Some('"')) => self.within = None,
            (_, Some('\'')) => self.plain.push(c),
            ('\'' | '"', None) => {
                self.within = Some(c);
                // An empty pair of quotes is also a word.
                self.quoted.push_str("''");
            }
            ('\\', _) => return self.read_escaped(after),
            ('$', _) => {
                if let Some((name, after)) = variable(after) {
                    self.quote_plain();
                    let _ = write!(self.quoted, "\"${{{name}:-}}\"");
                    return Ok(after);
                }
                self.plain.push('$');
            }
            (c, _) => self.plain.push(c),
        }
        Ok(after)
    }

    /// Reads the character after a backslash.
    fn read_escaped<'a>(&mut self, after: &'a str) -> Result<&'a str, &'static str> {
        let next = after.chars().next().ok_or("trailing backslash")?;
        let rest = &after[next.len_utf8()..];
        if next == '\n' {
            // The line continues.
            return Ok(rest);
        }
        if self.within.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
            self.plain.push('\\');
        }
        self.plain.push(next);
        Ok(rest)
    }

    fn quote_plain(&mut self) {
        if !self.plain.is_empty() {
            self.quoted.push_str(&quote(&std::mem::take(&mut self.plain)));
        }
    }

    /// The whole word, quoted for bash.
    fn end(mut self) -> Result<String, &'static str> {
        if self.within.is_some() {
            return Err("unclosed quotation mark");
        }
        self.quote_plain();
        Ok(self.quoted)
    }
}

/// The name of the variable at the beginning of a text after `$`, and the rest.
fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, after) = match text.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => {
            text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
        }
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some((name, after))
}

/// The cluster's own commands in Ray's order, followed by a loop that waits until Ray has ended.
pub(super) fn in_container(node: &NodeLaunch) -> String {
    let mut script = commands(node);
    script
        .push_str("while grep -qsx raylet /proc/[0-9]*/comm; do sleep 2; done\necho 'Ray has exited' >&2\n");
    script
}

/// The setup and start commands.
pub(super) fn commands(node: &NodeLaunch) -> String {
    format!("ulimit -n 65536 2>/dev/null\n{}{}", each(&node.setup), each(&node.start))
}

/// Commands in sequence; the first failure ends them.
pub(super) fn each(commands: &[String]) -> String {
    let mut script = String::new();
    for command in commands {
        // Each in a subshell, as Ray runs them: a failing `ray stop`, or a `cd`, must not affect the next.
        let failed = quote(&format!("failed: {command}"));
        let _ = write!(script, "( {command}\n) || {{ printf '%s\\n' {failed} >&2; exit 1; }}\n");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// The words as bash sees them, with `HOME` and `A` set; each ends with a byte that no word contains.
    fn words_in_bash(line: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("set -u; printf '%s\\0' {line}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).env_clear().env("HOME", "/h").env("A", "a  b").current_dir(folder.path());
        let out = bash.output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{line}: {out:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{line} ran something");
        let text = String::from_utf8(out.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_local_address_is_never_passed_to_a_worker() {
        let usual = Endpoints::default();
        for url in [
            "http://127.0.0.1:9",
            "http://127.9.9.9/base",
            "https://localhost",
            "http://LOCALHOST.:80",
            "http://google.localhost:1",
            "http://[::1]:9/",
            "http://[::ffff:127.0.0.1]:9",
            "http://0.0.0.0:9",
        ] {
            let there = Services::at(&Endpoints::all_at(url));
            assert_eq!(
                (there.compute, there.secret_manager),
                (usual.compute.clone(), usual.secret_manager.clone()),
                "{url}"
            );
        }
        for url in ["https://private.example.com", "http://10.0.0.1:9", "http://localhost.example.com"] {
            assert_eq!(Services::at(&Endpoints::all_at(url)).compute, url);
        }
    }

    #[test]
    fn options_become_separate_words() {
        for (options, wanted) in [
            ("--privileged  --ulimit memlock=-1:-1", &["--privileged", "--ulimit", "memlock=-1:-1"][..]),
            ("-v \"/a b:/c\" -e 'X=$A'", &["-v", "/a b:/c", "-e", "X=$A"]),
            (
                "-v $HOME/x:/y -e B=${A} ~/z ~ ~root",
                &["-v", "/h/x:/y", "-e", "B=a  b", "/h/z", "/h", "~root"],
            ),
            ("-e \"Q=\\\"$A\\\"\" -e a\\ b ''", &["-e", "Q=\"a  b\"", "-e", "a b", ""]),
            ("x; touch owned", &["x;", "touch", "owned"]),
            ("$(touch owned) `touch owned`", &["$(touch", "owned)", "`touch", "owned`"]),
            ("a\n>owned&&touch owned|| #x", &["a", ">owned&&touch", "owned||", "#x"]),
            (
                "\"$(touch owned)\" ${A:=$(touch owned)} $1 * {a,b}",
                &["$(touch owned)", "${A:=$(touch", "owned)}", "$1", "*", "{a,b}"],
            ),
            ("$UNSET-x", &["-x"]),
        ] {
            assert_eq!(words_in_bash(&docker_words(options).unwrap()), wanted, "{options}");
        }
        assert!(docker_words("-e 'a").is_err() && docker_words("a\\").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_option_runs_anything(options in "[a-z $`'\"\\\\(){};&|<>*~#\n-]{0,40}") {
            if let Ok(line) = docker_words(&format!("{options} touch owned")) {
                words_in_bash(&line);
            }
        }
    }
}
