//! Checks the output of `manifests` with Helm, kubeconform and kube-score.
//!
//! A test whose tool is not on the path is skipped with a message.
//! `KOOPER_REQUIRE_TOOLS=helm,kubeconform,kube-score` names tools without which it fails.

mod pods;
mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::call;
use kooper_tests::tools::has;
use kooper_tests::wait::until;
use kooper_tests::yaml::documents;
use serde_json::{Value, json};

const INSTALLED: &str = env!("CARGO_BIN_EXE_installed");
const GUARDED: &str = env!("CARGO_BIN_EXE_guarded");
const PERMISSIONS: &str = env!("CARGO_BIN_EXE_permissions");
const NAMESPACE: &str = "charts";

/// A written chart.
struct Chart {
    program: &'static str,
    folder: PathBuf,
}

impl Chart {
    /// Writes the chart of a program; `None` without Helm.
    fn write(program: &'static str, name: &str) -> Option<Self> {
        if !has("helm") {
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&folder));
        let args = ["manifests", "--format", "helm", "--image", "example.com/program:1", "--output"];
        let (written, _, stderr) = call(Command::new(program).args(args).arg(&folder));
        assert!(written, "{stderr}");
        Some(Self { program, folder })
    }

    fn helm(&self, args: &[&str], values: &Value) -> (bool, String, String) {
        let file = self.folder.with_extension("values.json");
        fs::write(&file, values.to_string()).unwrap();
        let chart = self.folder.to_str().unwrap();
        call(
            Command::new("helm")
                .args(args.iter().map(|arg| if *arg == "CHART" { chart } else { arg }))
                .arg("--values")
                .arg(&file),
        )
    }

    /// The documents for these values.
    fn template(&self, values: &Value) -> Vec<Value> {
        let (done, stdout, stderr) = self.helm(&["template", "release", "CHART", "--namespace", NAMESPACE], values);
        assert!(done, "{values}: {stderr}");
        documents(&stdout)
    }

    /// Returns the output of a command of the program with these flags.
    fn printed(&self, task: &str, flags: &[String]) -> Vec<Value> {
        let mut command = Command::new(self.program);
        command.args([task, "--install-namespace", NAMESPACE]).args(flags);
        let (done, stdout, stderr) = call(&mut command);
        assert!(done, "{stderr}");
        documents(&stdout)
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Returns the meaning of roles regardless of their form: accounts, bindings, aggregated roles, and
/// each permission that no other one includes, as place, resource, name and verb. The hook is left
/// out.
fn meaning(documents: &[Value]) -> BTreeSet<[String; 4]> {
    let mut found = BTreeSet::new();
    for document in documents.iter().filter(|one| one["metadata"]["annotations"]["helm.sh/hook"].is_null()) {
        let (kind, name) = (document["kind"].as_str().unwrap(), document["metadata"]["name"].as_str().unwrap());
        let place = format!("{kind} {} {name}", document["metadata"]["namespace"]);
        match kind {
            "ServiceAccount" => drop(found.insert([place, String::new(), String::new(), String::new()])),
            "RoleBinding" | "ClusterRoleBinding" => {
                let (role, subjects) = (document["roleRef"].to_string(), document["subjects"].to_string());
                found.insert([place, role, subjects, String::new()]);
            }
            "Role" | "ClusterRole" => {
                let labels = document["metadata"]["labels"].as_object().unwrap().iter();
                for (label, on) in labels.filter(|(label, _)| label.starts_with("rbac.authorization.k8s.io/")) {
                    found.insert([place.clone(), label.clone(), on.to_string(), String::new()]);
                }
                for rule in document["rules"].as_array().unwrap() {
                    for (path, verb) in product(&strings(&rule["nonResourceURLs"]), &strings(&rule["verbs"])) {
                        found.insert([place.clone(), path, String::new(), verb]);
                    }
                    let mut names = strings(&rule["resourceNames"]);
                    if names.is_empty() {
                        names.push("*".to_owned());
                    }
                    for (group, resource) in product(&strings(&rule["apiGroups"]), &strings(&rule["resources"])) {
                        for (name, verb) in product(&names, &strings(&rule["verbs"])) {
                            found.insert([place.clone(), format!("{group}/{resource}"), name, verb]);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let all = found.clone();
    found.retain(|one| {
        let [place, resource, name, verb] = one;
        let wider = [[name.as_str(), "*"], ["*", verb.as_str()], ["*", "*"]]
            .map(|[name, verb]| (name.to_owned(), verb.to_owned()));
        !wider.into_iter().any(|(name, verb)| {
            let wider = [place.clone(), resource.clone(), name, verb];
            wider != *one && all.contains(&wider)
        })
    });
    found
}

fn product<T: Clone>(ones: &[T], others: &[T]) -> Vec<(T, T)> {
    ones.iter().flat_map(|one| others.iter().map(move |other| (one.clone(), other.clone()))).collect()
}

/// Each combination of the settings that decide together where roles are, with the two that do not in turn: values, and
/// flags. Helm takes 70 ms for each.
fn combinations() -> Vec<(Value, Vec<String>)> {
    let mut all = Vec::new();
    for namespaces in [&[][..], &["a"], &["b", NAMESPACE]] {
        for (election, leases) in product(&[None, Some("on"), Some("off")], &[None, Some("a"), Some("leases")]) {
            let mut values = json!({"namespaces": namespaces});
            let mut flags = Vec::new();
            if !namespaces.is_empty() {
                flags.extend(["--namespace".to_owned(), namespaces.join(",")]);
            }
            for (value, flag, choice) in [
                ("leaderElection", "--leader-election", election),
                ("instance", "--instance", [None, Some("blue")][all.len() % 2]),
                ("leaseNamespace", "--lease-namespace", leases),
                ("metricsAuth", "--metrics-auth", [Some("none"), Some("token")][all.len() / 2 % 2]),
            ] {
                if let Some(choice) = choice {
                    values[value] = choice.into();
                    flags.extend([flag.to_owned(), choice.to_owned()]);
                }
            }
            all.push((values, flags));
        }
    }
    all
}

#[test]
fn values_change_the_roles_as_flags_change_those_of_rbac() {
    for (program, name) in [(INSTALLED, "roles-installed"), (PERMISSIONS, "roles-permissions")] {
        let Some(chart) = Chart::write(program, name) else { return };
        for (values, flags) in combinations() {
            let mut values = values;
            let mut manifests = [&flags[..], &["--image".to_owned(), "example.com/program:1".to_owned()]].concat();
            if program == INSTALLED {
                values["aggregateRoles"] = true.into();
                manifests.push("--aggregate-roles".to_owned());
            }
            let all = meaning(&chart.template(&values));
            let (of_users, ours): (BTreeSet<_>, BTreeSet<_>) =
                all.iter().cloned().partition(|[place, ..]| place.ends_with(":view") || place.ends_with(":edit"));
            assert!(program != INSTALLED || !of_users.is_empty(), "it has a CRD");
            for (task, flags, ours) in [("rbac", &flags, &ours), ("manifests", &manifests, &all)] {
                let expected = meaning(&chart.printed(task, flags));
                let differ: Vec<_> = ours.symmetric_difference(&expected).collect();
                assert!(differ.is_empty(), "{task}, {values}: {differ:#?}");
            }
        }
    }
}

#[test]
fn the_documents_of_the_chart_are_those_of_manifests() {
    let Some(chart) = Chart::write(INSTALLED, "documents") else { return };
    let kinds = ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule"];
    let of = |documents: Vec<Value>| -> BTreeMap<String, Value> {
        let known = documents.into_iter().map(|document| (document["kind"].as_str().unwrap().to_owned(), document));
        known.filter(|(kind, _)| kinds.contains(&&**kind)).collect()
    };
    for (values, flags) in [
        (json!({}), ""),
        (json!({"enabled": true, "global": {"registry": "a"}}), ""),
        (json!({"leaderElection": true}), "--leader-election on"),
        (
            json!({"leaderElection": "on", "replicas": 1, "instance": "blue"}),
            "--leader-election on --replicas 1 --instance blue",
        ),
        (
            json!({"networkPolicy": true, "serviceMonitor": true, "alerts": true}),
            "--with network-policy,service-monitor,alerts",
        ),
        (json!({"alerts": true, "instance": "blue"}), "--with alerts --instance blue"),
        (
            json!({"metricsAuth": "token", "networkPolicy": true, "serviceMonitor": true}),
            "--metrics-auth token --with network-policy,service-monitor",
        ),
        (
            json!({"metricsAuth": "token", "metricsSecret": "a.b", "serviceMonitor": true, "listenProbes": ":9001"}),
            "--metrics-auth token --metrics-secret a.b --with service-monitor --listen-probes :9001",
        ),
        (
            json!({"metricsCertFile": "/a", "metricsKeyFile": "/b", "serviceMonitor": true, "instance": "blue"}),
            "--metrics-cert-file /a --metrics-key-file /b --with service-monitor --instance blue",
        ),
        (json!({"listenProbes": "off", "networkPolicy": true}), "--listen-probes off --with network-policy"),
        (
            json!({"metricsAuth": "none", "networkPolicy": true, "serviceMonitor": true}),
            "--metrics-auth none --with network-policy,service-monitor",
        ),
        (json!({"metricsAudience": "metrics"}), "--metrics-audience metrics"),
        (
            json!({"listen": "off", "listenProbes": ":9001", "networkPolicy": true, "metricsAuth": "token"}),
            "--listen off --listen-probes :9001 --with network-policy --metrics-auth token",
        ),
        (json!({"listen": "off", "metricsAuth": "token"}), "--listen off --metrics-auth token"),
        (json!({"listen": false, "networkPolicy": true}), "--listen off --with network-policy"),
        (json!({"listen": ":9000", "workers": 7, "resync": false}), "--listen :9000 --workers 7 --resync off"),
        (
            json!({"drainTimeout": "500ms", "logLevel": "info,kube=debug"}),
            "--drain-timeout 500ms --log-level info,kube=debug",
        ),
        (json!({"logLevel": false}), "--log-level off"),
        (json!({"drainTimeout": "1.s", "resync": ".5h"}), "--drain-timeout 1.s --resync .5h"),
        (json!({"statusPage": true}), "--status-page on"),
        (json!({"statusPage": "off", "metricsAuth": "token"}), "--status-page off --metrics-auth token"),
        (
            json!({"drainTimeout": "1m30s", "namespaces": ["a", "b"], "metricsAuth": "none"}),
            "--drain-timeout 1m30s --namespace a,b --metrics-auth none",
        ),
        (json!({"settings": {"tillFile": {"secretName": "installed-settings", "key": "till"}}}), "--till 1234"),
        (
            json!({"settings": {"tillFile": {"secretName": "a.b", "key": "till"}}, "metricsSecret": "a"}),
            "--till 1234 --settings-secret a.b --metrics-secret a",
        ),
        (json!({"settings": {"greeting": "hello", "quiet": true}}), "--quiet --greeting hello"),
        (json!({"settings": {"cache": false}}), "--cache=false"),
        (json!({"settings": {"cache": true, "quiet": false}}), "--cache=true"),
        (json!({"settings": {"greeting": "$(HOME)$5$$"}}), "--greeting $(HOME)$5$$"),
        (
            json!({"settings": {"closed": ["sunday", "monday"], "till-file": "/till"}}),
            "--closed sunday --closed monday --till-file /till",
        ),
    ] {
        let mut all: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
        all.extend(["--image".to_owned(), "example.com/program:1".to_owned()]);
        let (ours, expected) = (of(chart.template(&values)), of(chart.printed("manifests", &all)));
        assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{values}");
        for (kind, mut document) in ours {
            let mut expected = expected[&kind].clone();
            // Own settings are independent of each other: their order is that of names in a chart.
            for document in [&mut document, &mut expected] {
                let args = document.pointer_mut("/spec/template/spec/containers/0/args").and_then(Value::as_array_mut);
                args.into_iter().for_each(|args| {
                    args.sort_by_key(|arg| arg.as_str().map(|arg| arg.split('=').next().map(str::to_owned)));
                });
            }
            assert_eq!(document, expected, "{values}");
        }
    }
}

#[test]
fn bad_values_are_refused_with_their_name() {
    let Some(chart) = Chart::write(INSTALLED, "bad-values") else { return };
    for (values, part) in [
        (json!({"workers": 0}), "workers"),
        (json!({"worker": 3}), "worker"),
        (json!({"resync": "5"}), "resync"),
        (json!({"resync": true}), "resync"),
        (json!({"resync": "0s"}), "resync"),
        (json!({"drainTimeout": "0s"}), "drainTimeout"),
        (json!({"listen": "localhost:8080"}), "listen"),
        (json!({"listen": ":99999"}), "probes and metrics cannot be reached on :99999"),
        (json!({"instance": "Blue"}), "instance"),
        (json!({"leaderElection": "yes"}), "leaderElection"),
        (json!({"logLevel": true}), "logLevel"),
        (json!({"settings": {"greetings": "hi"}}), "greetings"),
        (json!({"settings": {"closed": "friday"}}), "closed"),
        (json!({"settings": {"quiet": "very"}}), "quiet"),
        (json!({"settings": {"cache": "maybe"}}), "cache"),
        (json!({"settings": {"greeting": 1.10}}), "greeting"),
        (json!({"settings": {"till": "1234"}}), "till"),
        (json!({"replicas": 2}), "several replicas would all handle every object"),
        (json!({"listen": "127.0.0.1:8080"}), "probes and metrics cannot be reached"),
        (json!({"namespaces": ["a"]}), "everything else of this installation has Roles alone: set `metricsAuth: none`"),
        (json!({"statusPage": true, "metricsAuth": "none"}), "anyone in the cluster could read the status page"),
        (json!({"settings": {"tillFile": "/a"}}), "tillFile"),
        (json!({"listen": "off", "serviceMonitor": true}), "serviceMonitor needs the metrics"),
        (
            json!({"metricsAudience": "a", "serviceMonitor": true}),
            "remove `metricsAudience`, or set `serviceMonitor: false`",
        ),
        (json!({"listen": "off", "alerts": true}), "alerts needs the metrics"),
        (json!({"metricsAuth": "basic"}), "metricsAuth"),
        (json!({"statusPage": "yes"}), "statusPage"),
        (json!({"metricsSecret": "a", "metricsCertFile": "/b"}), "`metricsSecret` sets the files"),
        (json!({"metricsCertFile": "/b"}), "`metricsCertFile` and `metricsKeyFile` need each other"),
        (json!({"metricsKeyFile": "/b"}), "`metricsCertFile` and `metricsKeyFile` need each other"),
        (json!({"listenProbes": ":8080"}), "metrics and probes cannot be on the same port"),
        (json!({"instance": "x".repeat(60)}), "longer than 63 characters"),
    ] {
        let (done, _, stderr) = chart.helm(&["template", "release", "CHART", "--namespace", NAMESPACE], &values);
        assert!(!done && stderr.contains(part), "{values}: {stderr}");
    }
    let (done, stdout, stderr) = chart.helm(&["lint", "--strict", "CHART"], &json!({}));
    assert!(done, "{stdout}{stderr}");
}

#[test]
fn values_that_need_a_new_cluster_or_are_for_all_clients_are_off_until_they_are_set() {
    let Some(chart) = Chart::write(INSTALLED, "choices") else { return };
    let of = |values: &Value, kind: &str| {
        let documents = chart.template(values);
        documents.into_iter().find(|document| document["kind"] == kind).unwrap()["spec"].take()
    };
    let pod = |values: Value| of(&values, "Deployment")["template"]["spec"].take();
    let usual = pod(json!({}));
    assert!(
        usual["hostUsers"].is_null() && usual["containers"][0]["resources"]["limits"]["ephemeral-storage"].is_null()
    );
    let chosen = pod(json!({"hostUsers": false, "ephemeralStorage": "100Mi", "runAsUser": null}));
    let security = &chosen["securityContext"];
    assert!(chosen["hostUsers"] == false && security["runAsUser"].is_null() && security["runAsGroup"].is_null());
    assert_eq!(pod(json!({"runAsUser": 1_000_570_000}))["securityContext"]["runAsGroup"], 1_000_570_000);
    let limits = &chosen["containers"][0]["resources"]["limits"];
    assert_eq!((&limits["ephemeral-storage"], &limits["memory"]), (&"100Mi".into(), &"512Mi".into()));
    let ingress = |from: Value| {
        of(&json!({"networkPolicy": true, "networkPolicyFrom": from}), "NetworkPolicy")["ingress"][0]["from"].take()
    };
    let monitoring = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    assert_eq!(ingress(monitoring.clone()), monitoring);
    assert_eq!(ingress(json!([])), Value::Null);
}

/// The rules of the hook's role.
fn hook_rules(documents: &[Value]) -> Vec<Value> {
    let is_hook = |one: &&Value| one["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete";
    let roles = documents.iter().filter(is_hook).filter(|one| one["kind"] == "Role");
    roles.flat_map(|role| role["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn the_role_of_the_hook_names_its_deployment_and_its_leases() {
    let Some(chart) = Chart::write(INSTALLED, "hook") else { return };
    let documents = chart.template(&json!({"leaderElection": "on", "instance": "blue"}));
    let rules = hook_rules(&documents);
    let named = |resource: &str, verb: &str| {
        let has = |rule: &&Value, field: &str, one: &str| strings(&rule[field]).iter().any(|name| name == one);
        let of = rules.iter().filter(|rule| has(rule, "resources", resource) && has(rule, "verbs", verb));
        of.map(|rule| strings(&rule["resourceNames"])).collect::<Vec<_>>()
    };
    assert_eq!(named("deployments", "get"), [["installed--blue"]]);
    assert_eq!(named("deployments/scale", "patch"), [["installed--blue"]]);
    let leases = named("leases", "delete");
    assert!(leases.len() == 1 && leases[0].len() == 2, "{leases:?}");
    assert!(leases[0].iter().all(|name| name.contains("blue")), "{leases:?}");
    let policies = documents.iter().filter(|one| !one["metadata"]["annotations"]["helm.sh/hook"].is_null());
    for document in policies {
        let policy = document["metadata"]["annotations"]["helm.sh/hook-delete-policy"].as_str().unwrap();
        assert_eq!(policy.contains("hook-failed"), document["kind"] != "Job", "{document}");
    }
}

#[test]
fn the_chart_of_a_program_with_webhooks_has_the_documents_and_roles_of_manifests() {
    let Some(chart) = Chart::write(GUARDED, "webhooks") else { return };
    let named = |documents: Vec<Value>| -> BTreeMap<String, Value> {
        let of = |kinds: &[&str], one: &Value| kinds.contains(&one["kind"].as_str().unwrap());
        let kinds = ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"];
        let own = documents.into_iter().filter(|one| of(&kinds, one));
        own.map(|one| (format!("{} {}", one["kind"], one["metadata"]["name"]), one)).collect()
    };
    for (values, flags) in [
        (json!({}), ""),
        (json!({"listen": "off", "networkPolicy": true}), "--listen off --with network-policy"),
        (json!({"hostNetwork": true, "webhookPort": 9443}), "--with host-network --webhook-port 9443"),
        (
            json!({"instance": "blue", "drainTimeout": "1s", "leaseNamespace": "a", "namespaces": ["b"]}),
            "--instance blue --drain-timeout 1s --lease-namespace a --namespace b",
        ),
    ] {
        let mut all: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
        all.extend(["--image".to_owned(), "example.com/program:1".to_owned()]);
        let (ours, expected) = (chart.template(&values), chart.printed("manifests", &all));
        let differ: Vec<_> = meaning(&ours).symmetric_difference(&meaning(&expected)).cloned().collect();
        assert!(differ.is_empty(), "{values}: {differ:#?}");
        assert_eq!(named(ours), named(expected), "{values}");
    }
    let documents = chart.template(&json!({"instance": "blue"}));
    let deleted = |kind: &str| -> Vec<(Vec<String>, Vec<String>)> {
        let roles = documents.iter().filter(|one| !one["metadata"]["annotations"]["helm.sh/hook"].is_null());
        let rules = roles.filter(|one| one["kind"] == kind).flat_map(|role| role["rules"].as_array().unwrap());
        let deleted = rules.filter(|rule| strings(&rule["verbs"]).contains(&"delete".to_owned()));
        deleted.map(|rule| (strings(&rule["resources"]), strings(&rule["resourceNames"]))).collect()
    };
    let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let configurations = text(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]);
    assert_eq!(deleted("ClusterRole"), [(configurations, text(&["guarded--webhooks.charts.blue"]))]);
    let own = deleted("Role");
    assert!(own.contains(&(text(&["secrets"]), text(&["guarded--webhook-ca.blue"]))), "{own:?}");
    for (values, problem) in [
        (json!({"leaderElection": "off"}), "webhooks need several replicas"),
        (json!({"hostNetwork": true}), "set `webhookPort` to another one"),
        (json!({"webhookPort": 8080}), "metrics or probes use port 8080"),
        (json!({"hostNetwork": true, "webhookPort": 9443, "networkPolicy": true}), "a NetworkPolicy has no effect"),
    ] {
        let (done, _, stderr) = chart.helm(&["template", "release", "CHART"], &values);
        assert!(!done && stderr.contains(problem), "{stderr}");
    }
}

#[test]
fn a_release_is_installed_upgraded_and_uninstalled_on_the_real_server() {
    let Some(chart) = Chart::write(INSTALLED, "release") else { return };
    let Some(cluster) = ControlPlane::pooled() else { return };
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let place = ["--namespace", NAMESPACE, "--kubeconfig", kubeconfig];
    let helm = |args: &[&str], values: &Value| {
        let (done, stdout, stderr) = chart.helm(&[args, &place].concat(), values);
        assert!(done, "{args:?}: {stdout}{stderr}");
    };
    helm(&["install", "release", "CHART", "--create-namespace"], &json!({"leaderElection": "on"}));
    cluster.must(&["wait", "--for=condition=established", "crd", "--all", "--timeout=60s"]);
    let shop = json!({
        "apiVersion": "installed.example.com/v1", "kind": "Shop", "spec": {},
        "metadata": {"namespace": NAMESPACE, "name": "tea", "finalizers": ["installed.example.com/shop"]},
    });
    cluster.apply([shop]);

    helm(&["upgrade", "release", "CHART"], &json!({"leaderElection": "off", "workers": 2}));
    let show = |what: &str| {
        cluster.must(&["-n", NAMESPACE, "get", what, "--output=jsonpath={.spec.strategy.type}{.spec.replicas}"])
    };
    assert_eq!(show("deployment/installed"), "Recreate1");
    assert!(cluster.kubectl(&["-n", NAMESPACE, "get", "shop", "tea"]).success, "an upgrade keeps objects");

    // There is no kubelet: what the Job's pod would run is run beside, with the Job's account.
    std::thread::scope(|scope| {
        let uninstall = scope.spawn(|| {
            let args = [&["uninstall", "release"], &place[..]].concat();
            call(Command::new("helm").args(args))
        });
        let job = || cluster.kubectl(&["-n", NAMESPACE, "get", "job", "installed-uninstall", "--output=json"]);
        until("the hook begins", || job().success.then_some(()), || job().stderr);
        let job: Value = serde_json::from_str(&job().stdout).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().unwrap();
        let kubeconfig = cluster.kubeconfig_of(NAMESPACE, account);
        let container = &pod["containers"][0];
        let mut command = Command::new(INSTALLED);
        command.args(strings(&container["args"])).env("KUBECONFIG", kubeconfig);
        for variable in container["env"].as_array().unwrap() {
            command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
        }
        let (done, stdout, stderr) = call(&mut command);
        assert!(done, "{stdout}{stderr}");
        assert!(stdout.starts_with("stop      Deployment charts/installed\n"), "{stdout}");
        let pods = ["-n", NAMESPACE, "get", "pods", "--selector=job-name=installed-uninstall", "--output=name"];
        let pod = || Some(cluster.must(&pods).trim().to_owned()).filter(|pod| !pod.is_empty());
        let pod = until("the Job has a pod", pod, String::new);
        let ended = r#"{"status":{"phase":"Succeeded"}}"#;
        cluster.must(&["-n", NAMESPACE, "patch", &pod, "--subresource=status", "--type=merge", "--patch", ended]);
        let (done, stdout, stderr) = uninstall.join().unwrap();
        assert!(done, "{stdout}{stderr}");
    });
    let finalizers = cluster.must(&["-n", NAMESPACE, "get", "shop", "tea", "--output=jsonpath={.metadata.finalizers}"]);
    assert_eq!(finalizers, "", "the object is kept, and can be deleted");
    let left = cluster.must(&["-n", NAMESPACE, "get", "deployments,services,jobs,roles,rolebindings", "--output=name"]);
    assert_eq!(left, "");
    cluster.must(&["delete", "namespace", NAMESPACE, "--timeout=60s"]);
}

/// Writes the schemas of the server's kinds for kubeconform: unknown fields are errors.
fn write_schemas(cluster: &ControlPlane, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for path in [
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/networking.k8s.io/v1",
        "apis/policy/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
    ] {
        let text = cluster.must(&["get", "--raw", &format!("/openapi/v3/{path}")]);
        let mut document: Value = serde_json::from_str(&text).unwrap();
        let mut kinds = BTreeMap::new();
        for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
            if schema["properties"].is_object() {
                schema["additionalProperties"] = false.into();
            }
            for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let (group, version) = (kind["group"].as_str().unwrap(), kind["version"].as_str().unwrap());
                if path.ends_with(&format!("{group}/{version}").replace("//", "/")) {
                    kinds.insert(kind["kind"].as_str().unwrap().to_lowercase(), name.clone());
                }
            }
        }
        // kubeconform names a group by its first part.
        let place = path.trim_start_matches("apis/").trim_start_matches("api/");
        let (group, version) = place.split_once('/').map_or((None, place), |(group, version)| (Some(group), version));
        let group = group.and_then(|group| group.split('.').next()).map(|group| format!("{group}-"));
        let version = group.unwrap_or_default() + version;
        for (kind, name) in kinds {
            let whole = json!({"$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
            fs::write(folder.join(format!("{kind}-{version}.json")), whole.to_string()).unwrap();
        }
    }
}

/// Writes the manifests with few and with many flags, and returns their folders.
fn written(folder: &Path) -> Vec<PathBuf> {
    let all = "--leader-election on --with network-policy --instance blue --namespace a,b --metrics-auth none";
    let secured = "--metrics-auth token --metrics-secret a --with network-policy";
    let mut folders = Vec::new();
    for (at, flags) in ["", "--leader-election on", "--listen off", all, secured].into_iter().enumerate() {
        let path = folder.join(at.to_string());
        let mut command = Command::new(INSTALLED);
        command.args(["manifests", "--image", "example.com/installed:1"]).args(flags.split_whitespace());
        let (done, _, stderr) = call(command.arg("--output").arg(&path));
        assert!(done, "{stderr}");
        folders.push(path);
    }
    folders
}

#[test]
fn kubeconform_accepts_every_document() {
    if !has("kubeconform") {
        return;
    }
    let Some(cluster) = ControlPlane::shared() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconform");
    drop(fs::remove_dir_all(&folder));
    let schemas = folder.join("schemas");
    write_schemas(cluster, &schemas);
    let location = format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", schemas.display());
    let mut folders = written(&folder);
    if let Some(chart) = Chart::write(INSTALLED, "kubeconform-chart") {
        let path = folder.join("chart");
        fs::create_dir_all(&path).unwrap();
        for (at, values) in [json!({}), json!({"leaderElection": "on", "networkPolicy": true})].iter().enumerate() {
            let (_, text, _) = chart.helm(&["template", "release", "CHART"], values);
            fs::write(path.join(format!("{at}.yaml")), text).unwrap();
        }
        folders.push(path);
    }
    for path in folders {
        let (done, stdout, stderr) =
            call(Command::new("kubeconform").args(["-summary", "-schema-location", &location]).arg(&path));
        assert!(done && stdout.contains("Invalid: 0, Errors: 0, Skipped: 0"), "{}: {stdout}{stderr}", path.display());
    }
}

#[test]
fn kube_score_has_no_complaint_but_the_known_ones() {
    if !has("kube-score") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kube-score");
    drop(fs::remove_dir_all(&folder));
    for path in written(&folder) {
        let args = ["score", "--output-format", "ci", "--ignore-container-cpu-limit"];
        // A tag is not pulled again, and no files are written. What handlers connect to is not limited. Without leader
        // election there is one replica, and it ends before the next one begins.
        let known = [
            "container-image-pull-policy",
            "container-ephemeral-storage-request-and-limit",
            "pod-networkpolicy",
            "deployment-strategy",
            "deployment-replicas",
        ];
        let ignored = known.iter().flat_map(|test| ["--ignore-test", test]);
        let (_, stdout, stderr) =
            call(Command::new("kube-score").args(args).args(ignored).arg(path.join("manifests.yaml")));
        let complaints: Vec<_> =
            stdout.lines().filter(|line| line.starts_with("[CRITICAL]") || line.starts_with("[WARNING]")).collect();
        assert!(complaints.is_empty() && stdout.contains("[OK]"), "{complaints:#?}\n{stderr}");
    }
}
