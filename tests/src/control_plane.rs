//! A real Kubernetes control plane for tests: etcd, kube-apiserver and
//! kube-controller-manager on loopback, by the scripts in `tests/control-plane`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// A running instance with data of its own. Dropping it stops it; when the
/// process ends without that, a watchdog does.
#[derive(Debug)]
#[must_use = "dropping it stops the instance"]
pub struct ControlPlane {
    dir: PathBuf,
    kubeconfig: PathBuf,
    limited_kubeconfig: PathBuf,
}

/// How a command ended and what it printed.
#[derive(Clone, Debug)]
pub struct Output {
    /// Whether it exited with 0.
    pub success: bool,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl ControlPlane {
    /// Starts a fresh instance; `None`, with a line that says so, where there
    /// is neither Go nor a folder with the binaries.
    ///
    /// # Panics
    ///
    /// If the instance doesn't start, and instead of `None` where
    /// `KOOPER_REQUIRE_CONTROL_PLANE` is set.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts a fresh instance with options of the `start` script, such as
    /// `--without-controller-manager` or `--without-streaming-lists`.
    ///
    /// # Panics
    ///
    /// As [`ControlPlane::start`].
    pub fn start_with(options: &[&str]) -> Option<Self> {
        assets()?;
        let parent = process::id().to_string();
        let printed = script("start", &[&["--parent", &parent], options].concat());
        let kubeconfig = PathBuf::from(printed.trim_end());
        let dir = kubeconfig.parent().expect("a kubeconfig is in a folder").to_owned();
        let limited_kubeconfig = dir.join("limited.kubeconfig");
        Some(Self { dir, kubeconfig, limited_kubeconfig })
    }

    /// The instance that all tests of this process share, started by the first
    /// that asks. A test must not stop it, and needs a namespace of its own.
    ///
    /// # Panics
    ///
    /// As [`ControlPlane::start`].
    pub fn shared() -> Option<&'static Self> {
        // Statics are never dropped: the watchdog stops this one.
        static SHARED: OnceLock<Option<ControlPlane>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// The kubeconfig of a user in `system:masters`.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubeconfig of the user `limited`, who may do nothing until a test
    /// grants rules to it.
    #[must_use]
    pub fn limited_kubeconfig(&self) -> &Path {
        &self.limited_kubeconfig
    }

    /// The folder with the data, and with the log `NAME.log` of each process.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs kubectl as the user in `system:masters`.
    ///
    /// # Panics
    ///
    /// If kubectl can't be run.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.kubectl_with(args, "")
    }

    /// Runs kubectl as [`ControlPlane::kubectl`] does, with an input, as for `apply -f -`.
    ///
    /// # Panics
    ///
    /// If kubectl can't be run.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .kubectl_command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is in the assets or on the path");
        // A kubectl that asks for no input may end before it is written.
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("kubectl can be waited for");
        drop(writer.join());
        Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn must(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(output.success, "kubectl {args:?}: {}", output.stderr);
        output.stdout
    }

    /// Applies objects, all in one call.
    ///
    /// # Panics
    ///
    /// If one is refused.
    pub fn apply(&self, objects: impl IntoIterator<Item = Value>) {
        let items: Vec<_> = objects.into_iter().collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let output = self.kubectl_with(&["apply", "--filename=-"], &list);
        assert!(output.success, "kubectl apply: {}", output.stderr);
    }

    /// kubectl with these arguments, not started yet: for one that goes on running, as `proxy` does.
    #[must_use]
    pub fn kubectl_command(&self, args: &[&str]) -> Command {
        let beside = assets().map(|folder| folder.join("kubectl")).filter(|path| path.exists());
        let mut command = Command::new(beside.as_deref().unwrap_or(Path::new("kubectl")));
        command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            // The usual place is keyed by port: a later instance on it would be taken for this one.
            .env("KUBECACHEDIR", self.dir.join("kubectl-cache"));
        command
    }

    /// Writes a kubeconfig like that of the user in `system:masters`, changed by `edit`, and returns its path.
    ///
    /// # Panics
    ///
    /// If the one can't be read or the other can't be written.
    pub fn kubeconfig_with(&self, name: &str, edit: impl FnOnce(String) -> String) -> PathBuf {
        let file = self.dir.join(format!("{name}.kubeconfig"));
        let text = fs::read_to_string(&self.kubeconfig).expect("the kubeconfig can be read");
        fs::write(&file, edit(text)).expect("the folder can be written to");
        file
    }

    /// Where the API server listens.
    ///
    /// # Panics
    ///
    /// If the kubeconfig doesn't say it.
    pub fn address(&self) -> SocketAddr {
        let text = fs::read_to_string(&self.kubeconfig).expect("the kubeconfig can be read");
        let server = text.lines().find_map(|line| line.trim().strip_prefix("server: https://"));
        server.and_then(|address| address.parse().ok()).expect("the kubeconfig names the server")
    }

    /// Stops kube-apiserver alone, in order. etcd and the others go on.
    ///
    /// # Panics
    ///
    /// If it can't be stopped.
    pub fn stop_apiserver(&self) {
        script("stop", &[OsStr::new("--apiserver-only"), self.dir.as_os_str()]);
    }

    /// Ends kube-apiserver at once, as a crash would.
    ///
    /// # Panics
    ///
    /// If it can't be ended.
    pub fn kill_apiserver(&self) {
        script("stop", &[OsStr::new("--apiserver-only"), OsStr::new("--kill"), self.dir.as_os_str()]);
    }

    /// Starts what doesn't run, with the same data, port and tokens, and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it doesn't start.
    pub fn start_apiserver(&self) {
        script("start", &[OsStr::new("--reuse"), self.dir.as_os_str()]);
    }

    /// The requests that were answered so far, as audit events: one for each
    /// request, and for a watch one at its start and one at its end.
    ///
    /// # Panics
    ///
    /// If the log can't be read.
    pub fn audit_log(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.dir.join("audit.log")).expect("the audit log can be read");
        // What follows the last line feed is being written.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("an audit event is JSON")).collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // A panic here would hide the one that a test may be failing with.
        drop(Command::new(scripts().join("stop")).arg(&self.dir).output());
    }
}

/// The folder with the binaries: looked for, and built if need be, once per process.
#[must_use]
pub fn assets() -> Option<&'static Path> {
    static ASSETS: OnceLock<Option<PathBuf>> = OnceLock::new();
    ASSETS.get_or_init(find_assets).as_deref()
}

fn find_assets() -> Option<PathBuf> {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let complete = |folder: &PathBuf| programs.iter().all(|name| folder.join(name).is_file());
    if let Some(folder) = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).filter(complete) {
        return Some(folder);
    }
    let folder = scripts().join("bin");
    if Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        // Keeps what is up to date. Its output is shown: building anew takes minutes.
        let built = Command::new(scripts().join("build")).env_remove("KUBEBUILDER_ASSETS").status();
        assert!(built.is_ok_and(|status| status.success()), "the control plane could not be built");
        return Some(folder);
    }
    if complete(&folder) {
        return Some(folder);
    }
    let reason = "no real kube-apiserver (install Go, or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and kubectl)";
    assert!(env::var_os("KOOPER_REQUIRE_CONTROL_PLANE").is_none(), "{reason}");
    // Written past the test harness, which shows no output of a test that passes.
    drop(writeln!(io::stderr(), "skipped: {reason}"));
    None
}

fn scripts() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane"))
}

/// Runs a script to its end and returns what it printed.
fn script<A: AsRef<OsStr>>(name: &str, args: &[A]) -> String {
    let output = Command::new(scripts().join(name))
        .args(args)
        .env("KUBEBUILDER_ASSETS", assets().unwrap_or(Path::new("")))
        .output()
        .unwrap_or_else(|error| panic!("{name} can't be run: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed:\n{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
