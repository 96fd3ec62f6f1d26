//! Status pages of two replicas with leader election.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;

use super::replica::cluster;
use super::terms::holder;

const READY: &str = "<b class=\"good\">ready";

/// A process with leader election and a status page.
fn replica(cluster: &ControlPlane, namespace: &str) -> Process {
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let switches = ["--leader-election", "on", "--status-page", "on", "--listen", "127.0.0.1:0"];
    let places = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--lease-namespace", namespace];
    Process::start(env!("CARGO_BIN_EXE_echo"), &[switches, places].concat(), &[])
}

#[test]
fn the_status_pages_of_two_replicas_name_the_leader_and_show_each_hand_over() {
    let (namespace, key) = ("leader-pages", "/status?q=leader-pages/work");
    let Some(cluster) = cluster(namespace) else { return };
    let holder = || holder(cluster, namespace, "echo-echo");
    let shows = |replica: &Process, page: &str, parts: &[&str]| drop(replica.wait_for_page(page, 200, parts));
    let leads = |replica: &Process, who: &str| {
        let leader = format!("<p>It is the leader as {who}.</p>");
        shows(replica, "/status", &[READY, " · <span class=\"good\">leader</span></small></h2>", &leader]);
        shows(replica, key, &["<td>leader-pages/work</td><td>it waits for a change"]);
    };
    let waits = |replica: &Process, who: &str| {
        let standby = format!("<p>standby: the lease is held by {who}</p>");
        shows(replica, "/status", &[READY, " · standby</small></h2>", &standby]);
        shows(replica, key, &["leader-pages/work is handled by the leader, which is another replica"]);
    };

    let first = replica(cluster, namespace);
    first.wait_for_line(&["handled work"]);
    let one = holder();
    let mut second = replica(cluster, namespace);
    leads(&first, &one);
    waits(&second, &one);

    // The leader hangs for longer than its lease.
    first.signal("STOP");
    second.wait_for_line(&["handled work"]);
    let other = holder();
    assert_ne!(one, other);
    leads(&second, &other);
    first.signal("CONT");
    waits(&first, &other);

    // The leader ends, and releases the Lease.
    second.terminate();
    leads(&first, &one);
    assert_eq!(holder(), one);
}
