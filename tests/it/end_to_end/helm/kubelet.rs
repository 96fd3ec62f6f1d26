//! A scheduler and kwok, which make pods ready, and what a kubelet does for the pods of the release: their processes run
//! beside the cluster, and end before their pods are deleted.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kooper_tests::process::Process;
use serde_json::{Value, json};

use super::release::{NAMESPACE, Release};

/// Puts the files of the account where a kubelet mounts them: in `/run`, which is `/var/run`, too.
const MOUNT: &str = r#"
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$1"/* /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"#;

/// Dropping it ends all processes.
pub(super) struct Kubelet {
    pods: Arc<Pods>,
    thread: Option<JoinHandle<()>>,
    _nodes: [Process; 2],
}

struct Pods {
    release: Arc<Release>,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The processes by the names of their pods.
    running: BTreeMap<String, Process>,
    /// Output of the processes that have ended, by the names of their pods.
    ended: BTreeMap<String, String>,
}

impl Kubelet {
    /// Starts it, with a node.
    pub(super) fn start(release: &Arc<Release>) -> Self {
        let kubeconfig = release.cluster.kubeconfig();
        let mut scheduler = Command::new("kube-scheduler");
        scheduler.args(["--leader-elect=false", "--secure-port=0", "--kubeconfig"]).arg(kubeconfig);
        let mut kwok = Command::new("kwok");
        kwok.args(["--manage-all-nodes", "--node-lease-duration-seconds=40", "--kubeconfig"]).arg(kubeconfig);
        for stage in fs::read_dir(release.file("stages")).expect("the folder exists") {
            kwok.arg("--config").arg(stage.expect("a file").path());
        }
        let nodes = [Process::run(&mut scheduler), Process::run(&mut kwok)];
        release.cluster.apply([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})]);
        let ready = release.cluster.kubectl(&["wait", "node/node", "--for=condition=Ready", "--timeout=60s"]);
        assert!(ready.success, "{}\n{}", ready.stderr, nodes[1].lines().join("\n"));

        let pods = Arc::new(Pods {
            release: release.clone(),
            stop: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        });
        let own = pods.clone();
        let thread = thread::spawn(move || {
            while !own.stop.load(Ordering::Relaxed) {
                own.follow();
                thread::park_timeout(Duration::from_millis(100));
            }
        });
        Self { pods, thread: Some(thread), _nodes: nodes }
    }

    /// Looks at each process that runs, with the name of its pod.
    pub(super) fn each<T>(&self, look: impl Fn(&str, &Process) -> T) -> Vec<T> {
        self.pods.with(|state| state.running.iter().map(|(name, process)| look(name, process)).collect())
    }

    /// Returns the output of the last process of this Job, if it has ended.
    pub(super) fn log_of(&self, job: &str) -> Option<String> {
        self.pods.with(|state| state.ended.iter().rfind(|(pod, _)| pod.starts_with(job)).map(|(_, log)| log.clone()))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.pods.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been printed.
            drop(thread.join());
        }
    }
}

impl Pods {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock())
    }

    /// Brings the processes to the state of the pods.
    fn follow(&self) {
        for pod in self.release.pods() {
            let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            if pod["metadata"]["deletionTimestamp"].is_string() {
                if let Some(process) = self.with(|state| state.running.remove(&name)) {
                    self.end(&name, process);
                }
                // The API server deletes a pod when its kubelet reports that nothing runs.
                let now = ["--grace-period=0", "--force", "--ignore-not-found", "--wait=false"];
                self.release.cluster.must(&[&["delete", "pod", &name, "--namespace", &namespace], &now[..]].concat());
            } else if namespace == NAMESPACE && pod["status"]["phase"] == "Running" {
                let ended = self.with(|state| state.running.get(&name).map(Process::has_ended));
                match ended {
                    None => {
                        let process = self.run(&pod);
                        self.with(|state| state.running.insert(name, process));
                    }
                    Some(true) => self.complete(&pod, &name),
                    Some(false) => {}
                }
            }
        }
    }

    /// Ends a process as a kubelet does.
    fn end(&self, name: &str, mut process: Process) {
        process.terminate();
        self.with(|state| state.ended.insert(name.to_owned(), process.lines().join("\n")));
    }

    /// Reports that the process of a pod has ended by itself, as that of a Job does.
    fn complete(&self, pod: &Value, name: &str) {
        let Some(mut process) = self.with(|state| state.running.remove(name)) else { return };
        let log = process.lines().join("\n");
        assert_eq!(pod["spec"]["restartPolicy"], "Never", "{name} has ended: {log}");
        let phase = if process.exit_code() == Some(0) { "Succeeded" } else { "Failed" };
        self.with(|state| state.ended.insert(name.to_owned(), log));
        let patch = json!({"status": {"phase": phase}}).to_string();
        let args = ["patch", "pod", name, "--subresource=status", "--type=merge", "--patch", &patch];
        self.release.cluster.must(&[&["--namespace", NAMESPACE], &args[..]].concat());
    }

    /// Runs what the container of a pod runs, with its arguments and variables, and a token of its account that is bound
    /// to the pod.
    fn run(&self, pod: &Value) -> Process {
        let cluster = &self.release.cluster;
        let (name, container) = (text(&pod["metadata"]["name"]), &pod["spec"]["containers"][0]);
        let account = text(&pod["spec"]["serviceAccountName"]);
        let token = cluster.must(&[
            "create",
            "token",
            &account,
            "--namespace",
            NAMESPACE,
            "--bound-object-kind=Pod",
            "--bound-object-name",
            &name,
            "--bound-object-uid",
            &text(&pod["metadata"]["uid"]),
        ]);
        let folder = self.release.file(&format!("account-{name}"));
        fs::create_dir_all(&folder).expect("a folder");
        for (name, content) in [("token", token.trim()), ("namespace", NAMESPACE)] {
            fs::write(folder.join(name), content).expect("written");
        }
        fs::copy(cluster.dir().join("certificates/apiserver.crt"), folder.join("ca.crt")).expect("copied");

        let image = text(&container["image"]);
        let version = image.rsplit_once(':').map_or("", |(_, version)| version);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-e", "-c", MOUNT, "sh"]);
        command.arg(folder).arg(self.release.executable(version)).args(list(&container["args"]).iter().map(text));
        command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
        for variable in list(&container["env"]) {
            command.env(text(&variable["name"]), text(&variable["value"]));
        }
        command.env("KUBERNETES_SERVICE_HOST", cluster.address().ip().to_string());
        command.env("KUBERNETES_SERVICE_PORT", cluster.address().port().to_string());
        // A pod has an address of its own; these processes share one.
        command.env("KOOPER_LISTEN", "127.0.0.1:0").env("KOOPER_LISTEN_PROBES", "127.0.0.1:0");
        Process::run(&mut command)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}
