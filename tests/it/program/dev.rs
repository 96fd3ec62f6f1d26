//! A program on an API server of its own has the permissions that it has in a cluster.

use kooper_tests::dev::Home;
use kooper_tests::process::Process;
use kooper_tests::wait::eventually;
use serde_json::json;

#[test]
fn what_no_rule_grants_is_forbidden() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "snoop");
    let dev = home.start(env!("CARGO_BIN_EXE_snoop"), &["--port", "0"]);
    dev.process.wait_for_line(&["runs as", "the service account default/snoop; permissions: those that `rbac` prints"]);
    dev.process.wait_for_line(&[
        "key=default/hello",
        "secrets is forbidden: User \"system:serviceaccount:default:snoop\" cannot list resource \"secrets\"",
    ]);
    assert_eq!(dev.process.count(&["it reads them"]), 0, "{}", dev.process.lines().join("\n"));
    dev.stop();
}

#[test]
fn every_rule_that_is_printed_is_granted() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "permissions");
    let dev = home.start(env!("CARGO_BIN_EXE_permissions"), &["--port", "0"]);
    dev.process.wait_for_line(&["Ctrl-C stops it"]);
    dev.process.wait_for_page("/metrics", 200, &[]);
    assert_eq!(dev.process.count(&["is forbidden"]), 0, "{}", dev.process.lines().join("\n"));
    dev.stop();
}

#[test]
fn every_crd_is_installed_and_each_kind_begins_with_the_least_object() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "crd-shops");
    let dev = home.start(env!("CARGO_BIN_EXE_crd_shops"), &["--port", "0"]);
    dev.process.wait_for_line(&["  objects      shop/hello  stall/hello"]);
    for controller in ["shops", "stalls"] {
        dev.process.wait_for_line(&[&format!("controller={controller} "), "seen name=\"hello\""]);
    }
    dev.process.wait_for_page("/readyz", 200, &["ok"]);
    dev.stop();
}

#[test]
fn the_proxy_of_the_environment_is_not_used_for_a_server_on_loopback() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "behind-a-proxy");
    let state = home.path().to_str().expect("the path is UTF-8");
    let variables = [("XDG_STATE_HOME", state), ("HTTPS_PROXY", "http://127.0.0.1:9")];
    let mut dev = Process::start(env!("CARGO_BIN_EXE_crd_shops"), &["dev", "--port", "0"], &variables);
    dev.wait_for_line(&["  objects      shop/hello  stall/hello"]);
    dev.wait_for_page("/readyz", 200, &["ok"]);
    dev.signal("INT");
    assert_eq!(dev.exit_code(), Some(0), "{}", dev.lines().join("\n"));
}

#[test]
fn the_webhooks_of_a_program_are_called_with_its_own_permissions() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "guarded");
    let dev = home.start(env!("CARGO_BIN_EXE_guarded"), &["--port", "0"]);
    dev.process
        .wait_for_line(&["runs as", "the service account default/guarded; permissions: those that `rbac` prints"]);
    let shop = |name: &str, seats: i32| {
        let metadata = json!({"name": name, "namespace": "default"});
        json!({"apiVersion": "guarded.example.com/v1", "kind": "Shop", "metadata": metadata, "spec": {"seats": seats}})
    };
    dev.process.wait_for_page("/readyz", 200, &["ok"]);
    // A webhook that is registered with `Ignore` already guards.
    eventually("a shop is filled", || {
        dev.apply(&shop("filled", 1));
        let filled = dev.get(&shop("filled", 1)).is_some_and(|shop| shop["spec"]["flavour"] == "vanilla");
        if !filled {
            dev.delete(&shop("filled", 1));
        }
        filled
    });
    let file = home.file("bad.json", &shop("bad", -1).to_string());
    if let Some(output) = dev.kubectl(&["create", "-f", &file]) {
        assert!(!output.success && output.stderr.contains("spec.seats: must not be negative"), "{}", output.stderr);
    }
    assert_eq!(dev.get(&shop("bad", -1)), None);
    assert_eq!(dev.process.count(&["is forbidden"]), 0, "{}", dev.process.lines().join("\n"));
    dev.stop();
}
