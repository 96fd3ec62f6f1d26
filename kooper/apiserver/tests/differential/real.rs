//! A real server, and the client that histories are sent with.

use std::process::{Command, Stdio};

use tokio::sync::OnceCell;

use crate::control_plane::{ControlPlane, scripts};
use crate::server::Server;

/// An instance in which nothing writes but the cases.
pub(crate) struct Real {
    plane: ControlPlane,
    pub(crate) server: Server,
}

impl Real {
    /// `None`, with a line that says so, where there are no binaries.
    pub(crate) fn start() -> Option<Self> {
        let programs = ["etcd", "kube-apiserver"];
        let plane = ControlPlane::start(&programs, "kube-apiserver", &["--without-controller-manager"])?;
        let text = std::fs::read_to_string(plane.kubeconfig()).expect("the kubeconfig can be read");
        let line = |prefix: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(prefix));
            found.expect("the kubeconfig has it").to_owned()
        };
        let server = Server::real(&line("server: "), &line("token: "));
        Some(Self { plane, server })
    }

    /// Restarts the server with the same data: its watch caches have forgotten the past.
    pub(crate) fn restart(&mut self) {
        self.server.fixture = OnceCell::new();
        for (script, option) in [("stop", "--apiserver-only"), ("start", "--reuse")] {
            let mut command = Command::new(scripts().join(script));
            let status = command.arg(option).arg(&self.plane.dir).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "the real server did not {script}");
        }
    }
}
