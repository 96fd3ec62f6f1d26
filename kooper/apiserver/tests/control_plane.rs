//! A real server, which the scripts in `tests/control-plane` start and stop.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/control-plane")
}

/// The folder with these programs.
pub(crate) fn assets(programs: &[&str]) -> Option<PathBuf> {
    let folders = [env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from), Some(scripts().join("bin"))];
    let mut folders = folders.into_iter().flatten();
    folders.find(|folder| programs.iter().all(|name| folder.join(name).is_file()))
}

/// A server with its etcd. It stops when this is dropped.
pub(crate) struct ControlPlane {
    /// The folder with its data and its kubeconfig.
    pub(crate) dir: PathBuf,
}

impl ControlPlane {
    /// Prints that `what` is absent and returns `None`, if one of the programs is absent.
    pub(crate) fn start(programs: &[&str], what: &str, options: &[&str]) -> Option<Self> {
        if assets(programs).is_none() {
            let reason = format!("no real {what} (run tests/control-plane/build, or set KUBEBUILDER_ASSETS)");
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
        Some(Self { dir: kubeconfig.parent().expect("a kubeconfig is in a folder").to_owned() })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(Command::new(scripts().join("stop")).arg(&self.dir).output());
    }
}
