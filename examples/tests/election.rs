//! Two replicas of one program, as processes: who writes when, as the API server's audit log shows.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;
use serde_json::{Value, json};

use crate::support::{LEADER_ELECTION, cluster};

const LEASE: Duration = Duration::from_secs(6);

/// A loaded machine is slow.
const HEAD_ROOM: Duration = Duration::from_secs(5);

/// The replicas connect as these, so that the audit log tells them apart.
const ADMIN: &str = "admin";
const LIMITED: &str = "limited";

fn replica(cluster: &ControlPlane, namespace: &str, user: &str) -> Process {
    let kubeconfig = if user == ADMIN { cluster.kubeconfig() } else { cluster.limited_kubeconfig() };
    let kubeconfig = kubeconfig.to_str().expect("the path is UTF-8");
    let common = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--lease-namespace", namespace];
    // Each object is written all the time.
    let args = ["--listen", "127.0.0.1:0", "--resync", "100ms"];
    Process::start(LEADER_ELECTION, &[&common[..], &args].concat(), &[])
}

/// Lets the user `limited` do what the program says that it needs.
fn grant(cluster: &ControlPlane, namespace: &str) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"namespace": namespace, "name": "leader-election"});
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let mut lease = rule("coordination.k8s.io", "leases", &["get", "create", "update", "watch"]);
    lease["resourceNames"] = json!(["leader-election-leader-election"]);
    cluster.apply([
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [lease, rule("", "configmaps", &["list", "watch", "patch"])]
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "leader-election"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": LIMITED}]
        }),
    ]);
}

/// A write of a replica: by whom, when the server got it and when it was done, in microseconds.
#[derive(Debug)]
struct Write {
    user: String,
    begun: i64,
    done: i64,
}

/// The writes of the replicas to one resource, in order.
fn writes(cluster: &ControlPlane, namespace: &str, resource: &str) -> Vec<Write> {
    let time = |event: &Value, field: &str| {
        let time = event[field].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        time.expect("an audit event has its times").as_microsecond()
    };
    let log = cluster.audit_log();
    let ours = log.iter().filter(|event| {
        let (object, by) = (&event["objectRef"], event["userAgent"].as_str().unwrap_or_default());
        object["namespace"] == namespace
            && object["resource"] == resource
            && ["create", "update", "patch"].iter().any(|verb| event["verb"] == *verb)
            && event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300)
            && !by.contains("kubectl")
            && !by.contains("kube-controller-manager")
    });
    let mut writes: Vec<Write> = ours
        .map(|event| Write {
            user: event["user"]["username"].as_str().unwrap_or_default().to_owned(),
            begun: time(event, "requestReceivedTimestamp"),
            done: time(event, "stageTimestamp"),
        })
        .collect();
    writes.sort_by_key(|write| write.begun);
    writes
}

/// One after the other, what each user wrote before another one did.
fn terms(writes: &[Write]) -> Vec<&[Write]> {
    writes.chunk_by(|one, next| one.user == next.user).collect()
}

#[test]
fn a_standby_takes_over_from_a_leader_that_stops_and_from_one_that_is_killed() {
    let namespace = "leader-election";
    let Some(cluster) = cluster(namespace) else { return };
    grant(cluster, namespace);
    for name in ["a", "b", "c"] {
        cluster.must(&["create", "configmap", name, "--namespace", namespace]);
    }
    let first = replica(cluster, namespace, ADMIN);
    first.wait_for_line(&["this process leads"]);
    first.wait_for_lines(20, &["handled"]);
    let second = replica(cluster, namespace, LIMITED);
    second.wait_for_line(&["standby: the lease is held by "]);
    second.wait_for_page("/readyz", 200, &["leader-election: standby: the lease is held by "]);
    assert_eq!(second.metric("leader_election_master_status{name=\"leader-election-leader-election\"}"), Some(0.0));

    crate::support::stop(first);
    second.wait_for_line(&["this process leads"]);
    second.wait_for_lines(20, &["handled"]);
    let third = replica(cluster, namespace, ADMIN);
    third.wait_for_line(&["standby: the lease is held by "]);

    second.signal("KILL");
    third.wait_for_line(&["this process leads"]);
    third.wait_for_lines(20, &["handled"]);
    crate::support::stop(third);

    let (leases, configs) = (writes(cluster, namespace, "leases"), writes(cluster, namespace, "configmaps"));
    let (leases, configs) = (terms(&leases), terms(&configs));
    let user = |term: &&[Write]| term[0].user.clone();
    assert_eq!(leases.iter().map(user).collect::<Vec<_>>(), configs.iter().map(user).collect::<Vec<_>>());
    let [released, followed, last] = &leases[..] else { panic!("three terms: {leases:?}") };
    for [before, after] in configs.windows(2).filter_map(|pair| <&[&[Write]; 2]>::try_from(pair).ok()) {
        let done = before.iter().map(|write| write.done).max();
        assert!(done < Some(after[0].begun), "what one writes is done before another one begins");
    }

    let end = |term: &[Write]| term.last().map_or(0, |write| write.done);
    let took = Duration::from_micros((followed[0].done - end(released)).try_into().unwrap_or_default());
    let crashed = Duration::from_micros((last[0].done - end(followed)).try_into().unwrap_or_default());
    println!("taken {took:?} after the release; {crashed:?} after the last renewal of a leader that was killed");
    assert!(took < LEASE / 2, "the release was noticed, not waited out: {took:?}");
    let waited = last[0].done - followed.last().map_or(0, |write| write.begun);
    assert!(waited >= LEASE.as_micros() as i64, "the lease of a leader that may live was respected: {waited} µs");
    assert!(crashed <= LEASE + Duration::from_secs(1) + HEAD_ROOM, "{crashed:?}");
}
