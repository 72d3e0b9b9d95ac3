//! Checks what this machine logs in with, without connecting: the OpenSSH client, and a private key.

use super::error::{KeyFault, SshError};
use super::{files, login};
use std::ffi::OsString;
use std::path::Path;

/// The oldest OpenSSH whose messages are understood (`error.rs`). The options that we use are older: `accept-new` and
/// `RemoteCommand` were added in 7.6.
const MIN_OPENSSH_VERSION: (u32, u32) = (8, 0);

/// The version of an ssh program, e.g. `OpenSSH_9.2p1`; an error when it is too old, or not OpenSSH.
pub async fn client_version(ssh: &Path) -> Result<String, SshError> {
    let output = login::local(ssh, &["-V".into()]).await?;
    // ssh prints its version on standard error.
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let word = text.split([' ', ',', '\n']).find(|word| word.starts_with("OpenSSH_"));
    let (major, minor) = MIN_OPENSSH_VERSION;
    let unsupported = |what: String| SshError::Local {
        what,
        hint: format!("install OpenSSH {major}.{minor} or later, or set `ssh` in the settings").into(),
    };
    let Some(word) = word else {
        return Err(unsupported(format!("{} is not OpenSSH", ssh.display())));
    };
    match version(word) {
        Some(version) if version >= MIN_OPENSSH_VERSION => Ok(word.to_owned()),
        _ => Err(unsupported(format!("{} is {word}, which is too old", ssh.display()))),
    }
}

/// The numbers in `OpenSSH_9.2p1`.
fn version(word: &str) -> Option<(u32, u32)> {
    let (major, rest) = word.strip_prefix("OpenSSH_")?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Checks a private key as ssh does: it must exist, be private, and be a valid key.
///
/// # Errors
///
/// What is wrong with it; [`KeyFault::Locked`] when it has a passphrase and must therefore be loaded in ssh-agent.
pub async fn inspect_key(key: &Path) -> Result<(), KeyFault> {
    files::check_key(key)?;
    let unusable = |why: &str| KeyFault::Unusable(why.to_owned());
    let args = ["-y", "-P", "", "-f"].map(OsString::from).into_iter().chain([key.into()]);
    let keygen = login::local(Path::new("ssh-keygen"), &args.collect::<Vec<_>>()).await;
    let output = keygen.map_err(|_| unusable("cannot run ssh-keygen to load it"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    match () {
        () if output.status.success() => Ok(()),
        () if error.contains("incorrect passphrase") => Err(KeyFault::Locked),
        () => {
            let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            Err(unusable(last.rsplit(": ").next().unwrap_or(last).trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("OpenSSH_9.2p1"), Some((9, 2)));
        assert_eq!(version("OpenSSH_10.0"), Some((10, 0)));
        assert!(
            version("OpenSSH_10.0p2") > Some(MIN_OPENSSH_VERSION)
                && version("OpenSSH_7.9p1") < Some(MIN_OPENSSH_VERSION)
        );
        assert_eq!(version("Dropbear v2022.83"), None);
        assert_eq!(version("OpenSSH_x.1"), None);
    }

    #[tokio::test]
    async fn old_versions_and_other_ssh_clients_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let of = async |text: &str| {
            let ssh = dir.path().join("ssh");
            std::fs::write(&ssh, format!("#!/bin/sh\necho '{text}' >&2\n")).unwrap();
            std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
            client_version(&ssh).await.map_err(|e| e.to_string())
        };
        assert_eq!(of("OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.11").await, Ok("OpenSSH_9.2p1".into()));
        assert!(of("OpenSSH_7.4p1, OpenSSL 1.0.2k").await.unwrap_err().contains("too old"));
        assert!(of("Dropbear v2022.83").await.unwrap_err().contains("is not OpenSSH"));
        let missing = client_version(&dir.path().join("none")).await.unwrap_err();
        assert!(matches!(missing, SshError::SshMissing { .. }), "{missing}");
    }

    #[tokio::test]
    async fn an_unusable_key_is_reported_with_the_cause() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, passphrase) in [("open", ""), ("locked", "secret")] {
            let args = ["-q", "-t", "ed25519", "-N", passphrase, "-f"];
            let made = std::process::Command::new("ssh-keygen").args(args).arg(at(name)).status();
            assert!(made.unwrap().success());
        }
        std::fs::write(at("text"), "no key").unwrap();
        std::fs::set_permissions(at("text"), std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(inspect_key(&at("open")).await, Ok(()));
        assert_eq!(inspect_key(&at("locked")).await, Err(KeyFault::Locked));
        assert_eq!(inspect_key(&at("none")).await, Err(KeyFault::Missing));
        assert!(matches!(inspect_key(&at("text")).await, Err(KeyFault::Unusable(_))));
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(inspect_key(&at("open")).await, Err(KeyFault::TooOpen(0o644)));
    }
}
