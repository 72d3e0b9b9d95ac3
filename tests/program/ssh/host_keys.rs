//! Host keys that have changed, and host keys that the administrator manages.

use super::failure;
use crate::sshd::Sshd;
use marin_tui::model::{ProblemKind, Timestamp};
use marin_tui::ssh::{self, SshError, Tunnel, TunnelSpec};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The known and the offered fingerprint of a changed host key.
async fn changed_key(spec: TunnelSpec) -> (String, String) {
    match failure(spec).await.problem(Timestamp::default()).kind {
        ProblemKind::HostKeyChanged { known, offered } => (known, offered),
        kind => panic!("{kind:?}"),
    }
}

#[tokio::test]
async fn a_changed_host_key_is_refused_and_only_the_accepted_one_is_trusted() {
    let mut sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    let known = sshd_dir.spec(0).known_hosts;
    fs::create_dir(known.parent().unwrap()).unwrap();
    fs::write(
        &known,
        "elsewhere ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEIlsIEBE5J7BgyYdNVd1nGnhg3RAQ58uxzBYWYX/4n2\n",
    )
    .unwrap();
    let opened = Tunnel::open(sshd.spec()).await.unwrap();
    let first = sshd_dir.fingerprint("host_key.pub");
    assert_eq!(
        opened.first_contact(),
        Some(first.as_str()),
        "the fingerprint is reported on the first connection"
    );
    assert_eq!(Tunnel::open(sshd.spec()).await.unwrap().first_contact(), None, "and only on the first");
    drop(opened);

    sshd_dir.keygen("host_key", "ed25519", "");
    sshd.restart();
    let second = sshd_dir.fingerprint("host_key.pub");
    assert_eq!(changed_key(sshd.spec()).await, (first.clone(), second.clone()));

    // The key changes once more while the user decides: the confirmation does not apply to this one.
    sshd_dir.keygen("host_key", "ed25519", "");
    sshd.restart();
    let third = sshd_dir.fingerprint("host_key.pub");
    let error = ssh::trust(&sshd.spec(), &second).await.unwrap_err();
    assert!(
        matches!(&error, SshError::HostKeyChanged { known, offered, .. } if *known == second && *offered == third)
    );
    assert_eq!(changed_key(sshd.spec()).await, (first, third.clone()), "known_hosts is unchanged");

    ssh::trust(&sshd.spec(), &third).await.unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
    let on_file = fs::read_to_string(&known).unwrap();
    assert_eq!(on_file.lines().count(), 2, "only the old key of this host is removed: {on_file}");
    assert!(on_file.starts_with("elsewhere "), "{on_file}");
    let names: Vec<_> =
        fs::read_dir(known.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["known_hosts"], "no temporary files are left");
    assert_eq!(fs::metadata(&known).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_known_host_with_a_key_of_another_type_is_a_changed_host() {
    let mut sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    Tunnel::open(sshd.spec()).await.unwrap();
    let first = sshd_dir.fingerprint("host_key.pub");
    sshd_dir.keygen("host_key", "ecdsa", "");
    sshd.restart();
    let second = sshd_dir.fingerprint("host_key.pub");
    assert_eq!(changed_key(sshd.spec()).await, (first, second.clone()));
    ssh::trust(&sshd.spec(), &second).await.unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
}

#[tokio::test]
async fn a_host_with_a_host_key_alias_is_not_compared_with_the_key_of_its_address() {
    let mut sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    Tunnel::open(sshd.spec()).await.unwrap();
    let known = sshd.spec().known_hosts;
    assert!(fs::read_to_string(&known).unwrap().starts_with("[127.0.0.1]:"), "recorded under its address");

    // Another machine now has the address, and the user's own configuration has an alias for it.
    sshd_dir.keygen("host_key", "ed25519", "");
    sshd.restart();
    fs::write(sshd_dir.path("ssh_config"), "Host *\n  HostKeyAlias the-head\n").unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
    assert!(fs::read_to_string(&known).unwrap().contains("\nthe-head "));

    // From now on it is known under that name.
    let first = sshd_dir.fingerprint("host_key.pub");
    sshd_dir.keygen("host_key", "ed25519", "");
    sshd.restart();
    assert_eq!(changed_key(sshd.spec()).await, (first, sshd_dir.fingerprint("host_key.pub")));
}

#[tokio::test]
async fn a_host_key_in_the_global_file_is_not_replaced() {
    let sshd = Sshd::start("");
    let sshd_dir = sshd.dir();
    sshd_dir.keygen("other", "ed25519", "");
    let other = fs::read_to_string(sshd_dir.path("other.pub")).unwrap();
    let global = sshd_dir.path("ssh_known_hosts");
    fs::write(&global, format!("[127.0.0.1]:{} {other}", sshd.port)).unwrap();
    fs::write(sshd_dir.path("ssh_config"), format!("GlobalKnownHostsFile {}\n", global.display())).unwrap();
    let problem = failure(sshd.spec()).await.problem(Timestamp::default());
    assert_eq!(problem.kind, ProblemKind::Other);
    assert!(problem.hint.to_string().contains("ssh_known_hosts"), "{problem:?}");
}
