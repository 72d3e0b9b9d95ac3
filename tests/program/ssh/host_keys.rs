//! Host keys that have changed, or that others keep.

use super::failure;
use crate::sshd::Sshd;
use marin_tui::model::{ProblemKind, Timestamp};
use marin_tui::ssh::{self, SshError, Tunnel, TunnelSpec};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The problem of a changed host key: (known, offered).
async fn changed_key(spec: TunnelSpec) -> (String, String) {
    match failure(spec).await.problem(Timestamp::default()).kind {
        ProblemKind::HostKeyChanged { known, offered } => (known, offered),
        kind => panic!("{kind:?}"),
    }
}

#[tokio::test]
async fn a_changed_host_key_is_asked_about_and_only_the_accepted_one_is_trusted() {
    let mut sshd = Sshd::start("");
    let place = sshd.place();
    let known = place.spec(0).known_hosts;
    fs::create_dir(known.parent().unwrap()).unwrap();
    fs::write(
        &known,
        "elsewhere ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEIlsIEBE5J7BgyYdNVd1nGnhg3RAQ58uxzBYWYX/4n2\n",
    )
    .unwrap();
    let opened = Tunnel::open(sshd.spec()).await.unwrap();
    let first = place.fingerprint("host_key.pub");
    assert_eq!(opened.first_contact(), Some(first.as_str()), "a person can compare it once");
    assert_eq!(Tunnel::open(sshd.spec()).await.unwrap().first_contact(), None, "and only once");
    drop(opened);

    place.keygen("host_key", "ed25519", "");
    sshd.restart();
    let second = place.fingerprint("host_key.pub");
    assert_eq!(changed_key(sshd.spec()).await, (first.clone(), second.clone()));

    // While the person thinks about it the key changes once more: their "yes" is not for this one.
    place.keygen("host_key", "ed25519", "");
    sshd.restart();
    let third = place.fingerprint("host_key.pub");
    let error = ssh::trust(&sshd.spec(), &second).await.unwrap_err();
    assert!(
        matches!(&error, SshError::HostKeyChanged { known, offered, .. } if *known == second && *offered == third)
    );
    assert_eq!(changed_key(sshd.spec()).await, (first, third.clone()), "nothing was put on file");

    ssh::trust(&sshd.spec(), &third).await.unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
    let on_file = fs::read_to_string(&known).unwrap();
    assert_eq!(on_file.lines().count(), 2, "the old key is gone, the neighbour's is not: {on_file}");
    assert!(on_file.starts_with("elsewhere "), "{on_file}");
    let names: Vec<_> =
        fs::read_dir(known.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["known_hosts"], "no drafts are left");
    assert_eq!(fs::metadata(&known).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_known_host_with_a_key_of_another_type_is_a_changed_host() {
    let mut sshd = Sshd::start("");
    let place = sshd.place();
    Tunnel::open(sshd.spec()).await.unwrap();
    let first = place.fingerprint("host_key.pub");
    place.keygen("host_key", "ecdsa", "");
    sshd.restart();
    let second = place.fingerprint("host_key.pub");
    assert_eq!(changed_key(sshd.spec()).await, (first, second.clone()));
    ssh::trust(&sshd.spec(), &second).await.unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
}

#[tokio::test]
async fn a_host_that_ssh_files_under_another_name_is_not_taken_for_the_listed_one() {
    let mut sshd = Sshd::start("");
    let place = sshd.place();
    Tunnel::open(sshd.spec()).await.unwrap();
    let known = sshd.spec().known_hosts;
    assert!(fs::read_to_string(&known).unwrap().starts_with("[127.0.0.1]:"), "listed under its address");

    // Another machine has the address now, and the person's own configuration has a name for it.
    place.keygen("host_key", "ed25519", "");
    sshd.restart();
    fs::write(place.path("ssh_config"), "Host *\n  HostKeyAlias the-head\n").unwrap();
    Tunnel::open(sshd.spec()).await.unwrap();
    assert!(fs::read_to_string(&known).unwrap().contains("\nthe-head "));

    // Under that name it is known from now on.
    let first = place.fingerprint("host_key.pub");
    place.keygen("host_key", "ed25519", "");
    sshd.restart();
    assert_eq!(changed_key(sshd.spec()).await, (first, place.fingerprint("host_key.pub")));
}

#[tokio::test]
async fn a_key_that_the_administrator_keeps_is_not_ours_to_replace() {
    let sshd = Sshd::start("");
    let place = sshd.place();
    place.keygen("other", "ed25519", "");
    let other = fs::read_to_string(place.path("other.pub")).unwrap();
    let global = place.path("ssh_known_hosts");
    fs::write(&global, format!("[127.0.0.1]:{} {other}", sshd.port)).unwrap();
    fs::write(place.path("ssh_config"), format!("GlobalKnownHostsFile {}\n", global.display())).unwrap();
    let problem = failure(sshd.spec()).await.problem(Timestamp::default());
    assert_eq!(problem.kind, ProblemKind::Other);
    assert!(problem.hint.to_string().contains("ssh_known_hosts"), "{problem:?}");
}
