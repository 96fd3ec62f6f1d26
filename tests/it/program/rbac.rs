//! The least role of a program: sufficient, and without an unneeded verb.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::{Rule, Subject};
use kooper_tests::process::Process;
use serde_json::{Value, json};

fn permissions(namespace: &'static str) -> Subject<'static> {
    let object = |kind: &str, name: &str, rest: Value| {
        let (version, kind) = kind.rsplit_once('/').expect("a version and a kind");
        let mut object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace, "name": name}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    let labelled = |mut object: Value, label: &str, value: &str| {
        object["metadata"]["labels"] = json!({label: value});
        object
    };
    let template = |name: &str| {
        let containers = json!([{"name": "one", "image": "none"}]);
        object("v1/PodTemplate", name, json!({"template": {"spec": {"containers": containers}}}))
    };
    Subject {
        program: env!("CARGO_BIN_EXE_permissions"),
        namespace,
        objects: vec![
            object("permissions.example.com/v1/Gadget", "lamp", json!({"spec": {}})),
            object("v1/Secret", "lamp", json!({})),
            object("v1/Pod", "lamp", json!({"spec": {"containers": [{"name": "one", "image": "none"}]}})),
            object("v1/ResourceQuota", "lamp", json!({"spec": {}})),
            object(
                "v1/PersistentVolumeClaim",
                "lamp",
                json!({"spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}
                }}),
            ),
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1,
                "metadata": {"name": namespace, "labels": {"departs": "yes"}}
            }),
            object(
                "v1/Service",
                "number-NUMBER",
                json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
            ),
            labelled(object("v1/ServiceAccount", "number-NUMBER", json!({})), "departs", "yes"),
            labelled(
                object(
                    "discovery.k8s.io/v1/EndpointSlice",
                    "number-NUMBER",
                    json!({"addressType": "IPv4", "endpoints": []}),
                ),
                "slots",
                "yes",
            ),
            labelled(template("left-NUMBER"), "leaves", "yes"),
            labelled(template("alone-NUMBER"), "leaves", "alone"),
        ],
        done: &[
            "gadgets: done",
            "verbs: done",
            "narrow: done",
            "services: cleaned up",
            "templates: done",
            "the object or its namespace no longer matches the selector, and the object keeps the finalizer",
            "accounts: Deleted",
            "priorities: done",
            "claims: done",
            "quotas: done",
            "slices: done",
        ],
        lease: "permissions-claims",
        unseen: &["controllerrevisions", "nodes"],
    }
}

#[test]
fn the_printed_role_is_sufficient_with_streaming_lists() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let subject = permissions("least-role");
    let installed = subject.install(cluster);
    installed.is_enough();
    // The audit log has the user of each request.
    let requests = installed.requests();
    let named =
        |event: &&Value| event["userAgent"].as_str().is_some_and(|name| name.starts_with("permissions kooper/"));
    assert_eq!(requests.iter().filter(named).count(), requests.len());
}

/// The resources of controllers that no other controller uses: without one rule of each, each of them misses its own.
const OWN: [&[&str]; 9] = [
    &["configmaps", "gadgets/status", "limitranges"],
    &["secrets", "pods/eviction"],
    &["ingresses"],
    &["csistoragecapacities", "replicasets"],
    &["services", "services/status"],
    &["podtemplates"],
    &["serviceaccounts", "replicationcontrollers"],
    &["priorityclasses"],
    &["resourcequotas", "controllerrevisions", "nodes", "storageclasses"],
];

#[test]
fn without_streaming_lists_the_role_is_sufficient_and_each_rule_is_needed() {
    let Some(cluster) = ControlPlane::without_streaming_lists() else { return };
    let subject = permissions("least-role");
    let installed = subject.install(cluster);
    installed.is_enough();
    let (crds, others): (Vec<_>, Vec<_>) = installed.rules().into_iter().partition(Rule::is_of_crd);
    assert_eq!((crds.len(), others.len()), (4, 81));
    let mut own = OWN.map(|_| Vec::new());
    for rule in &others {
        match OWN.iter().position(|resources| resources.contains(&rule.access().0)) {
            Some(at) => own[at].push(rule),
            None => installed.needs(&[rule]),
        }
    }
    for turn in 0..own.iter().map(Vec::len).max().unwrap_or_default() {
        let rules: Vec<&Rule> = own.iter().filter_map(|rules| rules.get(turn).copied()).collect();
        installed.needs(&rules);
    }
    // The objects of a CRD are deleted with it, so it is the last one.
    for rule in &crds {
        installed.needs(&[rule]);
    }
}

#[test]
fn check_lists_every_missing_rule() {
    let Some(cluster) = ControlPlane::without_controllers() else { return };
    let subject = permissions("lacking");
    let (passed, stdout, stderr) = subject.call(Some(cluster.limited_kubeconfig()), &["check"]);
    assert!(!passed);
    assert!(stdout.starts_with("ok       connection to https://127.0.0.1:"), "{stdout}{stderr}");
    assert!(
        stdout.contains("\nok       kind PriorityClass (priorityclasses.scheduling.k8s.io) of scheduling.k8s.io/v1\n"),
        "{stdout}"
    );
    // The user is not a service account, so the namespace of the context is used.
    let role = "to the Role `default:permissions` in namespace `lacking`\n";
    let cluster_role = "to the ClusterRole `default:permissions`\n";
    let lease = "(resourceNames: permissions-claims) to the Role `default:permissions` in namespace `lacking-leases`\n";
    for missing in [
        format!("add the rule \"configmaps: create, list, patch, watch\" {role}"),
        format!("add the rule \"services: delete, get, list, patch, watch\" {role}"),
        format!("add the rule \"permissions.example.com/gadgets/status: patch\" {role}"),
        format!("add the rule \"events.k8s.io/events: create, patch\" {role}"),
        format!("add the rule \"coordination.k8s.io/leases: create, get, update, watch\" {lease}"),
        format!("add the rule \"scheduling.k8s.io/priorityclasses: list, patch, watch\" {cluster_role}"),
        format!(
            "for install_crd of the controller `gadgets`, install_crd of the controller `verbs`: add the rule \
             \"apiextensions.k8s.io/customresourcedefinitions: create, get, patch, watch\" \
             (resourceNames: gadgets.permissions.example.com) {cluster_role}"
        ),
    ] {
        assert!(stdout.contains(&missing), "{missing}: {stdout}");
    }
    // With the permission to read namespaces, the missing one is reported.
    let (passed, stdout, _) = subject.call(Some(cluster.kubeconfig()), &["check"]);
    assert!(!passed && stdout.contains("missing  namespace lacking: it does not exist"), "{stdout}");
    assert!(
        stdout.contains("ok       CRD gadgets.permissions.example.com: it does not exist yet, `run` installs it"),
        "{stdout}"
    );
    cluster.create_namespaces(["lacking", "lacking-leases"]);
    assert!(subject.call(Some(cluster.kubeconfig()), &["check"]).0);
    // Without a controller manager it is never deleted.
    cluster.must(&["delete", "namespace", "lacking", "--wait=false"]);
    let (passed, stdout, _) = subject.call(Some(cluster.kubeconfig()), &["check"]);
    assert!(!passed && stdout.contains("missing  namespace lacking: it is being terminated"), "{stdout}");
}

#[test]
fn check_lists_objects_that_a_controller_with_fewer_namespaces_left_behind() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let subject = permissions("narrowed");
    cluster.create_namespaces(["narrowed", "narrowed-leases", "wide"]);
    let ours = "permissions.example.com/service";
    let services = [("wide", "left", ours), ("wide", "foreign", "example.com/other"), ("narrowed", "here", ours)];
    let service = |namespace: &str, name: &str, finalizers: &[&str]| {
        json!({
            "apiVersion": "v1", "kind": "Service", "spec": {"type": "ExternalName", "externalName": "example.com"},
            "metadata": {"namespace": namespace, "name": name, "finalizers": finalizers}
        })
    };
    cluster.apply(services.map(|(namespace, name, finalizer)| service(namespace, name, &[finalizer])));
    let (passed, stdout, stderr) = subject.call(Some(cluster.kubeconfig()), &["check"]);
    assert!(passed, "{stdout}{stderr}");
    let notes: Vec<_> = stdout.lines().filter(|line| line.starts_with("note ")).collect();
    assert_eq!(notes.len(), 1, "{stdout}");
    assert!(
        notes[0].starts_with(
            "note     services wide/left: outside of the namespaces of the controller `services`, with its finalizer "
        ),
        "{notes:?}"
    );
    let (_, stdout, _) = subject.call(Some(cluster.limited_kubeconfig()), &["check"]);
    assert!(stdout.contains("note     services: objects outside of the namespaces"), "{stdout}");
    cluster.apply(services.map(|(namespace, name, _)| service(namespace, name, &[])));
}

#[test]
fn a_namespace_that_is_being_deleted_is_reported_without_advice_about_rules() {
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager"]) else { return };
    let subject = permissions("leaving");
    let namespaces = ["leaving", "leaving-leases"];
    cluster.create_namespaces(namespaces);
    let first = subject.start(cluster.kubeconfig());
    first.wait_for_page("/readyz", 200, &[]);
    drop(first);
    cluster.apply(subject.objects.iter().filter(|object| object["metadata"]["name"] == "lamp").cloned());
    cluster.must(&["delete", "lease", subject.lease, "--namespace=leaving-leases"]);
    // Without a controller manager they are never deleted, nor are the objects in them.
    cluster.must(&["delete", "namespace", namespaces[0], namespaces[1], "--wait=false"]);
    // A call that fails for this reason has no consequence, and is only logged for those who look for it.
    let program =
        subject.start_logging(cluster.kubeconfig(), "info,kooper_runtime::call=debug,kooper_access::events=debug");
    let why = "is being deleted and nothing can be created in it: no rule is missing";
    for what in [
        "cannot apply ConfigMap `leaving/lamp-",
        "cannot create Lease `leaving/made-`",
        "cannot create the Lease leaving-leases/permissions-claims",
    ] {
        program.wait_for_line(&[what, why]);
    }
    program.wait_for_line(&["a Kubernetes Event is dropped", "because it is being terminated"]);
    let advised = program.lines().into_iter().find(|line| line.contains(" the rule "));
    assert_eq!(advised, None);
}

#[test]
fn kubectl_accepts_the_output_of_crd_and_rbac_and_the_program_keeps_such_a_crd() {
    let Some(cluster) = ControlPlane::pooled() else { return };
    let subject = permissions("printed");
    let election = ["rbac", "--leader-election", "on", "--install-namespace", "printed"];
    let (_, roles, stderr) = subject.call(None, &election);
    assert!(roles.contains("permissions-gadgets") && roles.contains("coordination.k8s.io"), "{roles}{stderr}");
    assert!(roles.contains("events.k8s.io"), "{roles}");
    cluster.create_namespaces(["printed", "printed-leases"]);
    let (_, crds, stderr) = subject.call(None, &["crd"]);
    assert!(crds.contains("kooper.rs/schema-hash") && crds.contains("kooper.rs/version"), "{crds}{stderr}");
    for yaml in [roles, crds] {
        cluster.apply_text(&[], &yaml);
    }
    let version = || cluster.must(&["get", "crd", "--output=jsonpath={.items[*].metadata.resourceVersion}"]);
    cluster.must(&["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"]);
    let before = version();
    let kubeconfig = cluster.kubeconfig().to_str().expect("the path is UTF-8");
    let args =
        ["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--namespace", "printed", "--leader-election", "off"];
    let program = Process::start(subject.program, &args, &[]);
    program.wait_for_page("/readyz", 200, &[]);
    assert_eq!(version(), before);
}
