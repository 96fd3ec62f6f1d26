//! `uninstall` on a real API server: nothing is left that hangs without the program.

use std::process::Command;

use kooper_tests::control_plane::{ControlPlane, Output, Pooled};
use kooper_tests::process::{Process, call};
use kooper_tests::wait::{eventually, until};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_installed");
const CRD: &str = "shops.installed.example.com";

/// The objects that have finalizers of the program.
const NAMES: [&str; 5] = ["shop/tea", "shop/milk", "configmap/a", "configmap/b", "configmap/left"];

/// A cluster with the CRD, and a namespace with two shops and three ConfigMaps as the program has left them, with its
/// finalizers. The last ConfigMap is not selected any more.
struct Installed(Pooled);

fn shop(name: &str, stuck: bool) -> Value {
    json!({
        "apiVersion": "installed.example.com/v1", "kind": "Shop", "spec": {"stuck": stuck},
        "metadata": {"namespace": "trade", "name": name, "finalizers": ["installed.example.com/shop"]}
    })
}

fn config(name: &str, labels: &Value) -> Value {
    let finalizers = ["installed.example.com/config"];
    let metadata = json!({"namespace": "trade", "name": name, "labels": labels, "finalizers": finalizers});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

impl Installed {
    fn start() -> Option<Self> {
        let this = Self(ControlPlane::pooled()?);
        this.apply_crd(|crd| crd);
        let selected = json!({"shop": "yes"});
        let configs = [config("a", &selected), config("b", &selected), config("left", &json!({}))];
        this.0.create_namespace("trade", [shop("tea", false), shop("milk", false)].into_iter().chain(configs));
        Some(this)
    }

    fn apply_crd(&self, edit: impl FnOnce(String) -> String) {
        let (_, yaml, _) = self.call(&["crd"]);
        self.0.apply_text(&["--server-side", "--force-conflicts", "--validate=false"], &edit(yaml));
        self.0.must(&["wait", "--for=condition=established", "crd", CRD, "--timeout=60s"]);
    }

    fn call(&self, args: &[&str]) -> (bool, String, String) {
        call(Command::new(PROGRAM).args(args).arg("--kubeconfig").arg(self.0.kubeconfig()))
    }

    /// Runs `uninstall`, which succeeds: its stdout and its log.
    fn uninstall(&self, args: &[&str]) -> (String, String) {
        let (done, stdout, stderr) = self.call(&[&["uninstall"], args].concat());
        assert!(done, "{stdout}{stderr}");
        (stdout, stderr)
    }

    fn program(&self, args: &[&str]) -> Process {
        let kubeconfig = self.0.kubeconfig().to_str().unwrap();
        Process::start(PROGRAM, &[args, &["--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"]].concat(), &[])
    }

    /// Applies the output of `manifests`. There is no kubelet, so nothing runs.
    fn install(&self, namespace: &str) {
        let (_, yaml, _) = self.call(&["manifests", "--image", "none", "--install-namespace", namespace]);
        self.0.apply_text(&["--validate=false"], &yaml);
    }

    /// The finalizers of several objects, without those that have none.
    fn finalizers(&self, names: &[&str]) -> String {
        let path = "--output=jsonpath={.items[*].metadata.finalizers}";
        self.0.must(&[&["-n", "trade", "get", path], names].concat())
    }

    fn exists(&self, args: &[&str]) -> bool {
        let Output { success, stderr, .. } = self.0.kubectl(&[&["get", "--namespace=trade"], args].concat());
        assert!(success || stderr.contains("not found") || stderr.contains("the server doesn't have"), "{stderr}");
        success
    }

    /// Removes all finalizers, so that the next test can have the cluster.
    fn release(&self, shops: &str) {
        let shops = ["tea", "milk"].map(|name| format!("{shops}/{name}"));
        let patch = ["-n", "trade", "patch", "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#];
        self.0.must(&[&patch[..], &shops.each_ref().map(String::as_str), &NAMES[2..]].concat());
    }

    /// Deletes the namespace with everything in it and the CRD, without the program.
    fn nothing_hangs(&self) {
        self.0.must(&["delete", "namespace", "trade", "--timeout=60s"]);
        self.0.must(&["delete", "crd", CRD, "--ignore-not-found", "--timeout=60s"]);
    }
}

#[test]
fn everything_is_cleaned_up_and_removed_and_twice_is_fine() {
    let Some(installed) = Installed::start() else { return };
    let before = installed.0.must(&["-n", "trade", "get", "shops,configmaps", "--output=yaml"]);
    let (plan, _) = installed.uninstall(&["--dry-run"]);
    for line in [
        "delete    shops.installed.example.com: trade/milk, trade/tea\n",
        "clean up  configmaps: trade/a, trade/b, trade/left\n",
        "delete    CRD shops.installed.example.com, with 2 objects\n",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    assert_eq!(installed.0.must(&["-n", "trade", "get", "shops,configmaps", "--output=yaml"]), before);

    let (_, log) = installed.uninstall(&[]);
    for line in ["closed tea", "closed milk", "forgot a", "forgot b", "forgot left"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    assert!(!log.contains("opened"), "no handler is called: {log}");
    assert!(!installed.exists(&["crd", CRD]));
    assert_eq!(installed.finalizers(&NAMES[2..]), "");
    let (again, _) = installed.uninstall(&[]);
    assert!(!again.contains("delete") && !again.contains("clean up"), "{again}");
    installed.nothing_hangs();
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_cannot_be_written_is_an_error_after_everything_is_removed() {
    let Some(installed) = Installed::start() else { return };
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["uninstall", "--kubeconfig"]).arg(installed.0.kubeconfig()).stdout(full);
    let ended = command.output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("uninstall failed: stdout cannot be written: "), "{log}");
    assert!(!installed.exists(&["crd", CRD]));
    assert_eq!(installed.finalizers(&NAMES[2..]), "");
    installed.nothing_hangs();
}

#[test]
fn check_refuses_another_instance_for_the_same_namespaces() {
    let Some(installed) = Installed::start() else { return };
    let blue = ["--instance", "blue", "--namespace", "trade", "--install-namespace", "trade"];
    let image = ["--image", "example.com/installed:1", "--metrics-auth", "none"];
    let (_, manifests, _) = installed.call(&[&["manifests"], &blue[..], &image].concat());
    installed.0.apply_text(&["--server-side", "--force-conflicts"], &manifests);
    let check =
        |instance: &str, namespace: &str| installed.call(&["check", "--instance", instance, "--namespace", namespace]);
    let (fits, stdout, _) = check("green", "trade");
    let overlap = "controller shops: the instance with the Deployment trade/installed--blue handles the objects of \
                   namespace trade, too: give the instances different namespaces with `--namespace`";
    assert!(!fits && stdout.contains(overlap), "{stdout}");
    for (instance, namespace) in [("blue", "trade"), ("green", "default")] {
        let (_, stdout, _) = check(instance, namespace);
        assert!(!stdout.contains("missing  controller"), "{stdout}");
    }
    installed.release("shops");
}

#[test]
fn a_stuck_cleanup_is_named_and_orphans_are_left_on_request() {
    let Some(installed) = Installed::start() else { return };
    installed.0.apply([shop("tea", true)]);
    let (done, stdout, stderr) = installed.call(&["uninstall", "--timeout", "6s"]);
    assert!(!done && installed.exists(&["crd", CRD]), "{stdout}{stderr}");
    assert!(stderr.contains("after 6s, shops.installed.example.com still have the finalizer: trade/tea: "), "{stderr}");
    assert!(stderr.contains("the door is stuck"), "{stderr}");
    // The others were cleaned up meanwhile.
    assert!(!installed.exists(&["shop", "milk"]));
    let (stdout, log) = installed.uninstall(&["--orphan"]);
    assert!(stdout.contains("release   shops.installed.example.com: trade/tea\n"), "{stdout}");
    assert!(!log.contains("the door is stuck"), "{log}");
    assert!(!installed.exists(&["crd", CRD]));
    installed.nothing_hangs();
}

#[test]
fn cleanups_that_block_their_threads_are_named_when_the_time_is_over() {
    let Some(installed) = Installed::start() else { return };
    let threads = std::thread::available_parallelism().unwrap().get();
    installed.0.apply((0..threads).map(|nth| {
        let mut shop = shop(&format!("blocked-{nth}"), false);
        shop["spec"]["blocked"] = json!(true);
        shop
    }));
    let workers = threads.to_string();
    let (done, stdout, stderr) = installed.call(&["uninstall", "--timeout", "3s", "--workers", &workers]);
    assert!(!done && installed.exists(&["crd", CRD]), "{stdout}{stderr}");
    assert!(stderr.contains("after 3s, shops.installed.example.com still have the finalizer: "), "{stderr}");
    assert!(stderr.contains("trade/blocked-0"), "{stderr}");
    installed.uninstall(&["--orphan"]);
    installed.nothing_hangs();
}

#[test]
fn the_leases_are_deleted_unless_a_process_holds_them() {
    let Some(installed) = Installed::start() else { return };
    let election = ["--leader-election", "on"];
    let mut program = installed.program(&["run", "--leader-election", "on"]);
    let holder = |name: &str| {
        let lease = installed.0.kubectl(&["get", "lease", name, "--output=jsonpath={.spec.holderIdentity}"]);
        lease.success.then_some(lease.stdout)
    };
    let names = ["installed-shops", "installed-configs"];
    for name in names {
        eventually(name, || holder(name).is_some_and(|holder| !holder.is_empty()));
    }
    let (plan, _) = installed.uninstall(&[&["--dry-run"], &election[..]].concat());
    assert!(plan.contains("delete    Lease default/installed-shops, when `"), "{plan}");
    program.terminate();
    let (steps, _) = installed.uninstall(&election);
    for name in names {
        assert!(steps.contains(&format!("delete    Lease default/{name}\n")), "{steps}");
        assert_eq!(holder(name), None);
    }
    // A process that was not stopped keeps its Lease.
    installed.0.apply([held("default", "installed-shops", &json!({}))]);
    let (steps, _) = installed.uninstall(&election);
    assert!(steps.contains("keep      Lease default/installed-shops: `elsewhere` holds it\n"), "{steps}");
    assert_eq!(holder("installed-shops").as_deref(), Some("elsewhere"));
    installed.nothing_hangs();
}

/// A Lease that a process holds.
fn held(namespace: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
        "spec": {
            "holderIdentity": "elsewhere", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z",
        },
    })
}

#[test]
fn the_crd_is_kept_while_a_process_holds_a_lease() {
    let Some(installed) = Installed::start() else { return };
    installed.0.apply([held("default", "installed-shops", &json!({}))]);
    // Without a cleanup, nothing waits for the Lease.
    let args = ["--orphan", "--leader-election", "on"];
    let (plan, _) = installed.uninstall(&[&["--dry-run"], &args[..]].concat());
    assert!(plan.contains("delete    Lease default/installed-shops, when `elsewhere` has released it\n"), "{plan}");
    let (done, stdout, stderr) = installed.call(&[&["uninstall", "--timeout", "5s"], &args[..]].concat());
    assert!(!done && !stdout.contains("delete    CRD"), "{stdout}{stderr}");
    assert_eq!(
        stdout.matches("wait      Lease default/installed-shops: `elsewhere` holds it\n").count(),
        1,
        "{stdout}"
    );
    assert!(
        stderr.contains("after 5s, `elsewhere` still holds the Lease default/installed-shops, so the CRDs are kept"),
        "{stderr}"
    );
    assert!(installed.exists(&["shop", "tea"]) && installed.exists(&["shop", "milk"]));
    installed.0.must(&["delete", "lease", "installed-shops"]);
    installed.uninstall(&args);
    assert!(!installed.exists(&["crd", CRD]));
    installed.nothing_hangs();
}

#[test]
fn the_leases_of_shards_are_deleted_unless_a_member_works() {
    let namespace = "uninstalled-shards";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let place = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--lease-namespace", namespace];
    let leases = || cluster.must(&["-n", namespace, "get", "leases", "--output=name"]);
    let map = || cluster.must(&["-n", namespace, "get", "lease", "shared-shared", "--output=jsonpath={.metadata.uid}"]);
    let uninstall = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shared"));
        let (done, stdout, stderr) =
            call(command.arg("uninstall").args(place).args(["--install-namespace", namespace]));
        assert!(done, "{stdout}{stderr}");
        stdout
    };
    let shared = env!("CARGO_BIN_EXE_shared");
    let mut program = Process::start(shared, &[&["run", "--listen", "127.0.0.1:0"], &place[..]].concat(), &[]);
    program.wait_for_metric("kooper_shards_owned{controller=\"shared\"}", |owned| owned == 32.0);
    let uid = map();
    let kept = uninstall();
    let kept: Vec<&str> = kept.lines().filter(|line| line.starts_with("keep ")).collect();
    let is_held = |line: &&str| line.starts_with("keep      Lease ") && line.ends_with("` holds it");
    assert!(kept.len() == 2 && kept.iter().all(is_held), "the map and the Lease of the member: {kept:?}");
    assert!(kept[0].starts_with(&format!("keep      Lease {namespace}/shared-shared: `")), "{kept:?}");
    assert_eq!(map(), uid);

    let used = leases();
    assert_eq!(used.lines().count(), 2, "{used}");
    program.terminate();
    let stdout = uninstall();
    for lease in used.lines() {
        let name = lease.rsplit('/').next().unwrap();
        assert!(stdout.contains(&format!("delete    Lease {namespace}/{name}\n")), "{stdout}");
    }
    assert_eq!(leases(), "");
}

#[test]
fn an_interrupted_run_is_continued() {
    let Some(installed) = Installed::start() else { return };
    installed.0.apply([shop("tea", true)]);
    let mut first = installed.program(&["uninstall", "--leader-election", "on"]);
    first.wait_for_line(&["the door is stuck"]);
    first.signal("INT");
    assert_eq!(first.exit_code(), Some(1));
    first.wait_for_line(&["SIGINT: interrupted; run `uninstall` again to continue"]);
    assert!(installed.exists(&["crd", CRD]));
    // The Lease is released: the next run does not wait until it expires.
    let holder = ["get", "lease", "installed-shops", "--output=jsonpath={.spec.holderIdentity}"];
    assert_eq!(installed.0.must(&holder), "");
    let mend = r#"{"spec":{"stuck":false}}"#;
    installed.0.must(&["-n", "trade", "patch", "shop", "tea", "--type=merge", "--patch", mend]);
    let (_, log) = installed.uninstall(&["--leader-election", "on"]);
    assert!(log.contains("closed tea"), "{log}");
    installed.nothing_hangs();
}

#[test]
fn kept_crds_keep_their_objects_and_only_deleted_ones_are_cleaned_up() {
    let Some(installed) = Installed::start() else { return };
    installed.0.must(&["-n", "trade", "delete", "shop", "tea", "--wait=false"]);
    let (_, log) = installed.uninstall(&["--keep-crds"]);
    assert!(log.contains("closed tea") && !log.contains("closed milk") && !log.contains("forgot"), "{log}");
    assert!(!installed.exists(&["shop", "tea"]));
    assert_eq!(installed.finalizers(&NAMES[1..]), "");
    installed.nothing_hangs();
}

#[test]
fn objects_that_another_installation_handles_too_are_not_changed() {
    let Some(installed) = Installed::start() else { return };
    installed.install("default");
    installed.install("trade");
    let finalizers = || installed.finalizers(&NAMES);
    let before = finalizers();
    let keep = ["uninstall", "--keep-crds"];
    let with_election = ["--leader-election", "on"];
    let refused = |flags: &[&str], of: &str| {
        let (done, stdout, stderr) = installed.call(&[&keep[..], flags].concat());
        assert!(!done && stdout.is_empty(), "{flags:?}: {stdout}{stderr}");
        let reason = format!("another installation of this program, with the {of}, too, in the controller `");
        assert!(stderr.contains(&reason), "{flags:?}: {stderr}");
        assert_eq!(finalizers(), before, "{flags:?}");
    };
    let everywhere = "Deployment trade/installed, handles the objects of all namespaces";
    refused(&[], everywhere);
    refused(&["--orphan"], everywhere);
    refused(&["--dry-run"], everywhere);
    let one = "Deployment trade/installed, handles the objects of namespace trade";
    refused(&["--namespace", "trade"], one);
    let replicas = |namespace: &str| {
        installed.0.must(&["-n", namespace, "get", "deployment", "installed", "--output=jsonpath={.spec.replicas}"])
    };
    assert_eq!(replicas("default"), "1", "it still runs");
    // A Deployment for other namespaces is no obstacle.
    let env = |value: &str| {
        let set = format!("KOOPER_NAMESPACE{value}");
        installed.0.must(&["-n", "trade", "set", "env", "deployment/installed", &set]);
    };
    env("=elsewhere");
    installed.uninstall(&[&keep[1..], &["--dry-run", "--namespace", "trade"]].concat());
    env("-");
    refused(&[], everywhere);
    installed.0.must(&["-n", "trade", "scale", "deployment", "installed", "--replicas=0"]);
    // Another one without a Deployment of `manifests` is known by its Lease.
    let annotations = json!({"kooper.rs/controller": "installed.blue/configs", "kooper.rs/namespaces": "trade"});
    installed.0.apply([held("trade", "installed-configs.blue", &annotations)]);
    let blue = "Lease trade/installed-configs.blue, handles the objects of namespace trade";
    refused(&with_election, blue);
    installed.0.must(&["-n", "trade", "delete", "lease", "installed-configs.blue"]);
    let (stdout, _) = installed.uninstall(&keep[1..]);
    assert!(stdout.starts_with("stop      Deployment default/installed\n"), "{stdout}");
    assert!(stdout.contains("release   shops.installed.example.com: trade/milk, trade/tea;"), "{stdout}");
    assert_eq!(finalizers(), "");
    installed.nothing_hangs();
}

#[test]
fn the_crd_of_another_program_is_kept_with_its_objects() {
    let Some(installed) = Installed::start() else { return };
    installed.apply_crd(|yaml| yaml.replace("kooper.rs/program: installed", "kooper.rs/program: market"));
    let (stdout, log) = installed.uninstall(&[]);
    let line = "keep      CRD shops.installed.example.com: it belongs to the program `market`\n";
    assert!(stdout.contains(line), "{stdout}");
    assert!(log.contains("closed tea") && log.contains("closed milk"), "{log}");
    assert_eq!(installed.finalizers(&["shop/tea", "shop/milk"]), "");
    installed.0.must(&["annotate", "crd", CRD, "kooper.rs/program-"]);
    let (stdout, _) = installed.uninstall(&[]);
    assert!(stdout.contains("it was not installed by this program: `kubectl delete crd"), "{stdout}");
    installed.nothing_hangs();
}

#[test]
fn a_version_that_the_cluster_does_not_serve_changes_nothing() {
    let Some(installed) = Installed::start() else { return };
    let older = r#"{"spec": {"versions": [{"name": "v1", "served": false, "storage": true, "schema": SCHEMA},
        {"name": "v0", "served": true, "storage": false, "schema": SCHEMA}]}}"#;
    let schema = r#"{"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}"#;
    installed.0.must(&["patch", "crd", CRD, "--type=merge", "--patch", &older.replace("SCHEMA", schema)]);
    for args in [&["uninstall"][..], &["uninstall", "--keep-crds"], &["uninstall", "--dry-run"]] {
        eventually("the version is gone", || {
            let (done, _, stderr) = installed.call(&[args, &["--timeout", "5s"]].concat());
            !done && stderr.contains("the cluster serves shops.installed.example.com in v0, but not in v1,")
        });
    }
    assert!(installed.exists(&["crd", CRD]));
    let shop = ["--namespace=trade", "get", "shops.v0.installed.example.com", "tea"];
    let finalizers = installed.0.must(&[&shop[..], &["--output=jsonpath={.metadata.finalizers}"]].concat());
    assert!(finalizers.contains("installed.example.com/"), "{finalizers}");
    installed.release("shops.v0.installed.example.com");
}

#[test]
fn the_deployment_is_stopped_first_and_another_installation_keeps_the_crds() {
    let Some(installed) = Installed::start() else { return };
    installed.install("default");
    installed.install("trade");
    let (done, _, stderr) = installed.call(&["uninstall"]);
    assert!(
        !done && stderr.contains("the installation trade/installed of this program needs the CRDs, too"),
        "{stderr}"
    );
    assert!(installed.exists(&["shop", "tea"]));
    installed.0.must(&["-n", "trade", "delete", "deployment", "installed"]);
    // Another one without a Deployment of `manifests` is known by its Lease.
    let annotations = json!({"kooper.rs/controller": "installed.blue/shops"});
    installed.0.apply([held("trade", "installed-shops.blue", &annotations)]);
    let (done, _, stderr) = installed.call(&["uninstall"]);
    assert!(!done && stderr.contains("with the Lease trade/installed-shops.blue of this program needs"), "{stderr}");
    assert!(installed.exists(&["shop", "tea"]));
    installed.0.must(&["-n", "trade", "delete", "lease", "installed-shops.blue"]);
    let (stdout, _) = installed.uninstall(&[]);
    assert!(stdout.starts_with("stop      Deployment default/installed\n"), "{stdout}");
    let replicas = || installed.0.must(&["get", "deployment", "installed", "--output=jsonpath={.spec.replicas}"]);
    until("it has no replicas", || (replicas() == "0").then_some(()), replicas);
}
