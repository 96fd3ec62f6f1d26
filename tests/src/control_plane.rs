//! A real Kubernetes control plane for tests: etcd, kube-apiserver and
//! kube-controller-manager on loopback, by the scripts in `tests/control-plane`.

mod pool;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::process::ended;
use crate::wait::until;

pub use crate::process::Output;
pub use pool::Pooled;

/// Flags of `kubectl apply` for objects that tests make. Otherwise it parses OpenAPI documents of the server, for patches
/// and to know whether the server can report unknown fields, which takes two to four times as long as all else.
/// It has the types of built-in kinds, and merges others as JSON either way.
pub(crate) const WITHOUT_OPENAPI: [&str; 2] = ["--openapi-patch=false", "--validate=false"];

/// A running instance with its own data. Dropping it stops it; if the process
/// ends without that, a watchdog does.
#[derive(Debug)]
#[must_use = "dropping it stops the instance"]
pub struct ControlPlane {
    dir: PathBuf,
    kubeconfig: PathBuf,
    limited_kubeconfig: PathBuf,
}

impl ControlPlane {
    /// Starts a fresh instance. Without Go and a folder with the binaries, it prints
    /// that and returns `None`, or panics if `KOOPER_REQUIRE_CONTROL_PLANE` is set.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts a fresh instance with options of the `start` script, such as
    /// `--without-controller-manager` or `--without-streaming-lists`. Unless these name feature gates, its gates are
    /// those of the variable `KOOPER_FEATURE_GATES`.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        assets()?;
        let parent = process::id().to_string();
        let gates = env::var("KOOPER_FEATURE_GATES").unwrap_or_default();
        let printed = script("start", &[&["--parent", &parent, "--feature-gates", &gates], options].concat());
        let kubeconfig = PathBuf::from(printed.trim_end());
        let dir = kubeconfig.parent().expect("a kubeconfig is in a folder").to_owned();
        let limited_kubeconfig = dir.join("limited.kubeconfig");
        Some(Self { dir, kubeconfig, limited_kubeconfig })
    }

    /// The instance that all tests of this process share. The first one starts it.
    /// A test must not stop it, and needs its own namespace.
    pub fn shared() -> Option<&'static Self> {
        // Statics are never dropped, so the watchdog stops this one.
        static SHARED: OnceLock<Option<ControlPlane>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// The same instance, with a new namespace that has these objects.
    pub fn shared_in(namespace: &str, objects: impl IntoIterator<Item = Value>) -> Option<&'static Self> {
        let cluster = Self::shared()?;
        cluster.create_namespace(namespace, objects);
        Some(cluster)
    }

    /// Like [`ControlPlane::shared`], but without a controller manager: nothing but the tests writes to it.
    pub fn without_controllers() -> Option<&'static Self> {
        static WITHOUT_CONTROLLERS: OnceLock<Option<ControlPlane>> = OnceLock::new();
        WITHOUT_CONTROLLERS.get_or_init(|| Self::start_with(&["--without-controller-manager"])).as_ref()
    }

    /// Like [`ControlPlane::shared`], but without streaming lists, and with those controllers alone that collect garbage
    /// and make ServiceAccounts.
    pub fn without_streaming_lists() -> Option<&'static Self> {
        static WITHOUT_STREAMING_LISTS: OnceLock<Option<ControlPlane>> = OnceLock::new();
        let controllers = "garbage-collector-controller,serviceaccount-controller";
        let start = || Self::start_with(&["--without-streaming-lists", "--controllers", controllers]);
        WITHOUT_STREAMING_LISTS.get_or_init(start).as_ref()
    }

    /// An instance without a controller manager whose API server may be stopped and killed. One test at a time has it,
    /// and needs its own namespace.
    pub fn exclusive() -> Option<MutexGuard<'static, Self>> {
        static EXCLUSIVE: OnceLock<Option<Mutex<ControlPlane>>> = OnceLock::new();
        let start = || Self::start_with(&["--without-controller-manager"]).map(Mutex::new);
        let cluster = EXCLUSIVE.get_or_init(start).as_ref()?.lock();
        // A test that failed may have left it stopped.
        cluster.start_apiserver();
        Some(cluster)
    }

    /// The kubeconfig of a user in `system:masters`.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The kubeconfig of the user `limited`, which has no permissions until a test
    /// grants some.
    pub fn limited_kubeconfig(&self) -> &Path {
        &self.limited_kubeconfig
    }

    /// The folder with the data, and with the log `NAME.log` of each process.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns `true` if the API server was started with this feature gate.
    pub fn has_feature_gate(&self, gate: &str) -> bool {
        let settings = fs::read_to_string(self.dir.join("settings")).expect("the settings can be read");
        settings.lines().any(|line| line.starts_with("feature_gates=") && line.contains(&format!("{gate}=true")))
    }

    /// Runs kubectl as the user in `system:masters`.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.kubectl_with(args, "")
    }

    /// Runs kubectl like [`ControlPlane::kubectl`], with an input, such as for `apply -f -`.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .kubectl_command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is in the assets or on the path");
        // A kubectl that reads no input may end before it is written.
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = ended(child).expect("kubectl can be waited for");
        drop(writer.join());
        output.into()
    }

    /// Runs kubectl and returns what it printed.
    pub fn must(&self, args: &[&str]) -> String {
        // `kubectl wait` fails, instead of waiting, for an object whose status has no conditions yet.
        let is_early = |output: &Output| {
            args.first() == Some(&"wait") && output.stderr.contains(".status.conditions accessor error: <nil>")
        };
        let run = || Some(self.kubectl(args)).filter(|output| !is_early(output));
        let output = until(&format!("kubectl {args:?}"), run, || "the status has no conditions".to_owned());
        assert!(output.success, "kubectl {args:?}: {}", output.stderr);
        output.stdout
    }

    /// Applies objects, all in one call.
    pub fn apply(&self, objects: impl IntoIterator<Item = Value>) {
        self.apply_text(&WITHOUT_OPENAPI, &list(objects));
    }

    /// Applies a text in JSON or YAML, with further flags, and returns what kubectl printed.
    pub fn apply_text(&self, flags: &[&str], text: &str) -> String {
        let output = self.kubectl_with(&[&["apply", "--filename=-"], flags].concat(), text);
        assert!(output.success, "kubectl apply: {}", output.stderr);
        output.stdout
    }

    /// Creates a namespace with these objects, all in one call.
    pub fn create_namespace(&self, name: &str, objects: impl IntoIterator<Item = Value>) {
        self.create([namespace(name)].into_iter().chain(objects));
    }

    /// Creates namespaces without objects, all in one call.
    pub fn create_namespaces<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        self.create(names.into_iter().map(namespace));
    }

    fn create(&self, objects: impl IntoIterator<Item = Value>) {
        let list = list(objects);
        let output = self.kubectl_with(&["create", "--save-config", "--validate=false", "--filename=-"], &list);
        assert!(output.success, "kubectl create: {}", output.stderr);
    }

    /// kubectl with these arguments, not started yet: for commands that keep running, such as `proxy`.
    #[must_use]
    pub fn kubectl_command(&self, args: &[&str]) -> Command {
        let beside = assets().map(|folder| folder.join("kubectl")).filter(|path| path.exists());
        let mut command = Command::new(beside.as_deref().unwrap_or(Path::new("kubectl")));
        command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            // The default cache is keyed by port: a later instance on the same port would use it.
            .env("KUBECACHEDIR", self.kubectl_cache());
        command
    }

    fn kubectl_cache(&self) -> PathBuf {
        self.dir.join("kubectl-cache")
    }

    /// Writes a kubeconfig like that of the user in `system:masters`, changed by `edit`, and returns its path.
    pub fn kubeconfig_with(&self, name: &str, edit: impl FnOnce(String) -> String) -> PathBuf {
        let file = self.dir.join(format!("{name}.kubeconfig"));
        let text = fs::read_to_string(&self.kubeconfig).expect("the kubeconfig can be read");
        fs::write(&file, edit(text)).expect("the folder can be written to");
        file
    }

    /// Creates a token of a ServiceAccount.
    pub fn token(&self, namespace: &str, account: &str) -> String {
        self.must(&["create", "token", account, "--namespace", namespace]).trim().to_owned()
    }

    /// Writes a kubeconfig of a ServiceAccount, and returns its path.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token(namespace, account);
        self.kubeconfig_with(&format!("{namespace}-{account}"), |text| {
            let with_token = |line: &str| match line.split_once("token:") {
                Some((before, _)) => format!("{before}token: {token}"),
                None => line.to_owned(),
            };
            text.lines().map(with_token).collect::<Vec<_>>().join("\n")
        })
    }

    /// The address of the API server.
    pub fn address(&self) -> SocketAddr {
        let text = fs::read_to_string(&self.kubeconfig).expect("the kubeconfig can be read");
        let server = text.lines().find_map(|line| line.trim().strip_prefix("server: https://"));
        server.and_then(|address| address.parse().ok()).expect("the kubeconfig names the server")
    }

    /// Stops only kube-apiserver, gracefully. etcd and the others keep running.
    pub fn stop_apiserver(&self) {
        script("stop", &[OsStr::new("--apiserver-only"), self.dir.as_os_str()]);
    }

    /// Kills kube-apiserver, like a crash.
    pub fn kill_apiserver(&self) {
        script("stop", &[OsStr::new("--apiserver-only"), OsStr::new("--kill"), self.dir.as_os_str()]);
    }

    /// Starts stopped processes, with the same data, port and tokens, and waits until they are ready.
    pub fn start_apiserver(&self) {
        self.start_apiserver_with(&[]);
    }

    /// The same, with other options of the `start` script than before.
    pub fn start_apiserver_with(&self, options: &[&str]) {
        let options = options.iter().map(OsStr::new);
        let args: Vec<&OsStr> =
            [OsStr::new("--reuse")].into_iter().chain(options).chain([self.dir.as_os_str()]).collect();
        script("start", &args);
    }

    /// The completed requests that contain `part`, as audit events: one for each
    /// request, and for a watch one at its start and one at its end.
    pub fn audit_log(&self, part: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.dir.join("audit.log")).expect("the audit log can be read");
        // The text after the last line feed is still being written.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let lines = whole.lines().filter(|line| line.contains(part));
        lines.map(|line| serde_json::from_str(line).expect("an audit event is JSON")).collect()
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// The objects as one text for kubectl.
fn list(objects: impl IntoIterator<Item = Value>) -> String {
    let items: Vec<_> = objects.into_iter().collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // A panic here would hide the panic of a failing test.
        drop(Command::new(scripts().join("stop")).arg(&self.dir).output());
    }
}

/// The kubectl of the control plane.
#[must_use]
pub fn kubectl() -> Option<PathBuf> {
    assets().map(|folder| folder.join("kubectl"))
}

/// The folder with the binaries: found, and built if necessary, once per process.
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
        // Keeps up-to-date binaries. Its output is shown, as a build takes minutes.
        let built = Command::new(scripts().join("build")).env_remove("KUBEBUILDER_ASSETS").status();
        assert!(built.is_ok_and(|status| status.success()), "the control plane could not be built");
        return Some(folder);
    }
    if complete(&folder) {
        return Some(folder);
    }
    let reason = "no real kube-apiserver (install Go, or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and kubectl)";
    assert!(env::var_os("KOOPER_REQUIRE_CONTROL_PLANE").is_none(), "{reason}");
    // Written directly to stderr: the test harness hides the output of passing tests.
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
