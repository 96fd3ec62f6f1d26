//! Secrets are not shown anywhere: at no level of the log, in metrics, in Events, by probes or in errors.

use std::fs;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::https;
use kooper_tests::process::Process;
use kooper_tests::wait::eventually;
use serde_json::{Value, json};

/// The value in everything that may be secret, as a string and as a number.
const CANARY: &str = "canary-7f3a91";
const NUMBER: u64 = 917_331_733_917;

/// The value of a secret setting.
const CODE: &str = "code-55b0c2";

fn assert_secret(what: &str, text: &str, token: &str) {
    let hit = |line: &&str| {
        let mut canaries = [CANARY, "Y2FuYXJ5", CODE, token].into_iter();
        canaries.any(|canary| line.contains(canary)) || line.contains(&NUMBER.to_string())
    };
    let hits: Vec<_> = text.lines().filter(hit).collect();
    assert!(hits.is_empty(), "{what} shows a secret:\n{}", hits.join("\n"));
}

fn vault(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "canary.example.com/v1", "kind": "Vault",
        "metadata": {"namespace": "canary", "name": name, "annotations": {"note": CANARY}, "labels": {"note": CANARY}},
        "spec": spec, "status": {"note": CANARY}
    })
}

/// The token of a kubeconfig's user.
fn token(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: "));
    line.expect("the user has a token").to_owned()
}

/// A kubeconfig like the cluster's, whose user has an exec plugin, with canaries in all other fields.
fn kubeconfig(cluster: &ControlPlane, name: &str, output: &str) -> String {
    let plugin = cluster.dir().join(format!("{name}.output"));
    fs::write(&plugin, output).expect("the folder can be written to");
    let plugin = plugin.to_str().expect("the path is UTF-8").to_owned();
    let file = cluster.kubeconfig_with(name, |text| {
        let exec = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, \
             args: ['-c', 'cat \"$0\"; echo {CANARY} >&2', '{plugin}', '{CANARY}'], \
             env: [{{name: NOTE, value: {CANARY}}}]}}"
        );
        let others = format!(
            "  - name: other\n    user: {{token: {CANARY}, username: {CANARY}, password: {CANARY}, tokenFile: /{CANARY}, \
             client-certificate: {CANARY}, client-key: {CANARY}, client-key-data: {CANARY}}}\n"
        );
        let text = text.replace(&format!("token: {}", token(&text)), &exec);
        text.replace("users:\n", &format!("users:\n{others}"))
    });
    file.to_str().expect("the path is UTF-8").to_owned()
}

fn start(kubeconfig: &str, more: &[&str]) -> Process {
    let flags = ["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--namespace", "canary", "--status-page", "on"];
    Process::start(env!("CARGO_BIN_EXE_canary"), &[&flags[..], &["--log-level", "trace"], more].concat(), &[])
}

#[test]
fn no_output_contains_a_secret() {
    let Some(cluster) = ControlPlane::shared_in("canary", []) else { return };
    let lax = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    cluster.apply([json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "vaults.canary.example.com"},
        "spec": {
            "group": "canary.example.com", "scope": "Namespaced",
            "names": {"plural": "vaults", "singular": "vault", "kind": "Vault"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": lax}}]
        }
    })]);
    cluster.must(&["wait", "--for=condition=established", "crd/vaults.canary.example.com", "--timeout=60s"]);
    cluster.must(&["-n", "canary", "create", "secret", "generic", "keys", &format!("--from-literal=key={CANARY}")]);
    cluster.apply([
        vault("good", &json!({"code": 7, "note": CANARY, "number": NUMBER})),
        vault("misread", &json!({})),
        vault("large", &json!({"code": NUMBER})),
        vault("text", &json!({"code": CANARY})),
        vault("door", &json!({"door": CANARY})),
        vault("flat", &json!(CANARY)),
        vault("locked", &json!({})),
        vault("panics", &json!({})),
    ]);
    let code = cluster.dir().join("canary-code");
    fs::write(&code, CODE).expect("the folder can be written to");
    let code = code.to_str().expect("the path is UTF-8");

    let token = token(&fs::read_to_string(cluster.kubeconfig()).expect("the kubeconfig can be read"));
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "note": CANARY,
        "status": {"token": token, "expirationTimestamp": "2099-01-01T00:00:00Z", "note": CANARY}
    });
    let program = start(&kubeconfig(cluster, "canary", &credential.to_string()), &["--code-file", code]);
    program.wait_for_line(&["good is guarded"]);
    for parts in [
        ["object canary/large is not a valid Vault: spec.code: expected u8, found a number out of its range", ""],
        ["object canary/text is not a valid Vault: spec.code: expected u8, found a string", ""],
        ["object canary/door is not a valid Vault: spec", "expected a value that the type accepts, found a "],
        ["object canary/flat is not a valid Vault: spec: expected a map, found a string", ""],
        ["the API server's response does not match the requested type", "misread"],
        ["[redacted] opens https://[redacted]@vaults", "code=\"[redacted]\""],
        ["cannot open it with [redacted] at https://[redacted]@vaults: for the log: [redacted]; ", "locked"],
        ["panic: for the log: [redacted]", "main.rs:"],
        ["the handler panicked: for the log: [redacted]; ", "panics"],
    ] {
        program.wait_for_line(&parts);
    }
    let events = || cluster.must(&["-n", "canary", "get", "events.events.k8s.io", "--output", "json"]);
    eventually("an Event of each bad object", || {
        let events = events();
        ["large", "text", "door", "flat"]
            .iter()
            .all(|name| events.contains(&format!("canary/{name} is not a valid Vault")))
    });
    // Everyone who may view the namespace can read them.
    for said in [
        "[redacted] opens https://[redacted]@vaults",
        "the handler failed: cannot open it with [redacted] at https://[redacted]@vaults. Attempt ",
        "the handler panicked at tests/programs/canary/main.rs:",
    ] {
        eventually(said, || events().contains(said));
    }
    assert!(!events().contains("for the log"), "{}", events());
    for page in ["/metrics", "/readyz", "/readyz?verbose", "/healthz"] {
        let (_, body) = program.get(page).expect("it is served");
        assert_secret(page, &body, &token);
    }
    // The status page has the errors.
    for query in ["", "?q=large", "?q=canary/misread", "?q=canary/locked", "?q=canary/panics"] {
        let page = format!("/status{query}");
        let (_, body) = program.get(&page).expect("it is served");
        assert!(body.contains("<td class=\"bad\">"), "{page}: {body}");
        assert_secret(&page, &body, &token);
    }
    assert_secret("an Event", &events(), &token);
    let lines = program.lines();
    assert!(lines.iter().any(|line| line.contains(" TRACE ")) && lines.len() > 100, "the log has every level");
    assert_secret("the log", &lines.join("\n"), &token);
}

#[test]
fn tokens_of_clients_are_not_shown() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let kubeconfig = cluster.kubeconfig().to_str().expect("the path is UTF-8");
    let token = token(&fs::read_to_string(cluster.kubeconfig()).expect("the kubeconfig can be read"));
    let program = start(kubeconfig, &["--metrics-auth", "token", "--listen-probes", "127.0.0.1:0"]);
    // "any:canary-7f3a91" as Basic sends it.
    let basic = "Basic YW55OmNhbmFyeS03ZjNhOTE=";
    for (value, status) in
        [(format!("Bearer {CANARY}"), 401), (basic.to_owned(), 401), (format!("Bearer {token}"), 200)]
    {
        let response = https::get(program.address(), "/status", Some(&value)).expect("a response");
        assert_eq!(response.status, status, "{response:?}");
        assert_secret("the response", &format!("{response:?}"), &token);
    }
    let log = program.lines().join("\n");
    assert!(log.contains(" TRACE "), "the log has every level");
    assert_secret("the log", &log, &token);
    assert!(!log.contains("YW55OmNhbmFyeS03ZjNhOTE"), "{log}");
}

#[test]
fn the_output_of_a_failed_exec_plugin_is_not_shown() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let status = |status: Value| json!({"apiVersion": "client.authentication.k8s.io/v1", "status": status}).to_string();
    for (name, output, said) in [
        ("no-json", format!("{{\"status\": {CANARY}: ["), "printed no ExecCredential"),
        ("no-map", format!("[{CANARY}]"), "printed no ExecCredential"),
        ("no-token", status(json!({"token": [CANARY, NUMBER]})), "printed no ExecCredential"),
        ("no-date", status(json!({"token": CANARY, "expirationTimestamp": CANARY})), "RFC 3339"),
        (
            "no-header",
            status(json!({"token": format!("{CANARY}\n{CANARY}"), "expirationTimestamp": "2099-01-01T00:00:00Z"})),
            "not allowed in a header",
        ),
        ("no-pem", status(json!({"clientCertificateData": CANARY, "clientKeyData": CANARY})), "cannot start"),
    ] {
        let mut program = start(&kubeconfig(cluster, &format!("canary-{name}"), &output), &[]);
        program.wait_for_line(&[said]);
        if said != "not allowed in a header" {
            assert_eq!(program.exit_code(), Some(1), "{name}: {:?}", program.lines());
        }
        assert_secret(name, &program.lines().join("\n"), CANARY);
    }
}
