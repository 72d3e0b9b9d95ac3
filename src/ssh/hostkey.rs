//! Host keys: the known one, the offered one, and how an accepted one is written to `known_hosts`.
//!
//! Our own `known_hosts` file never contains a key that was not accepted, not even temporarily, and no login is
//! attempted with such a key.

use super::error::SshError;
use super::login::{self, Login};
use super::{TunnelSpec, files, guard};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Mutex;

/// Replaces the known keys of the host by the one with this fingerprint (`SHA256:...`).
///
/// The host is asked for its key once more, over the same route as a connection (jump hosts and proxy
/// commands included, which `ssh-keyscan` cannot do). Only a key with exactly that fingerprint is written, in one
/// rename; any other is a [`SshError::HostKeyChanged`] again.
pub async fn trust(spec: &TunnelSpec, fingerprint: &str) -> Result<(), SshError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    files::prepare(spec)?;
    let login = Login::resolve(spec).await?;
    let offered = offered(spec, &login).await?;
    if offered.fingerprint != fingerprint {
        return Err(SshError::HostKeyChanged {
            host: spec.host.to_string(),
            elsewhere: None,
            known: fingerprint.to_owned(),
            offered: offered.fingerprint,
        });
    }
    let _turn = ONE_AT_A_TIME.lock().await;
    replace(spec, &login, &offered.line).await
}

/// Whether our own file has a key under exactly this host name. This cheap check saves two processes per login: a
/// host that it finds is checked strictly; a host that it misses (an alias, a hashed name) may still be known.
pub(super) fn is_listed(spec: &TunnelSpec) -> bool {
    let name = match spec.auth.port {
        Some(port) if port != 22 => format!("[{}]:{port}", spec.host),
        _ => spec.host.to_string(),
    };
    let names = |line: &str| line.split_whitespace().next().is_some_and(|n| n.split(',').any(|n| n == name));
    fs::read_to_string(&spec.known_hosts).is_ok_and(|text| text.lines().any(names))
}

/// Whether our own file has a key for the host.
pub(super) async fn is_known(spec: &TunnelSpec, login: &Login) -> Result<bool, SshError> {
    let empty = fs::metadata(&spec.known_hosts).is_ok_and(|m| m.len() == 0);
    Ok(!empty && keygen(&["-F", &login.known_hosts_name, "-f"], &spec.known_hosts).await?.is_some())
}

/// Fingerprints (`SHA256:...`) of the keys that our own file has for the host; none when it has no key, or when they
/// cannot be read.
pub(super) async fn filed(spec: &TunnelSpec, login: &Login) -> Option<String> {
    let text =
        keygen(&["-l", "-F", &login.known_hosts_name, "-f"], &spec.known_hosts).await.ok().flatten()?;
    Some(fingerprints(&text).join(", ")).filter(|all| !all.is_empty())
}

/// The error for a failed host key check, with both fingerprints as far as they can be read. `elsewhere` is the file
/// with the known key, when it is not ours.
pub(super) async fn changed(spec: &TunnelSpec, login: &Login, elsewhere: Option<PathBuf>) -> SshError {
    let file = elsewhere.as_ref().unwrap_or(&spec.known_hosts);
    let known = keygen(&["-l", "-F", &login.known_hosts_name, "-f"], file).await;
    let known = known.ok().flatten().map(|text| fingerprints(&text).join(", ")).unwrap_or_default();
    match offered(spec, login).await {
        Ok(Offered { fingerprint: offered, .. }) => {
            SshError::HostKeyChanged { host: spec.host.to_string(), elsewhere, known, offered }
        }
        Err(error) => error,
    }
}

/// A host key that the host offers.
struct Offered {
    /// Its line for a `known_hosts` file.
    line: String,
    fingerprint: String,
}

/// Reads the host's key: connects with an empty `known_hosts` file and reads what ssh wrote into it.
async fn offered(spec: &TunnelSpec, login: &Login) -> Result<Offered, SshError> {
    let seen = files::own_path(&spec.run_dir, ".key")?;
    let answer = probe(spec, login, &seen).await;
    match fs::remove_file(&seen) {
        Err(e) if answer.is_ok() => Err(files::cannot_use(&seen, &e)),
        _ => answer,
    }
}

async fn probe(spec: &TunnelSpec, login: &Login, seen: &Path) -> Result<Offered, SshError> {
    let (child, lifeline) = guard::spawn(login::key_probe(spec, seen))?;
    let limit = spec.connect_timeout.max(Duration::from_secs(1)) * 2;
    let output = tokio::time::timeout(limit, child.wait_with_output()).await;
    drop(lifeline);
    // The login is expected to fail; only whether ssh received a key before that matters.
    if let Ok(line) = fs::read_to_string(seen)
        && let Some(text) = keygen(&["-l", "-f"], seen).await?
        && let Some(fingerprint) = fingerprints(&text).pop()
    {
        return Ok(Offered { line, fingerprint });
    }
    match output {
        Ok(Ok(output)) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<String> = stderr.lines().map(|l| l.trim().to_owned()).collect();
            Err(SshError::connecting(spec, &login.user, &lines, guard::code(output.status)))
        }
        _ => Err(SshError::Unreachable { host: spec.host.to_string(), why: "connection timed out".into() }),
    }
}

/// Number of attempts while another ssh adds keys to the file.
const MAX_ATTEMPTS: usize = 5;

/// Rewrites the file without the host's old lines and with the new one.
async fn replace(spec: &TunnelSpec, login: &Login, line: &str) -> Result<(), SshError> {
    let known = &spec.known_hosts;
    let mut draft = known.clone().into_os_string();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let write = |text: &[u8], truncate: bool| {
        let mut file = fs::OpenOptions::new();
        file.create(true).write(true).mode(0o600).truncate(truncate).append(!truncate);
        file.open(&draft)?.write_all(text)
    };
    let failed = |e: std::io::Error| files::cannot_use(known, &e);
    let mut is_replaced = false;
    for _ in 0..MAX_ATTEMPTS {
        let before = fs::read(known).map_err(failed)?;
        write(&before, true).map_err(failed)?;
        keygen(&["-R", &login.known_hosts_name, "-f"], &draft).await?;
        if keygen(&["-F", &login.known_hosts_name, "-f"], &draft).await?.is_some() {
            return Err(failed(std::io::Error::other("ssh-keygen -R did not remove the old key")));
        }
        write(line.as_bytes(), false).map_err(failed)?;
        if fs::read(known).map_err(failed)? == before {
            fs::rename(&draft, known).map_err(failed)?;
            is_replaced = true;
            break;
        }
    }
    if !is_replaced {
        // It is a copy that is no longer needed.
        let _ = fs::remove_file(&draft);
        return Err(failed(std::io::Error::other("other programs keep changing it; try again")));
    }
    // ssh-keygen keeps the previous version as FILE.old.
    let mut old = draft.into_os_string();
    old.push(".old");
    match fs::remove_file(&old) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(e)),
        _ => Ok(()),
    }
}

/// The output of `ssh-keygen`; none when it failed, e.g. for a host that is not in the file.
async fn keygen(args: &[&str], file: &Path) -> Result<Option<String>, SshError> {
    let args: Vec<OsString> = args.iter().map(OsString::from).chain([file.into()]).collect();
    let output = login::local(Path::new("ssh-keygen"), &args).await?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The `SHA256:...` words in the output of `ssh-keygen -l`.
fn fingerprints(text: &str) -> Vec<String> {
    text.split_whitespace().filter(|w| w.starts_with("SHA256:")).map(str::to_owned).collect()
}
