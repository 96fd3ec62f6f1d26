//! The two servers, and the shells that kubectl runs in.

use std::env;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kooper_apiserver::ApiServer;

use crate::control_plane::{ControlPlane, assets, scripts};
use crate::normal::Normal;
use crate::script::{Script, Step};

/// Beginning of each block.
const PRELUDE: &str = r#"
exec 2>&1
# Waits for a condition; a loaded machine is slow.
await() {
  for _ in $(seq 400); do
    if eval "$1"; then return; fi
    sleep 0.05
  done
  echo "not reached: $1"
  return 1
}
"#;

/// The programs in the folder with the real server.
const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// The embedded server.
pub(crate) struct Embedded {
    _server: ApiServer,
    dir: tempfile::TempDir,
}

impl Embedded {
    pub(crate) async fn start() -> Self {
        let server = ApiServer::start().await.expect("loopback can be listened on");
        let dir = tempfile::tempdir().expect("there is room for a file");
        std::fs::write(dir.path().join("kubeconfig"), server.kubeconfig()).expect("it can be written");
        Self { _server: server, dir }
    }

    pub(crate) fn session(&self, name: &str, client: Option<&Client>) -> Session {
        Session::new(&self.dir.path().join("kubeconfig"), name, "", client)
    }
}

/// The real server, with the controllers that the embedded one has.
pub(crate) struct Real(ControlPlane);

impl Real {
    /// `None`, with a line that says so, where there are no binaries.
    pub(crate) fn start() -> Option<Self> {
        let controllers = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
                           root-ca-certificate-publisher-controller";
        let what = "kube-apiserver and kubectl";
        ControlPlane::start(&PROGRAMS, what, &["--controllers", controllers]).map(Self)
    }

    pub(crate) fn session(&self, name: &str, client: Option<&Client>) -> Session {
        let filled = "&& await 'kubectl get serviceaccount/default configmap/kube-root-ca.crt >/dev/null 2>&1'";
        Session::new(&self.0.kubeconfig(), name, filled, client)
    }
}

/// A program with client-go, `protobuf-client`.
pub(crate) struct Client {
    dir: tempfile::TempDir,
}

impl Client {
    /// `None`, with a line that says so, without Go.
    pub(crate) fn build() -> Option<Self> {
        let dir = tempfile::tempdir().expect("there is room for a file");
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"])
            .arg(dir.path().join("protobuf-client"))
            .arg("./client")
            .env("CGO_ENABLED", "0")
            .current_dir(scripts())
            .status();
        if built.is_ok_and(|status| status.success()) {
            return Some(Self { dir });
        }
        assert!(env::var_os("KOOPER_REQUIRE_CONTROL_PLANE").is_none(), "the client could not be built");
        drop(writeln!(std::io::stderr(), "skipped: client (Go is needed to build it)"));
        None
    }
}

/// A folder to work in, with a kubeconfig whose namespace is the case's own.
pub(crate) struct Session {
    dir: tempfile::TempDir,
    path: OsString,
}

impl Session {
    /// `then` is what the server still has to do for a new namespace.
    fn new(kubeconfig: &Path, name: &str, then: &str, client: Option<&Client>) -> Self {
        let dir = tempfile::tempdir().expect("there is room for files");
        std::fs::copy(kubeconfig, dir.path().join("kubeconfig")).expect("it can be copied");
        let mut folders = vec![assets(&PROGRAMS).expect("the binaries were there")];
        folders.extend(client.map(|client| client.dir.path().to_owned()));
        folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let session = Self { dir, path: env::join_paths(folders).expect("the path is a path") };
        let begin = format!(
            "kubectl create namespace {name} && kubectl config set-context --current --namespace={name} {then}"
        );
        let (output, ended) = session.shell(&begin);
        assert!(ended, "{output}");
        session
    }

    /// Runs a script; the outputs come back normalised.
    pub(crate) fn run(&self, script: &Script) -> Vec<String> {
        let mut normal = Normal::default();
        let output = |step: &Step| {
            let (output, succeeded) = self.shell(&step.command);
            normal.text(&if succeeded { output } else { format!("{output}\n(failed)") })
        };
        script.steps.iter().map(output).collect()
    }

    /// Runs a block. Returns its output, and whether it succeeded.
    fn shell(&self, block: &str) -> (String, bool) {
        let output = Command::new("bash")
            .args(["-uc", &format!("{PRELUDE}\n{block}")])
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("KUBECONFIG", self.dir.path().join("kubeconfig"))
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .output()
            .expect("bash can be run");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    }
}
