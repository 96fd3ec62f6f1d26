//! The least role of a program: enough, and not a verb too much.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::Subject;
use kooper_tests::process::Process;
use serde_json::json;

fn permissions(namespace: &'static str) -> Subject<'static> {
    Subject {
        program: env!("CARGO_BIN_EXE_permissions"),
        namespace,
        args: &[],
        objects: vec![json!({
            "apiVersion": "permissions.example.com/v1", "kind": "Gadget",
            "metadata": {"namespace": namespace, "name": "lamp"}, "spec": {}
        })],
        done: &["everything is done"],
    }
}

#[test]
fn the_printed_role_is_enough_with_streaming_lists() {
    let Some(cluster) = ControlPlane::shared() else { return };
    permissions("least-role").install(cluster).is_enough();
}

#[test]
fn without_streaming_lists_it_is_enough_and_each_verb_of_it_is_needed() {
    let Some(cluster) = ControlPlane::start_with(&["--without-streaming-lists"]) else { return };
    let subject = permissions("least-role");
    let installed = subject.install(&cluster);
    installed.is_enough();
    let rules = installed.rules();
    assert_eq!(rules.len(), 15, "{rules:#?}");
    for rule in &rules {
        installed.needs(rule);
    }
}

#[test]
fn check_names_every_rule_that_a_user_lacks() {
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager"]) else { return };
    let subject = permissions("lacking");
    let (passed, stdout, stderr) = subject.call(Some(cluster.limited_kubeconfig()), &["check"]);
    assert!(!passed);
    assert!(stdout.starts_with("ok       connection to https://127.0.0.1:"), "{stdout}{stderr}");
    assert!(stdout.contains("\nok       kind Node (nodes) of v1\n"), "{stdout}");
    let role = "to the Role `permissions` in namespace `lacking`\n";
    for missing in [
        format!("add the rule \"configmaps: create, delete, list, watch\" {role}"),
        format!("add the rule \"services: list, watch\" {role}"),
        format!("add the rule \"permissions.example.com/gadgets/status: patch\" {role}"),
        "add the rule \"nodes: list, watch\" to the ClusterRole `permissions`\n".to_owned(),
        "for install_crd of the controller `gadgets`: add the rule \"apiextensions.k8s.io/customresourcedefinitions: \
         create, get, patch, watch\" (resourceNames: gadgets.permissions.example.com) to the ClusterRole `permissions`\n"
            .to_owned(),
    ] {
        assert!(stdout.contains(&missing), "{missing}: {stdout}");
    }
    // Who may look at namespaces is told that this one is not there.
    let (passed, stdout, _) = subject.call(Some(cluster.kubeconfig()), &["check"]);
    assert!(!passed && stdout.contains("missing  namespace lacking: it does not exist"), "{stdout}");
    assert!(
        stdout.contains("ok       CRD gadgets.permissions.example.com: not there yet, `run` installs it"),
        "{stdout}"
    );
    cluster.must(&["create", "namespace", "lacking"]);
    assert!(subject.call(Some(cluster.kubeconfig()), &["check"]).0);
    // Without a controller manager it is never gone.
    cluster.must(&["delete", "namespace", "lacking", "--wait=false"]);
    let (passed, stdout, _) = subject.call(Some(cluster.kubeconfig()), &["check"]);
    assert!(!passed && stdout.contains("missing  namespace lacking: it is being terminated"), "{stdout}");
}

#[test]
fn kubectl_takes_what_crd_and_rbac_print_and_the_program_leaves_such_a_crd_alone() {
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager"]) else { return };
    let subject = permissions("printed");
    let election = ["rbac", "--leader-election", "on", "--install-namespace", "default"];
    let (_, roles, stderr) = subject.call(None, &election);
    assert!(roles.contains("permissions-gadgets") && roles.contains("coordination.k8s.io"), "{roles}{stderr}");
    assert!(roles.contains("events.k8s.io"), "{roles}");
    cluster.must(&["create", "namespace", "printed"]);
    let (_, crds, stderr) = subject.call(None, &["crd"]);
    assert!(crds.contains("kooper.rs/schema-hash") && crds.contains("kooper.rs/version"), "{crds}{stderr}");
    for yaml in [roles, crds] {
        let applied = cluster.kubectl_with(&["apply", "--filename=-"], &yaml);
        assert!(applied.success, "{}\n{yaml}", applied.stderr);
    }
    let version = || cluster.must(&["get", "crd", "--output=jsonpath={.items[*].metadata.resourceVersion}"]);
    cluster.must(&["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"]);
    let before = version();
    let kubeconfig = cluster.kubeconfig().to_str().expect("the path is UTF-8");
    let args = ["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--namespace", "printed"];
    let program = Process::start(subject.program, &args, &[]);
    program.wait_for_page("/readyz", 200, &[]);
    assert_eq!(version(), before);
}
