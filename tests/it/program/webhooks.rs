//! The commands of a program with webhooks.

use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::{Installed, Subject};
use kooper_tests::process;
use kooper_tests::wait::eventually;
use kooper_tests::yaml::documents;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_guarded");

/// Runs a command of the program: whether it exits with 0, its stdout and stderr.
fn call(args: &[&str]) -> (bool, String, String) {
    process::call(Command::new(PROGRAM).args(args))
}

/// The documents that a command prints.
fn printed(args: &[&str]) -> Vec<Value> {
    let (done, yaml, stderr) = call(args);
    assert!(done, "{stderr}");
    documents(&yaml)
}

/// The rules of a role for a resource: the names and the verbs.
fn rules(documents: &[Value], kind: &str, resource: &str) -> Vec<(Value, Value)> {
    let roles = documents.iter().filter(|document| document["kind"] == kind);
    let rules = roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
    let of = rules.filter(|rule| rule["resources"].as_array().unwrap().contains(&resource.into()));
    of.map(|mut rule| (rule["resourceNames"].take(), rule["verbs"].take())).collect()
}

#[test]
fn the_printed_roles_name_the_objects_of_the_webhooks() {
    let documents = printed(&["rbac", "--install-namespace", "trade", "--instance", "blue"]);
    let any = |verbs: Value| (Value::Null, verbs);
    let named = |name: &str, verbs: Value| (json!([name]), verbs);
    for resource in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let expected = [any(json!(["create"])), named("guarded--webhooks.trade.blue", json!(["get", "patch"]))];
        assert_eq!(rules(&documents, "ClusterRole", resource), expected, "{resource}");
    }
    let owner = named("trade:guarded.blue", json!(["get"]));
    assert_eq!(rules(&documents, "ClusterRole", "clusterroles"), [owner]);
    let secrets = [any(json!(["create"])), named("guarded--webhook-ca.blue", json!(["get", "update"]))];
    assert_eq!(rules(&documents, "Role", "secrets"), secrets);
    assert_eq!(rules(&documents, "Role", "deployments"), [named("guarded--blue", json!(["get"]))]);
    let leases = rules(&documents, "Role", "leases");
    let name = json!("guarded--webhooks.blue");
    assert!(leases.iter().any(|(names, _)| names.as_array().unwrap().contains(&name)), "{leases:?}");
    assert!(
        documents.iter().all(|one| one["metadata"]["namespace"].is_null() || one["metadata"]["namespace"] == "trade")
    );
}

#[test]
fn a_program_with_webhooks_is_not_installed_without_leader_election() {
    let manifests = ["manifests", "--image", "example.com/guarded:1"];
    let (done, stdout, stderr) = call(&[&manifests[..], &["--leader-election", "off"]].concat());
    assert!(!done && stdout.is_empty(), "{stdout}");
    assert!(
        stderr.contains("the controller `shops` has neither leader election nor shards: add `--leader-election on`"),
        "{stderr}"
    );
}

#[test]
fn a_real_cluster_accepts_the_manifests_and_uninstall_first_removes_the_configurations() {
    let Some(cluster) = ControlPlane::pooled() else { return };
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    cluster.apply([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trade", "labels": labels}})]);
    for command in
        [&["crd"][..], &["manifests", "--image", "a:1", "--install-namespace", "trade", "--with", "network-policy"]]
    {
        let (printed, yaml, stderr) = call(command);
        assert!(printed && !yaml.contains("kind: MutatingWebhookConfiguration"), "{stderr}");
        let applied = cluster.kubectl_with(&["apply", "--server-side", "--filename=-"], &yaml);
        assert!(applied.success && applied.stderr.is_empty(), "{}", applied.stderr);
    }
    cluster.must(&["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"]);

    // As the program has left them: nobody answers.
    let service = json!({"name": "guarded-webhooks", "namespace": "trade", "path": "/check", "port": 443});
    let rules = json!([{
        "apiGroups": ["guarded.example.com"], "apiVersions": ["v1"], "resources": ["shops"], "operations": ["*"],
    }]);
    let configuration = |kind: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "guarded--webhooks.trade"},
            "webhooks": [{
                "name": "check.guarded.kooper.rs", "clientConfig": {"service": service}, "rules": rules,
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            }],
        })
    };
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    cluster.apply(kinds.map(configuration));
    cluster.must(&["-n", "trade", "create", "secret", "generic", "guarded--webhook-ca"]);
    let shop = json!({
        "apiVersion": "guarded.example.com/v1", "kind": "Shop", "metadata": {"name": "tea", "namespace": "trade"}, "spec": {},
    });
    let create = || cluster.kubectl_with(&["create", "--validate=false", "--filename=-"], &shop.to_string());
    eventually("a shop is refused", || create().stderr.contains("failed calling webhook"));

    let steps = |flags: &[&str]| {
        let own = ["uninstall", "--install-namespace", "trade", "--kubeconfig", kubeconfig, "--keep-crds"];
        let (done, stdout, stderr) = call(&[&own[..], flags].concat());
        assert!(done, "{stdout}{stderr}");
        stdout
    };
    let expected = "delete    ValidatingWebhookConfiguration guarded--webhooks.trade\n\
                    delete    MutatingWebhookConfiguration guarded--webhooks.trade\n\
                    stop      Deployment trade/guarded\n\
                    delete    Secret trade/guarded--webhook-ca\n";
    assert_eq!(steps(&["--dry-run"]), format!("dry run   nothing is changed\n{expected}"));
    assert_eq!(steps(&[]), format!("{expected}done      guarded\n"));
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "secrets"] {
        assert_eq!(cluster.must(&["-n", "trade", "get", kind, "--output=name"]), "", "{kind}");
    }
    eventually("a shop is stored", || create().success);
    assert_eq!(steps(&[]), "done      guarded\n", "twice is fine");
}

#[test]
fn each_rule_of_the_webhooks_is_needed_and_they_are_enough() {
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager"]) else { return };
    let subject = Subject {
        program: env!("CARGO_BIN_EXE_hooked"),
        namespace: "hooked",
        objects: Vec::new(),
        done: &[],
        lease: "hooked/hooked--webhooks",
        // The program reports what the API server says.
        unseen: &[
            "clusterroles",
            "deployments",
            "leases",
            "mutatingwebhookconfigurations",
            "secrets",
            "validatingwebhookconfigurations",
        ],
    };
    let installed = subject.install(&cluster);
    let program = installed.start();
    program.wait_for_line(&["the webhooks are registered, and the API server can reach them"]);
    drop(program);
    Installed::forbade_nothing(&installed.requests());

    let delete = |kind: &str, name: &str| {
        cluster.must(&["delete", kind, name, "--namespace=hooked", "--ignore-not-found"]);
    };
    let rules = installed.rules();
    assert_eq!(rules.len(), 17, "{rules:#?}");
    for rule in &rules {
        // That of the program before, which was killed.
        delete("lease", "hooked--webhooks");
        match rule.access() {
            ("secrets", "create") => delete("secret", "hooked--webhook-ca"),
            // One that is malformed is replaced.
            ("secrets", "update") => cluster.apply([json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hooked--webhook-ca", "namespace": "hooked"},
                "data": {"ca.crt": "Z2FyYmFnZQ=="},
            })]),
            (configurations, "create") if configurations.ends_with("webhookconfigurations") => {
                delete(configurations, "hooked--webhooks.hooked");
            }
            _ => {}
        }
        installed.needs(&[rule]);
    }
}
