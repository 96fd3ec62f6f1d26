//! The real server, started by the scripts in `tests/control-plane`.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::sync::OnceCell;

use crate::server::Server;

/// An instance in which nothing writes but the cases, and the controllers that were asked for.
pub(crate) struct Real {
    dir: PathBuf,
    pub(crate) server: Server,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/control-plane")
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
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        if !has_binaries() {
            let reason = "no real kube-apiserver (run tests/control-plane/build, or set KUBEBUILDER_ASSETS)";
            assert!(env::var_os("KOOPER_REQUIRE_CONTROL_PLANE").is_none(), "{reason}");
            drop(writeln!(std::io::stderr(), "skipped: {reason}"));
            return None;
        }
        let parent = std::process::id().to_string();
        let output = Command::new(scripts().join("start"))
            .args(options)
            .args(["--parent", &parent])
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
        Some(Self { dir, server: Server::real(&line("server: "), &line("token: ")) })
    }
}

impl Real {
    /// Restarts the server with the same data: its watch caches have forgotten the past.
    pub(crate) fn restart(&mut self) {
        self.server.fixture = OnceCell::new();
        for (script, option) in [("stop", "--apiserver-only"), ("start", "--reuse")] {
            let mut command = Command::new(scripts().join(script));
            let status = command.arg(option).arg(&self.dir).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "the real server did not {script}");
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(Command::new(scripts().join("stop")).arg(&self.dir).output());
    }
}
