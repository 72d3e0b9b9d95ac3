//! Secret values, such as tokens, and detection of secrets in text.

use super::userinfo::passwords;
use std::fmt;
use std::sync::Arc;

/// A secret string. It is printed as `***` everywhere; [`Secret::expose`] is called only to send it or to copy it to
/// the clipboard.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret value.
    pub fn new(s: impl Into<Arc<str>>) -> Self {
        Self(s.into())
    }

    /// Returns the secret value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Variables of this program that no child process may inherit.
pub const SECRET_VARIABLES: [&str; 2] = ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"];

/// Prefixes that issuers give their secrets, and the kind of each secret.
const PREFIXES: [(&str, &str); 10] = [
    ("hf_", "Hugging Face token"),
    ("AIza", "Google API key"),
    ("ghp_", "GitHub token"),
    ("github_pat_", "GitHub token"),
    ("glpat-", "GitLab token"),
    ("dckr_pat_", "Docker token"),
    ("wandb_v1_", "Weights & Biases key"),
    ("xoxb-", "Slack token"),
    ("sk-", "API key"),
    ("ya29.", "Google access token"),
];
/// Minimum number of characters of a secret after its prefix.
const MIN_LENGTH: usize = 16;
/// Part of the first line of a private key file.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
/// Words in the names of variables and options whose values are secret.
const NAMES: [&str; 7] = ["token", "secret", "password", "passwd", "key", "apikey", "credentials"];

/// The kind of secret that a line seems to contain, detected by its form; none if no secret is detected.
pub fn marked_secret(line: &str) -> Option<&'static str> {
    if line.contains(PRIVATE_KEY) {
        return Some("private key");
    }
    let mut words = line.split(|c: char| c.is_whitespace() || "\"'=:/@,;()".contains(c));
    let kind = |word: &str| {
        let has = |prefix: &str| word.starts_with(prefix) && word.len() >= prefix.len() + MIN_LENGTH;
        PREFIXES.iter().find(|(prefix, _)| has(prefix)).map(|(_, kind)| *kind)
    };
    words.find_map(kind)
}

/// Whether a command line seems to contain a secret: by its form, or as the value of a variable or option with the name
/// of a secret, such as `WANDB_API_KEY=...` and `--token ...`.
pub fn is_secret_in(line: &str) -> bool {
    let is_name = |word: &str| {
        let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| NAMES.iter().any(|name| name.eq_ignore_ascii_case(part)))
    };
    let mut words = line.split_whitespace();
    let is_given = words.any(|word| match word.split_once(['=', ':']) {
        Some((name, value)) => is_name(name) && !value.is_empty(),
        None => word.starts_with('-') && is_name(word),
    });
    is_given || marked_secret(line).is_some()
}

/// Separators between a name and its value: `NAME=VALUE`, `NAME: VALUE`.
const ASSIGNS: [char; 2] = ['=', ':'];
/// Values after the name of a secret that are not secrets.
const NOT_SECRET: [&str; 8] = ["true", "false", "yes", "no", "none", "null", "token", "password"];
/// Minimum number of characters of a key or token without a name.
const MIN_UNNAMED: usize = 20;

/// The names of variables, options, headers, logins and URLs that seem to contain a literal secret. References
/// (`$(gcloud secrets ...)`, `$NAME`, a file) and names of secrets are not literal secrets. The returned names are safe
/// to print and never contain the values.
pub fn named_secrets(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
        if !passwords(line).iter().all(|p| literal(&line[p.clone()], 1).is_none()) {
            found.push("a password in a URL".to_owned());
        }
        let cut = |c: char| c.is_whitespace() || ";&|(){},".contains(c);
        let words: Vec<&str> = line.split(cut).filter(|w| !w.is_empty()).collect();
        for (i, word) in words.iter().enumerate() {
            let next = words.get(i + 1).copied().unwrap_or_default();
            found.extend(named(word, next, &words[..i]));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found
}

/// The name of the literal secret in a word, or in a word and the next one; `before` are the words before it.
fn named(word: &str, next: &str, before: &[&str]) -> Option<String> {
    let quotes = ['"', '\''];
    let logs_in = |program: &str| before.iter().any(|w| w.trim_matches(quotes).ends_with(program));
    if let Some((name, value)) = word.split_once(ASSIGNS) {
        let name = name.trim_matches(quotes);
        // `"X-Api-Key: VALUE"`, and the same in YAML and JSON.
        let value = if value.trim_matches(quotes).is_empty() && word.contains(':') { next } else { value };
        return min_length(name).and_then(|least| literal(value, least)).map(|_| shown(name));
    }
    let is_given = |least| literal(next, least).is_some();
    match word.trim_matches(quotes) {
        option if option.starts_with("--") => {
            min_length(option).filter(|least| is_given(*least)).map(|_| shown(option))
        }
        "-p" if (logs_in("login") || logs_in("sshpass")) && is_given(1) => Some("-p".to_owned()),
        "password" if logs_in("login") && is_given(1) => Some("password".to_owned()),
        "Bearer" | "bearer" if is_given(MIN_UNNAMED) => Some("Bearer".to_owned()),
        key if logs_in("wandb")
            && logs_in("login")
            && literal(key, MIN_UNNAMED).is_some()
            && !key.starts_with('-') =>
        {
            Some("wandb login".to_owned())
        }
        _ => None,
    }
}

/// Minimum number of characters of a secret with this name; none if it is not the name of a secret.
fn min_length(name: &str) -> Option<usize> {
    // In gcloud, docker and kubectl, the value of this option is the name of a secret.
    if name == "--secret" {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let mut parts = name.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let last = parts.next()?;
    if parts.any(|p| matches!(p, "public" | "pub")) {
        return None;
    }
    match last {
        "password" | "passwd" | "passphrase" | "secret" => Some(1),
        "pass" => Some(6),
        "token" | "apikey" | "credentials" | "pat" => Some(8),
        "key" => Some(12),
        _ => None,
    }
}

/// The value without quotes, if it is a literal secret of at least `least` characters.
fn literal(value: &str, least: usize) -> Option<&str> {
    let value = value.trim_matches(['"', '\'', '\\']);
    let is_reference = value.starts_with(['$', '`', '<', '/', '~', '.', '%', '*', '@', '-', '{'])
        || value.starts_with("projects/")
        || value.contains("://");
    let is_plain = NOT_SECRET.iter().any(|p| p.eq_ignore_ascii_case(value));
    (value.chars().count() >= least && !is_reference && !is_plain).then_some(value)
}

fn shown(name: &str) -> String {
    let end = name.char_indices().nth(40).map_or(name.len(), |(at, _)| at);
    super::text::printable(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_secret_is_named_and_its_value_is_not() {
        for (line, names) in [
            ("-e WANDB_API_KEY=0123456789abcdef", &["WANDB_API_KEY"][..]),
            ("export HF_TOKEN='abcdefgh' DB_PASSWORD=\"x y\"; run", &["HF_TOKEN", "DB_PASSWORD"]),
            ("docker login -u me -p hunter2 docker.io", &["-p"]),
            ("docker login --username me --password hunter2", &["--password"]),
            ("sshpass -p hunter2 ssh h", &["-p"]),
            ("wandb login --relogin 0123456789abcdef0123456789abcdef01234567", &["wandb login"]),
            ("echo 'machine api.wandb.ai login user password hunter2' >>~/.netrc", &["password"]),
            ("curl -H \"Authorization: Bearer 0123456789abcdef0123\" h", &["Bearer"]),
            ("curl -H 'X-Api-Key: 0123456789abcdef' h", &["X-Api-Key"]),
            ("pip install git+https://me:hunter2@github.com/o/r", &["a password in a URL"]),
            ("AWS_SECRET_ACCESS_KEY: 0123456789abcdef", &["AWS_SECRET_ACCESS_KEY"]),
            ("train --password=a --password=b", &["--password"]),
        ] {
            assert_eq!(named_secrets(line), names, "{line}");
        }
        for line in [
            "(umask 077 && gcloud secrets versions access latest --secret=HF_TOKEN > $HOME/.cache/huggingface/token)",
            "gcloud secrets versions access latest --secret RAY_AUTH_TOKEN",
            "export HF_TOKEN=$(gcloud secrets versions access latest --secret=HF_TOKEN)",
            "-e HF_TOKEN -e WANDB_API_KEY=$WANDB_API_KEY -e A_TOKEN=${A_TOKEN}",
            "-e RAY_AUTH_MODE=token -e RAY_AUTH_TOKEN_PATH=/home/ray/.ray/auth_token",
            "cat ~/.token | docker login -u me --password-stdin docker.io",
            "access_token | docker login -u oauth2accesstoken --password-stdin https://us-docker.pkg.dev",
            "-e GOOGLE_APPLICATION_CREDENTIALS=/keys/key.json -v /token:/token",
            "# password: hunter2",
            "sort --key=2 --field-separator=: /etc/passwd",
            "train.py --max-tokens 5 --eos-token 0 --tokenizer=t5-large",
            "mkdir -p -m 700 $HOME/.ssh; ssh-keygen -t ed25519",
            "pip install git+https://${TOKEN}@github.com/o/r https://me:$TOKEN@h",
            "ssh_public_key: AAAAC3NzaC1lZDI1NTE5AAAAI",
            "wandb login --host https://wandb.example.com $WANDB_API_KEY",
        ] {
            assert_eq!(named_secrets(line), Vec::<String>::new(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn names_do_not_contain_values(value in "[a-zA-Z0-9+]{20,40}") {
            for form in ["-e A_TOKEN=", "--password ", "docker login -p ", "wandb login ", "x://u:"] {
                let found = named_secrets(&format!("{form}{value}@h"));
                prop_assert!(!found.is_empty(), "{}", form);
                prop_assert!(found.iter().all(|name| !name.contains(&value)));
            }
        }
    }

    #[test]
    fn secrets_are_detected_by_form_and_name() {
        for line in [
            "WANDB_API_KEY=0123 python train.py",
            "python train.py --token abc",
            "curl -H authorization-token:abc",
            "DB_PASSWORD=x run",
            "echo hf_abcdefghijklmnop",
            "x --api-key=1",
        ] {
            assert!(is_secret_in(line), "{line}");
        }
        for line in [
            "python train.py --steps 10",
            "owner:dara !token",
            "key",
            "train.py --max-tokens 5 --tokenizer=x",
            "job:7 KEY=",
        ] {
            assert!(!is_secret_in(line), "{line}");
        }
        assert_eq!(marked_secret("key: \"sk-0123456789abcdef\""), Some("API key"));
        assert_eq!(marked_secret("sk-short"), None);
    }

    #[test]
    fn a_secret_prints_as_stars() {
        let s = Secret::new("hunter2");
        assert_eq!(format!("{s} {s:?} {:?}", Some(&s)), "*** *** Some(***)");
    }
}
