//! `run --webhook-url`: the webhooks of a program on a developer's machine, called by a real API server.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use kooper_tests::control_plane::{ControlPlane, Output};
use kooper_tests::faults::Proxy;
use kooper_tests::process::Process;
use kooper_tests::wait::{eventually, until};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_guarded");
const KINDS: [&str; 2] = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];

/// A namespace of a cluster, and the address at which it reaches this machine.
struct Ground {
    cluster: &'static ControlPlane,
    namespace: &'static str,
    url: String,
}

impl Ground {
    fn new(namespace: &'static str) -> Option<Self> {
        let cluster = ControlPlane::shared_in(namespace, [])?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let url = format!("https://{}", free.expect("a free port"));
        Some(Self { cluster, namespace, url })
    }

    fn start(&self) -> Process {
        self.start_with(self.cluster.kubeconfig())
    }

    fn start_with(&self, kubeconfig: &Path) -> Process {
        let kubeconfig = kubeconfig.to_str().expect("the path is UTF-8");
        let args = ["run", "--webhook-url", &self.url, "--namespace", self.namespace, "--listen", "127.0.0.1:0"];
        let program = Process::start(
            PROGRAM,
            &[&args[..], &["--lease-namespace", self.namespace]].concat(),
            &[("KUBECONFIG", kubeconfig)],
        );
        program.wait_for_page("/readyz", 200, &[]);
        program
    }

    /// Creates a shop as a dry run.
    fn create(&self, namespace: &str, seats: i32) -> Output {
        let shop = json!({
            "apiVersion": "guarded.example.com/v1", "kind": "Shop",
            "metadata": {"name": "a", "namespace": namespace}, "spec": {"seats": seats},
        });
        let args = ["create", "--dry-run=server", "--validate=false", "-o", "jsonpath={.spec.flavour}", "-f", "-"];
        self.cluster.kubectl_with(&args, &shop.to_string())
    }

    /// Waits until both webhooks are called.
    fn is_guarded(&self) {
        let denied = || self.create(self.namespace, -1).stderr;
        let is_denied = || denied().contains("spec.seats: must not be negative").then_some(());
        until("a bad shop is denied", is_denied, denied);
        let filled = || self.create(self.namespace, 1);
        until("a shop is filled", || (filled().stdout == "vanilla").then_some(()), || filled().stderr);
    }

    /// The entries of both configurations of the program in this namespace.
    fn entries(&self) -> Vec<Value> {
        let mut entries = Vec::new();
        for kind in KINDS {
            let all: Value = serde_json::from_str(&self.cluster.must(&["get", kind, "-o", "json"])).expect("JSON");
            let suffix = format!("--webhooks.{}", self.namespace);
            for one in all["items"].as_array().expect("a list") {
                let name = one["metadata"]["name"].as_str().expect("a name");
                if name.ends_with(&suffix) {
                    assert!(name.starts_with("guarded-run-"), "it is not that of an installation: {name}");
                    entries.extend(one["webhooks"].as_array().expect("a list").clone());
                }
            }
        }
        entries
    }

    fn exists(&self, kind: &str) -> bool {
        self.cluster.must(&["get", kind, "-n", self.namespace, "-o", "name"]).contains("guarded-run-")
    }
}

#[test]
fn the_webhooks_of_this_machine_are_called_in_its_namespaces_with_ignore_and_removed_by_ctrl_c() {
    let Some(ground) = Ground::new("webhook-url") else { return };
    let mut program = ground.start();
    ground.is_guarded();
    eventually("both are registered", || ground.entries().len() == 4);
    for entry in ground.entries() {
        assert_eq!(entry["failurePolicy"], "Ignore", "{entry}");
        assert_eq!(entry["namespaceSelector"]["matchExpressions"][0]["values"], json!(["webhook-url"]), "{entry}");
    }
    let elsewhere = ground.create("default", -1);
    assert!(elsewhere.success && elsewhere.stdout.is_empty(), "{}", elsewhere.stderr);
    assert!(ground.exists("leases") && ground.exists("secrets"));

    program.signal("INT");
    assert_eq!(program.exit_code(), Some(0), "{}", program.lines().join("\n"));
    assert_eq!(ground.entries(), Vec::<Value>::new());
    assert!(!ground.exists("leases") && !ground.exists("secrets"));
    assert!(ground.create("webhook-url", -1).success, "nobody is asked");
}

#[test]
fn a_killed_program_on_this_machine_denies_nothing_and_the_next_one_takes_its_webhooks_over() {
    let Some(ground) = Ground::new("webhook-url-killed") else { return };
    let mut program = ground.start();
    ground.is_guarded();
    program.signal("KILL");
    program.exit_code();
    let created = ground.create("webhook-url-killed", -1);
    assert!(created.success, "{}", created.stderr);
    assert_eq!(ground.entries().len(), 4, "they stay");

    let mut program = ground.start();
    ground.is_guarded();
    program.terminate();
    assert_eq!(ground.entries(), Vec::<Value>::new());
}

#[test]
fn a_second_signal_ends_a_program_that_cannot_remove_its_webhooks() {
    let Some(ground) = Ground::new("webhook-url-held") else { return };
    let (server, proxy) = (ground.cluster.address(), Proxy::start(ground.cluster.address()));
    let proxied = |direct: String| direct.replace(&server.to_string(), &proxy.address().to_string());
    let mut program = ground.start_with(&ground.cluster.kubeconfig_with("webhook-url-held", proxied));
    ground.is_guarded();
    proxy.hold_answers();
    program.signal("TERM");
    program.wait_for_line(&["stopped"]);
    program.signal("TERM");
    assert_eq!(program.exit_code(), Some(143), "{}", program.lines().join("\n"));
}

#[test]
fn an_address_of_this_machine_needs_namespaces() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let kubeconfig = cluster.kubeconfig().to_str().expect("the path is UTF-8");
    let args = ["run", "--webhook-url", "https://127.0.0.1:1", "--listen", "off"];
    let mut program = Process::start(PROGRAM, &args, &[("KUBECONFIG", kubeconfig)]);
    program.wait_for_line(&["`--webhook-url` needs `--namespace NAME`"]);
    assert_ne!(program.exit_code(), Some(0));
}
