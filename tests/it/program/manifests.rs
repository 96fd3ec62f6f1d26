//! Tests the output of `manifests` on a real API server.

use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::https;
use kooper_tests::process::{self, Process};
use kooper_tests::wait::until;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_installed");

/// Runs a command of the program without a cluster: whether it exits with 0, its stdout and stderr.
fn call(args: &[&str]) -> (bool, String, String) {
    process::call(Command::new(PROGRAM).args(args))
}

/// Applies what the program prints for `manifests` with these arguments, and returns kubectl's output.
fn install(cluster: &ControlPlane, namespace: &str, args: &[&str]) -> String {
    let own = ["manifests", "--image", "example.com/installed:1", "--install-namespace", namespace];
    let (printed, yaml, stderr) = call(&[&own[..], args].concat());
    assert!(printed, "{stderr}");
    let applied = cluster.kubectl_with(&["apply", "--filename=-"], &yaml);
    assert!(applied.success, "{}\n{yaml}", applied.stderr);
    assert_eq!(applied.stderr, "", "no warnings");
    applied.stdout
}

fn install_crds(cluster: &ControlPlane) {
    let (_, crds, _) = call(&["crd"]);
    cluster.apply_text(&["--server-side"], &crds);
}

fn get(cluster: &ControlPlane, namespace: &str, kind: &str) -> Value {
    let json = cluster.must(&["-n", namespace, "get", kind, "--output=json"]);
    serde_json::from_str(&json).unwrap()
}

/// Waits until the namespace has this number of pods, and no pod was refused.
fn wait_for_pods(cluster: &ControlPlane, namespace: &str, count: usize) {
    let pods = || get(cluster, namespace, "pods")["items"].as_array().unwrap().len();
    let events = || cluster.must(&["-n", namespace, "get", "events"]);
    until("the pods are created", || (pods() == count).then_some(()), || format!("{} pods\n{}", pods(), events()));
    assert!(!events().contains("FailedCreate"), "{}", events());
}

#[test]
fn a_restricted_namespace_accepts_the_pods_and_settings_can_change() {
    let namespace = "installed-restricted";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    cluster.must(&["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);

    let elected = ["--leader-election", "on", "--with", "network-policy", "--drain-timeout", "1m"];
    install(cluster, namespace, &elected);
    wait_for_pods(cluster, namespace, 2);
    assert_eq!(get(cluster, namespace, "poddisruptionbudgets")["items"][0]["spec"]["maxUnavailable"], 1);
    assert_eq!(get(cluster, namespace, "networkpolicies")["items"].as_array().unwrap().len(), 1);
    let pod = get(cluster, namespace, "deployment/installed")["spec"]["template"]["spec"].take();
    assert_eq!(pod["terminationGracePeriodSeconds"], 70);
    // Twice is fine.
    let again = install(cluster, namespace, &elected);
    // kubectl writes the selector of a PodDisruptionBudget each time.
    let mut other = again.lines().filter(|line| !line.starts_with("poddisruptionbudget"));
    assert!(other.all(|line| line.ends_with(" unchanged")), "{again}");

    // Without leader election, the old pods end before the new one begins.
    install(cluster, namespace, &[]);
    let deployment = get(cluster, namespace, "deployment/installed");
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["spec"]["strategy"]["type"]),
        (&1.into(), &"Recreate".into())
    );
    wait_for_pods(cluster, namespace, 1);
    // Another instance, beside it.
    install(cluster, namespace, &["--instance", "blue"]);
    wait_for_pods(cluster, namespace, 2);
    let selected = |name: &str| get(cluster, namespace, name)["spec"]["selector"].take();
    assert_ne!(selected("service/installed"), selected("service/installed--blue"));
}

#[test]
fn the_program_runs_with_the_account_and_the_variables_of_its_deployment() {
    let namespace = "installed-beside";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    install_crds(cluster);
    let secured = ["--metrics-auth", "token"];
    let args = ["--leader-election", "on", "--namespace", namespace, "--workers", "2"];
    install(cluster, namespace, &[&args[..], &secured].concat());

    let container = get(cluster, namespace, "deployment/installed")["spec"]["template"]["spec"]["containers"][0].take();
    let kubeconfig = cluster.kubeconfig_of(namespace, "installed");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let variables: Vec<_> =
        container["env"].as_array().unwrap().iter().map(|one| (text(&one["name"]), text(&one["value"]))).collect();
    let mut variables: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(
        variables,
        [
            ("KOOPER_NAMESPACE", namespace),
            ("KOOPER_WORKERS", "2"),
            ("KOOPER_METRICS_AUTH", "token"),
            ("KOOPER_LEADER_ELECTION", "on")
        ]
    );
    // A process outside of a pod needs these settings.
    variables.extend([("KUBECONFIG", kubeconfig.to_str().unwrap()), ("KOOPER_LEASE_NAMESPACE", namespace)]);
    variables.extend([("KOOPER_LISTEN", "127.0.0.1:0"), ("KOOPER_LISTEN_PROBES", "127.0.0.1:0")]);
    let args: Vec<_> = container["args"].as_array().unwrap().iter().map(text).collect();
    let program = Process::start(PROGRAM, &args, &variables);
    for probe in ["readinessProbe", "livenessProbe"] {
        program.wait_for_page(&text(&container[probe]["httpGet"]["path"]), 200, &[]);
    }
    let answer = https::get(program.address(), "/metrics", None).unwrap();
    assert_eq!((answer.status, &*answer.asked), (401, &["Bearer".to_owned()][..]), "{answer:?}");
    let answer = https::get(program.address(), "/metrics", Some("Bearer nonsense")).unwrap();
    assert_eq!(answer.status, 401, "its account may review tokens: {answer:?}");
    cluster.must(&["-n", namespace, "get", "lease", "installed-shops"]);
    assert_eq!(program.count(&["forbidden"]), 0, "{:?}", program.lines());
}

#[test]
fn the_users_of_a_namespace_get_the_roles_for_custom_resources() {
    let namespace = "installed-users";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let (_, yaml, _) = call(&["manifests", "--image", "example.com/installed:1"]);
    assert!(!yaml.contains("aggregate-to"), "the users of all namespaces get nothing unasked: {yaml}");
    // Without its kind, `kubectl` asks for another group.
    install_crds(cluster);
    install(cluster, namespace, &["--aggregate-roles"]);
    for (role, allowed) in
        [("view", ["get", "list", "watch"].as_slice()), ("edit", &["get", "create", "patch", "delete"])]
    {
        let user = format!("installed-{role}");
        let binding =
            ["create", "rolebinding", &user, "--clusterrole", role, "--user", &user, "--namespace", namespace];
        cluster.must(&binding);
        for verb in allowed {
            let ask = ["auth", "can-i", verb, "shops.installed.example.com", "--as", &user, "--namespace", namespace];
            let answer = || cluster.kubectl(&ask);
            until(&format!("{role} may {verb}"), || answer().success.then_some(()), || format!("{:?}", answer()));
        }
    }
    let ask =
        ["auth", "can-i", "delete", "shops.installed.example.com", "--as", "installed-view", "--namespace", namespace];
    assert!(!cluster.kubectl(&ask).success);
}

#[test]
fn flags_that_do_not_fit_are_reported_with_what_to_write() {
    let image = ["manifests", "--image", "example.com/installed:1"];
    for (args, expected) in [
        (
            &["--replicas", "2"][..],
            "the controller `shops` has neither leader election nor shards: add `--leader-election on`, or write `--replicas 1`",
        ),
        (&["--listen", "127.0.0.1:8080"], "cannot be reached on 127.0.0.1:8080: write `--listen [::]:8080`"),
        (&["--listen", "[::ffff:127.0.0.1]:8080"], "cannot be reached on [::ffff:127.0.0.1]:8080"),
        (&["--listen", "off", "--with", "service-monitor"], "ServiceMonitors need the metrics"),
        (&["--listen", "off", "--with", "alerts"], "alerts need the metrics"),
        (&["--namespace", "a"], "everything else in this installation needs only Roles: write `--metrics-auth none`"),
        (&["--status-page", "on", "--metrics-auth", "none"], "anyone in the cluster could read the status page"),
        (
            &["--instance", &"x".repeat(60)],
            "would have 71 characters, but at most 63 are allowed: choose a shorter `--instance`",
        ),
        (&["--listen-probes", "[::]:80"], "cannot be reached on [::]:80: write `--listen-probes [::]:8080`"),
        (&["--listen-probes", ":8080"], "metrics and probes cannot be on the same port"),
        (
            &["--metrics-secret", "a", "--metrics-cert-file", "/b"],
            "`--metrics-secret` sets the files of the certificate",
        ),
        (&["--metrics-cert-file", "/b"], "`--metrics-cert-file` needs `--metrics-key-file`: set both, or none of them"),
        (&["--metrics-key-file", "/b"], "`--metrics-key-file` needs `--metrics-cert-file`: set both, or none of them"),
        (
            &["--metrics-audience", "a", "--with", "service-monitor"],
            "remove `--metrics-audience`, or `service-monitor` from `--with`",
        ),
        (&["--with", "tea"], "write `network-policy`, `service-monitor`, `alerts` or `host-network`"),
        (&["--format", "helm"], "write `--output FOLDER`"),
    ] {
        let (printed, stdout, stderr) = call(&[&image[..], args].concat());
        assert!(!printed && stdout.is_empty() && stderr.contains(expected), "{expected}: {stdout}{stderr}");
    }
    let (printed, _, stderr) = call(&["manifests"]);
    assert!(!printed && stderr.contains("write `--image IMAGE`"), "{stderr}");
}

#[test]
fn settings_of_the_program_become_arguments_and_secrets_are_not_printed() {
    let (printed, yaml, stderr) = call(&[
        "manifests",
        "--image",
        "a:1",
        "--greeting",
        "hi: there",
        "--till",
        "hidden-7",
        "--quiet",
        "--closed",
        "sunday",
    ]);
    assert!(printed, "{stderr}");
    assert!(
        yaml.contains(
            "        - run\n        - \"--greeting=hi: there\"\n        - --closed=sunday\n        - --quiet\n"
        ),
        "{yaml}"
    );
    assert!(!yaml.contains("hidden-7"), "{yaml}");
    assert!(yaml.contains("- --till-file=/var/run/kooper/settings/till\n"), "what is given is never dropped: {yaml}");
    assert!(yaml.contains("name: installed-settings\n"), "{yaml}");
    assert!(
        stderr.contains("kubectl create secret generic installed-settings --namespace default --from-file=till=FILE"),
        "{stderr}"
    );
}
