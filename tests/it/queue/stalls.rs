//! Functions that block their threads, in a program with an election, a finalizer, children and Events, on a machine
//! with one core and on one with two.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::process::Process;
use kooper_tests::wait::until;
use serde_json::{Value, json};

/// The first cores of those that this process may use, as `taskset` takes them.
fn cores(count: usize) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let all = allowed.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    all.take(count).map(|core| core.to_string()).collect::<Vec<_>>().join(",")
}

/// The program on this many cores. Its functions never cease to block: nothing of what follows is because one has ended.
fn command(kubeconfig: &Path, namespace: &str, count: usize) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cores(count), env!("CARGO_BIN_EXE_stalls"), "--kubeconfig"]).arg(kubeconfig);
    command.args(["--namespace", namespace, "--lease-namespace", namespace, "--listen", "127.0.0.1:0"]);
    command.args(["--drain-timeout", "1s"]);
    command
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name, "labels": {"stalls": "yes"}});
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
}

/// The Lease is renewed for longer than it lasts.
fn wait_for_renewals(program: &Process) {
    const RENEWALS: &str = "kooper_lease_renew_duration_seconds_count{controller=\"stalls\"}";
    let before = program.metric(RENEWALS).unwrap();
    program.wait_for_metric(RENEWALS, |renewals| renewals >= before + 5.0);
    assert_eq!(program.count(&["leadership lost"]), 0);
}

fn blocked_functions_delay_nothing_else(count: usize) {
    let namespace = format!("stalls-{count}");
    let Some(cluster) = ControlPlane::shared_in(&namespace, []) else { return };
    let config = |name: &str| object("ConfigMap", &namespace, name);
    let mut program = Process::run(&mut command(cluster.kubeconfig(), &namespace, count));
    program.wait_for_line(&["acquired leadership"]);

    cluster.apply([config("handler-1")]);
    program.wait_for_line(&["handler-1 blocks"]);
    let others: Vec<_> = (0..10).map(|number| format!("other-{number}")).collect();
    cluster.apply(others.iter().map(|name| config(name)));
    for name in &others {
        program.wait_for_line(&[&format!("{name} is handled")]);
    }
    let children: Vec<_> = others.iter().map(|name| format!("{name}-child")).collect();
    let get = ["--namespace", &namespace, "get", "configmap"].into_iter();
    cluster.must(&get.chain(children.iter().map(String::as_str)).collect::<Vec<_>>());
    cluster.must(&["--namespace", &namespace, "delete", "configmap", "other-0"]);
    program.wait_for_line(&["other-0 is cleaned up"]);

    // Every worker is blocked, and every way into the queue.
    cluster.apply([config("handler-2")]);
    program.wait_for_line(&["handler-2 blocks"]);
    program.wait_for_page("/readyz?verbose", 200, &["stalls: 2 handler calls are stuck"]);
    assert_eq!(program.metric("kooper_stuck_calls{controller=\"stalls\"}"), Some(2.0));
    cluster.apply([config("filter"), object("Secret", &namespace, "map")]);
    program.wait_for_line(&["filter blocks"]);
    program.wait_for_line(&["map blocks"]);
    wait_for_renewals(&program);

    program.terminate();
    program.wait_for_line(&["INFO", "stopped"]);
    assert_eq!(program.count(&["cannot drain"]), 0);
}

#[test]
fn functions_that_block_their_threads_delay_nothing_else_on_one_core() {
    blocked_functions_delay_nothing_else(1);
}

#[test]
fn functions_that_block_their_threads_delay_nothing_else_on_two_cores() {
    blocked_functions_delay_nothing_else(2);
}

#[test]
fn a_panic_is_printed_once_however_often_the_call_is_retried() {
    let namespace = "stalls-panics";
    let configs = ["panic-1", "panic-2"].map(|name| object("ConfigMap", namespace, name));
    let Some(cluster) = ControlPlane::shared_in(namespace, configs) else { return };
    let program = Process::run(&mut command(cluster.kubeconfig(), namespace, 2));
    program.wait_for_metric("controller_runtime_reconcile_panics_total{controller=\"stalls\"}", |panics| panics >= 6.0);
    assert_eq!(program.count(&["panicked at tests/programs/stalls/main.rs"]), 1);
    for name in ["panic-1", "panic-2"] {
        program.wait_for_line(&["ERROR", &format!("/{name} "), "the handler panicked: as the test requests"]);
    }
}

#[test]
fn no_blocked_handler_runs_beside_those_of_the_next_leader() {
    let namespace = "stalls-leaders";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let proxy = Proxy::start(cluster.address());
    let (direct, proxied) = (cluster.address().to_string(), proxy.address().to_string());
    let through_proxy = cluster.kubeconfig_with(namespace, |text| text.replace(&direct, &proxied));
    let beats = cluster.dir().join("stalls-beats");
    let start = |name: &str, kubeconfig: &Path| {
        let mut command = command(kubeconfig, namespace, 1);
        Process::run(command.env("STALLS_NAME", name).env("STALLS_BEATS", &beats))
    };
    let mut first = start("first", &through_proxy);
    first.wait_for_line(&["acquired leadership"]);
    let others = ["second", "third"].map(|name| start(name, cluster.kubeconfig()));
    for other in &others {
        other.wait_for_page("/readyz?verbose", 200, &["standby"]);
    }
    let names = ["handler-1", "handler-2"];
    cluster.apply(names.map(|name| object("ConfigMap", namespace, name)));
    for name in names {
        first.wait_for_line(&[&format!("{name} blocks")]);
    }
    // Every worker is blocked, and the Lease is renewed.
    wait_for_renewals(&first);

    proxy.shut();
    let blocks = |process: &Process| names.iter().all(|name| process.count(&[&format!("{name} blocks")]) == 1);
    until("another replica leads", || others.iter().any(blocks).then_some(()), || first.lines().join("\n"));
    assert_eq!(first.exit_code(), Some(1), "{}", first.lines().join("\n"));
    first.wait_for_line(&["leadership lost: the lease could not be renewed in time: "]);
    first.wait_for_line(&["ERROR", "controller=\"stalls\"", "a handler still runs at the end of its term"]);
    let beats = std::fs::read_to_string(&beats).unwrap();
    let mut turns: Vec<&str> = beats.lines().collect();
    turns.dedup();
    assert!(matches!(turns[..], ["first", "second" | "third"]), "{turns:?}");
}
