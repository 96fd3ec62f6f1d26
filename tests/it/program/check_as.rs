//! `check --as`: the permissions of a service account, without its token.

use kooper_tests::control_plane::ControlPlane;

use crate::program::dry_run::{call, cluster};

const FLAGS: [&str; 2] = ["--namespace", "trade"];

fn check(cluster: &ControlPlane, account: &str) -> (Option<i32>, String, String) {
    call(cluster.kubeconfig(), &[&["check", "--as", account], &FLAGS[..]].concat())
}

#[test]
fn the_permissions_of_a_service_account_are_checked() {
    let Some(cluster) = cluster() else { return };
    let (code, stdout, log) = check(&cluster, "trade/rehearsed");
    assert_eq!(code, Some(1), "{stdout}{log}");
    assert!(stdout.contains("missing  service account trade/rehearsed: it does not exist: "), "{stdout}{log}");
    assert!(stdout.contains("missing  access secrets: "), "{stdout}{log}");

    let (_, roles, _) = call(cluster.kubeconfig(), &[&["rbac", "--install-namespace", "trade"], &FLAGS[..]].concat());
    cluster.apply_text(&["--validate=false"], &roles);
    for account in ["trade/rehearsed", "system:serviceaccount:trade:rehearsed"] {
        let (code, stdout, log) = check(&cluster, account);
        assert_eq!(code, Some(0), "{stdout}{log}");
        assert!(stdout.contains("ok       service account trade/rehearsed\n"), "{stdout}");
        // The account may not read it, and this user may.
        assert!(stdout.contains("ok       namespace trade\n"), "{stdout}");
    }
    let (code, stdout, log) =
        call(cluster.kubeconfig(), &["check", "--as", "nowhere/rehearsed", "--namespace", "trade"]);
    assert_eq!(code, Some(1), "{stdout}{log}");
    assert!(stdout.contains("missing  namespace nowhere: it does not exist: "), "{stdout}");
    cluster.must(&["-n", "trade", "delete", "rolebinding", "rehearsed"]);
    let (code, stdout, log) = check(&cluster, "trade/rehearsed");
    assert_eq!(code, Some(1), "{stdout}{log}");
    assert!(stdout.contains("to the Role `rehearsed` in namespace `trade`"), "{stdout}");

    // A user that may not act as another one.
    let flags = [&["check", "--as", "trade/rehearsed"], &FLAGS[..]].concat();
    let (code, stdout, log) = call(cluster.limited_kubeconfig(), &flags);
    assert_eq!(code, Some(1), "{stdout}{log}");
    assert!(
        stdout.starts_with("missing  connection: this user may not act as the service account trade/rehearsed ("),
        "{stdout}{log}"
    );
    assert!(stdout.contains("grant it the verb `impersonate` on the ServiceAccount `rehearsed`"), "{stdout}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");

    for wrong in ["rehearsed", "trade/", "/rehearsed", "system:serviceaccount:trade", "a/b/c"] {
        let (code, _, log) = check(&cluster, wrong);
        assert_eq!(code, Some(2), "{wrong}: {log}");
    }
}
