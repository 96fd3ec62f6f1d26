//! The release: the chart of each version, and Helm on a cluster.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::tools::has;
use serde_json::Value;

/// The namespace of the release.
pub(super) const NAMESPACE: &str = "site";

/// A cluster, and what is installed in it.
pub(super) struct Release {
    pub(super) cluster: ControlPlane,
    folder: PathBuf,
}

impl Release {
    /// `None` if something is missing.
    pub(super) fn new() -> Option<Self> {
        let Some(folder) = env::var_os("KOOPER_WALK") else {
            // Written directly to stderr: the test harness hides the output of passing tests.
            drop(writeln!(io::stderr(), "skipped: the walk, which `.ci/end-to-end` prepares"));
            return None;
        };
        if !["helm", "kube-scheduler", "kwok", "prometheus"].into_iter().all(has) {
            return None;
        }
        Some(Self { cluster: ControlPlane::start()?, folder: folder.into() })
    }

    /// A file of the prepared folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The operator of this version.
    pub(super) fn executable(&self, version: &str) -> String {
        self.file(&format!("site-{version}")).to_str().expect("UTF-8").to_owned()
    }

    /// Runs the operator of this version without a cluster, and returns its output.
    pub(super) fn print(&self, version: &str, args: &[&str]) -> String {
        succeed(Command::new(self.executable(version)).args(args))
    }

    /// Runs the operator of this version as the administrator of the cluster, and returns its
    /// output.
    pub(super) fn administer(&self, version: &str, args: &[&str]) -> String {
        succeed(Command::new(self.executable(version)).args(args).env("KUBECONFIG", self.cluster.kubeconfig()))
    }

    /// Writes the chart of this version, and returns its path.
    pub(super) fn chart(&self, version: &str) -> String {
        let path = self.file(&format!("chart-{version}")).to_str().expect("UTF-8").to_owned();
        let image = format!("registry.example.com/site:{version}");
        self.print(version, &["manifests", "--format", "helm", "--image", &image, "--output", &path]);
        path
    }

    /// Runs Helm in the namespace.
    pub(super) fn helm(&self, args: &[&str]) {
        let kubeconfig = self.cluster.kubeconfig();
        succeed(Command::new("helm").args(args).arg("--namespace").arg(NAMESPACE).arg("--kubeconfig").arg(kubeconfig));
    }

    /// All pods of the cluster.
    pub(super) fn pods(&self) -> Vec<Value> {
        let json = self.cluster.must(&["get", "pods", "--all-namespaces", "--output=json"]);
        let mut list: Value = serde_json::from_str(&json).expect("JSON");
        serde_json::from_value(list["items"].take()).expect("a list")
    }
}

/// Runs a command and returns what it printed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
