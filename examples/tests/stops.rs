//! SIGTERM while handlers run.

use std::time::{Duration, Instant};

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;

use crate::support::{CONTROLLER_CONCURRENCY, cluster, pod, start};

/// A program with three handlers that run for this long.
fn busy(cluster: &ControlPlane, namespace: &str, milliseconds: &str, args: &[&str]) -> Process {
    cluster.apply((0..5).map(|n| pod(namespace, &format!("pod-{n}"))));
    let program = start(CONTROLLER_CONCURRENCY, cluster, namespace, args, &[("SLEEP_MS", milliseconds)]);
    let active = "controller_runtime_active_workers{controller=\"controller-concurrency\"}";
    program.wait_for_metric(active, |active| active == 3.0);
    program
}

#[test]
fn sigterm_lets_running_handlers_end_and_starts_no_others() {
    let namespace = "sigterm";
    let Some(cluster) = cluster(namespace) else { return };
    let mut program = busy(cluster, namespace, "2000", &[]);
    assert_eq!(program.count(&["seen"]), 0);
    program.signal("TERM");
    program.wait_for_line(&[
        "SIGTERM: stopping; running handlers have 20s to end; a second signal ends the program at once",
    ]);
    assert_eq!(program.exit_code(), Some(0));
    assert_eq!(program.count(&["seen"]), 3, "{}", program.lines().join("\n"));
}

#[test]
fn sigint_has_the_same_effect_as_sigterm() {
    let namespace = "sigint";
    let Some(cluster) = cluster(namespace) else { return };
    let mut program = busy(cluster, namespace, "1000", &[]);
    program.signal("INT");
    program.wait_for_line(&["SIGINT: stopping"]);
    assert_eq!(program.exit_code(), Some(0));
    assert_eq!(program.count(&["seen"]), 3, "{}", program.lines().join("\n"));
}

#[test]
fn the_drain_timeout_aborts_handlers_that_do_not_end() {
    let namespace = "drain-timeout";
    let Some(cluster) = cluster(namespace) else { return };
    let mut program = busy(cluster, namespace, "600000", &["--drain-timeout", "1s"]);
    program.signal("TERM");
    program.wait_for_line(&["the drain time of 1s is over: the running handler calls are aborted", "calls=3"]);
    assert_eq!(program.exit_code(), Some(0));
    let ended = program.count(&["the handler was aborted: the drain time is over"]);
    assert_eq!(ended, 3, "{}", program.lines().join("\n"));
}

#[test]
fn a_second_sigterm_ends_it_at_once_with_143() {
    let namespace = "sigterm-twice";
    let Some(cluster) = cluster(namespace) else { return };
    let mut program = busy(cluster, namespace, "600000", &[]);
    program.signal("TERM");
    program.wait_for_line(&["SIGTERM: stopping"]);
    let second = Instant::now();
    program.signal("TERM");
    assert_eq!(program.exit_code(), Some(143), "{}", program.lines().join("\n"));
    assert!(second.elapsed() < Duration::from_secs(5), "it drained");
    program.wait_for_line(&["one more SIGTERM: ending at once"]);
}
