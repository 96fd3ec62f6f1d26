//! The real server, started by the scripts in `tests/control-plane`.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::case::Step;
use crate::{Answer, Server};

/// An instance without controllers: nothing writes but the cases.
pub(crate) struct Real {
    dir: PathBuf,
    address: String,
    token: String,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/control-plane")
}

fn has_binaries() -> bool {
    let folders = [env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from), Some(scripts().join("bin"))];
    folders
        .into_iter()
        .flatten()
        .any(|folder| ["etcd", "kube-apiserver"].iter().all(|name| folder.join(name).is_file()))
}

impl Real {
    /// `None`, with a line that says so, where there are no binaries.
    pub(crate) fn start() -> Option<Self> {
        if !has_binaries() {
            let reason = "no real kube-apiserver (run tests/control-plane/build, or set KUBEBUILDER_ASSETS)";
            assert!(env::var_os("KOOPER_REQUIRE_CONTROL_PLANE").is_none(), "{reason}");
            drop(writeln!(std::io::stderr(), "skipped: {reason}"));
            return None;
        }
        let parent = std::process::id().to_string();
        let output = Command::new(scripts().join("start"))
            .args(["--without-controller-manager", "--parent", &parent])
            .stderr(Stdio::inherit())
            .output()
            .expect("the script can be run");
        assert!(output.status.success(), "the real server did not start");
        let kubeconfig = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let text = std::fs::read_to_string(&kubeconfig).expect("the kubeconfig can be read");
        let line = |prefix: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(prefix));
            found.expect("the kubeconfig has it").to_owned()
        };
        let dir = kubeconfig.parent().expect("a kubeconfig is in a folder").to_owned();
        Some(Self { dir, address: line("server: "), token: line("token: ") })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(Command::new(scripts().join("stop")).arg(&self.dir).output());
    }
}

impl Server for Real {
    /// By curl: TLS and HTTP are not what is compared.
    async fn send(&self, step: &Step) -> Answer {
        let mut command = tokio::process::Command::new("curl");
        command.args([
            "--silent",
            "--insecure",
            "--http1.1",
            "--dump-header",
            "/dev/stderr",
            "--request",
            &step.method,
        ]);
        if step.header("authorization").is_none() {
            command.args(["--header", &format!("authorization: Bearer {}", self.token)]);
        }
        for (name, value) in step.sent_headers() {
            command.args(["--header", &format!("{name}: {value}")]);
        }
        if !step.body.is_empty() {
            command.args(["--data-binary", "@-"]);
        } else if matches!(step.method.as_str(), "POST" | "PUT" | "PATCH") {
            command.args(["--header", "content-length: 0"]);
        }
        command.arg(format!("{}{}", self.address, step.path));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("curl can be run");
        {
            use tokio::io::AsyncWriteExt as _;
            let mut stdin = child.stdin.take().expect("stdin is piped");
            // curl reads no input where there is no body.
            drop(stdin.write_all(step.body.as_bytes()).await);
        }
        let output = child.wait_with_output().await.expect("curl ends");
        let head = String::from_utf8_lossy(&output.stderr);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        Answer {
            status: status.expect("the real server answers"),
            headers: headers.collect(),
            body: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }
}
