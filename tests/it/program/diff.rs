//! `diff`: what one pass over the objects of files would write.

use parking_lot::MutexGuard;
use std::path::Path;
use std::process::{Command, Stdio};

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::dev::Home;
use serde_json::json;

use crate::program::dry_run::{PROGRAM, call, cluster, config, shop, state};

struct Diffed {
    cluster: MutexGuard<'static, ControlPlane>,
    home: Home,
}

impl Diffed {
    fn start(name: &str) -> Option<Self> {
        Some(Self { cluster: cluster()?, home: Home::new(env!("CARGO_TARGET_TMPDIR"), name) })
    }

    fn diff(&self, args: &[&str]) -> (Option<i32>, String, String) {
        call(self.cluster.kubeconfig(), &[&["diff"], args].concat())
    }

    /// The diff of a file with this text.
    fn of(&self, name: &str, text: &str) -> (Option<i32>, String, String) {
        self.diff(&["--filename", &self.home.file(name, text)])
    }
}

#[test]
fn an_object_is_compared_with_what_its_controllers_would_make_of_it() {
    let Some(diffed) = Diffed::start("diff") else { return };
    let before = state(&diffed.cluster);
    // One that does not exist yet.
    let (code, text, log) = diffed.of("new.json", &shop("new", "hi", false).to_string());
    assert_eq!(code, Some(1), "{text}{log}");
    for part in [
        "--- /dev/null\n+++ after/configmaps.trade.new-config\n",
        "--- before/shops.rehearsed.example.com.trade.new\n+++ after/shops.rehearsed.example.com.trade.new\n",
        "+  finalizers:\n",
        "--- before/configmaps.trade.stale\n+++ /dev/null\n",
        "+  password: '***'\n",
        "hi in the cache, fetched true, twice true",
    ] {
        assert!(text.contains(part) || text.contains(&part.replace('\'', "\"")), "{part}: {text}{log}");
    }
    assert!(!text.contains("tea") && !text.contains("\x1b["), "{text}");
    // One that exists: its state in the cluster is the starting point, and the file is applied to it.
    let (code, text, log) = diffed.of("tea.json", &shop("tea", "changed", false).to_string());
    assert_eq!(code, Some(1), "{text}{log}");
    assert!(text.contains("+  greeting: changed\n"), "{text}");
    // As kubectl prints it, with all that a server adds.
    let stored = diffed.cluster.must(&["-n", "trade", "get", "shop", "tea", "--output=yaml", "--show-managed-fields"]);
    let (code, stored, log) = diffed.of("stored.yaml", &stored);
    assert_eq!(code, Some(1), "{stored}{log}");
    assert!(stored.contains("configmaps.trade.tea-config\n"), "{stored}");
    // With colours on request.
    let file = diffed.home.file("tea.json", &shop("tea", "changed", false).to_string());
    let (_, colored, _) = diffed.diff(&["-f", &file, "--color", "always"]);
    assert!(colored.contains("\x1b[32m+"), "{colored}");
    assert_eq!(state(&diffed.cluster), before);
    // A label that `kubectl apply` had applied before is removed when the file no longer has it.
    let mut tagged = shop("tea", "hello", false);
    tagged["metadata"]["labels"] = json!({"tagged": "blue", "kept": "blue"});
    diffed.cluster.apply([tagged.clone()]);
    // Annotations that were never applied are those of others.
    diffed.cluster.must(&["-n", "trade", "annotate", "shop", "tea", "zone.example.com/door=open"]);
    tagged["metadata"]["labels"] = json!({"kept": "blue"});
    let (code, text, log) = diffed.of("tagged.json", &tagged.to_string());
    assert_eq!(code, Some(1), "{text}{log}");
    assert!(text.contains("\n     kept: blue\n") && !text.contains("tagged"), "{text}{log}");
    assert!(text.contains("\n     zone.example.com/door: open\n"), "{text}{log}");
}

#[test]
fn several_objects_folders_and_stdin_are_read() {
    let Some(diffed) = Diffed::start("diff-several") else { return };
    diffed.home.file("folder/a.json", &shop("a", "", false).to_string());
    diffed.home.file("folder/b.json", &shop("b", "", false).to_string());
    // A ConfigMap that no controller selects is part of the starting point.
    let other = diffed.home.file("c.json", &config("stale-too").to_string());
    let folder = diffed.home.path().join("folder");
    let (code, text, log) = diffed.diff(&["-f", folder.to_str().unwrap(), "-f", &other]);
    assert_eq!(code, Some(1), "{text}{log}");
    assert!(text.contains("trade.a-config\n") && text.contains("trade.b-config\n"), "{text}{log}");
    assert!(log.contains("the controller `configs` does not handle trade/stale-too"), "{log}");

    let mut child = Command::new(PROGRAM)
        .args(["diff", "-f", "-", "--kubeconfig"])
        .arg(diffed.cluster.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let yaml =
        "apiVersion: rehearsed.example.com/v1\nkind: Shop\nmetadata: {name: piped, namespace: trade}\nspec: {}\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), yaml.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("trade.piped-config\n"));
}

#[test]
fn no_difference_exits_with_0_and_an_error_with_2() {
    let Some(diffed) = Diffed::start("diff-errors") else { return };
    // Nothing is selected, so nothing is written; `stale` exists already.
    diffed.cluster.must(&["-n", "trade", "create", "secret", "generic", "init"]);
    let (code, text, log) = diffed.of("stale.json", &config("stale").to_string());
    assert_eq!((code, &*text), (Some(0), ""), "{log}");
    let (code, text, log) = diffed.of("broken.json", &shop("broken", "", true).to_string());
    assert_eq!(code, Some(2), "{text}{log}");
    assert!(log.contains("the door is stuck"), "{log}");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}).to_string();
    let mut cluster_scoped = shop("a", "", false);
    cluster_scoped["metadata"]["namespace"] = "nowhere".into();
    let mut other_version = shop("a", "", false);
    other_version["apiVersion"] = "rehearsed.example.com/v2".into();
    let mut mistyped = shop("a", "", false);
    mistyped["spec"]["greetign"] = "hello".into();
    for (text, message) in [
        (
            pod,
            "no controller of this program handles Pod of v1: they handle ConfigMap of v1, ServiceAccount of v1, Shop of \
             rehearsed.example.com/v1",
        ),
        (
            cluster_scoped.to_string(),
            "the namespace `nowhere` does not exist: create it with `kubectl create namespace nowhere`",
        ),
        (other_version.to_string(), "handles Shop of rehearsed.example.com/v2: write rehearsed.example.com/v1"),
        (mistyped.to_string(), "greetign"),
        ("# nothing\n".to_owned(), "the files contain no objects"),
        ("kind: Shop\n".to_owned(), "`apiVersion` is missing"),
    ] {
        let (code, stdout, log) = diffed.of("wrong.yaml", &text);
        assert_eq!((code, &*stdout), (Some(2), ""), "{log}");
        assert!(log.contains(message), "{message}: {log}");
    }
    let (code, _, log) = diffed.diff(&[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("the objects are missing: write `-f FILE`"), "{log}");
    let missing = diffed.home.path().join("none.yaml");
    let (code, _, log) = diffed.diff(&["-f", missing.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{log}");
    let (code, _, log) = {
        let file = diffed.home.file("a.json", &shop("a", "", false).to_string());
        call(Path::new(diffed.cluster.kubeconfig()), &["diff", "-f", &file, "--namespace", "other"])
    };
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("the controller `shops` watches other namespaces: other"), "{log}");
    #[cfg(target_os = "linux")]
    {
        let file = diffed.home.file("new.json", &shop("new", "", false).to_string());
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["diff", "-f", &file, "--kubeconfig"]).arg(diffed.cluster.kubeconfig()).stdout(full);
        assert_eq!(command.output().unwrap().status.code(), Some(2), "the diff is incomplete");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn check_and_a_dry_run_fail_if_stdout_cannot_be_written() {
    let Some(cluster) = cluster() else { return };
    for (args, what) in [(&["check"][..], "check failed"), (&["run", "--dry-run"][..], "dry run failed")] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(args).arg("--kubeconfig").arg(cluster.kubeconfig()).stdout(full);
        let ended = command.output().unwrap();
        let log = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{log}");
        assert!(log.contains(&format!("{what}: stdout cannot be written: ")), "{log}");
    }
}
