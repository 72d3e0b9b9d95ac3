//! A head that comes back with another host key: commands refuse it until its fingerprint is given.

use crate::cloud_fixture::CloudFixture;

#[test]
fn a_command_accepts_a_changed_host_key_only_by_its_fingerprint() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let (code, _, said) = fixture.run("list-jobs");
    assert_eq!(code, Some(0), "{said}");
    // Another machine has its address.
    fixture.head();
    fixture.double.state().instances.remove(0);
    let (code, _, said) = fixture.run("list-jobs");
    assert!(code == Some(1) && said.contains("host key"), "{said}");
    let option =
        said.split("--accept-host-key ").nth(1).unwrap_or_else(|| panic!("no option is offered: {said}"));
    let offered = option.split('`').next().unwrap();
    let wrong = format!("--accept-host-key SHA256:{} list-jobs", "A".repeat(43));
    let (code, _, said) = fixture.run(&wrong);
    assert!(code == Some(1) && said.contains(offered), "{said}");
    let (code, _, said) = fixture.run(&format!("--accept-host-key {offered} stop-cluster --dry-run"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("accepted {offered}")), "{said}");
    let (code, _, said) = fixture.run("list-jobs");
    assert_eq!(code, Some(0), "{said}");
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains("changed host key of") && log.contains(offered), "{log}");
}
