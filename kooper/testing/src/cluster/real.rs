//! The real server: kube-apiserver and etcd, one instance for the process.
//!
//! The scripts beside this file start it, and a watchdog of theirs stops it when
//! the process has ended.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::OnceCell;

use kooper_runtime::Result;

/// Scripts that are written to a temporary folder and run there.
const SCRIPTS: [(&str, &str); 4] = [
    ("instance.bash", include_str!("real/instance.bash")),
    ("start", include_str!("real/start")),
    ("stop", include_str!("real/stop")),
    ("watchdog", include_str!("real/watchdog")),
];

/// Prefix of the names of the tests' namespaces; a number follows.
const TEST: &str = "test-";

/// The real server that all tests of this process share.
#[derive(Debug)]
pub(super) struct RealServer {
    config: Config,
    /// `true` if kube-controller-manager runs beside the API server.
    has_controllers: bool,
}

impl RealServer {
    /// The server, started by the first test that asks for it.
    pub(super) async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<RealServer> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> Result<Self> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).unwrap_or_default();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            if !assets.join(name).is_file() {
                return Err(format!(
                    "KOOPER_TEST_SERVER=real needs the real server: set KUBEBUILDER_ASSETS to a folder with etcd, \
                     kube-apiserver and kubectl; {name} is not in `{}`",
                    assets.display()
                )
                .into());
            }
        }
        let scripts = scripts()?;
        let parent = std::process::id().to_string();
        let started = Command::new("bash").arg(scripts.join("start")).args(["--parent", &parent]).output()?;
        if !started.status.success() {
            let said = String::from_utf8_lossy(&started.stderr).into_owned();
            return Err(format!("the real server did not start:\n{said}").into());
        }
        let kubeconfig = Kubeconfig::read_from(String::from_utf8(started.stdout)?.trim_end())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // kube takes that of `HTTPS_PROXY` for loopback, too.
        config.proxy_url = None;
        Ok(Self { config, has_controllers: assets.join("kube-controller-manager").is_file() })
    }

    /// Returns whether kube-controller-manager runs beside the API server.
    pub(super) fn has_controllers(&self) -> bool {
        self.has_controllers
    }

    /// A client of a user who may do everything, or of a ServiceAccount in its namespace.
    pub(super) fn client(&self, namespace: &str, account: Option<&str>) -> Result<Client> {
        let mut config = self.config.clone();
        namespace.clone_into(&mut config.default_namespace);
        config.auth_info.impersonate = account.map(|account| format!("system:serviceaccount:{namespace}:{account}"));
        Ok(Client::try_from(config)?)
    }

    /// Creates a namespace that no other test has.
    pub(super) async fn create_namespace(&self) -> Result<String> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("{TEST}{}", LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(self.client("default", None)?);
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
        Ok(name)
    }

    /// Returns whether this is the name of a test's namespace.
    pub(super) fn is_of_tests(name: &str) -> bool {
        name.strip_prefix(TEST).is_some_and(|number| number.parse::<u32>().is_ok())
    }

    /// Deletes a namespace, without waiting for it.
    pub(super) async fn delete_namespace(&self, name: &str) -> Result<()> {
        // The kubelet ends with the test: no pod waits for it.
        let pods: Api<Pod> = Api::namespaced(self.client(name, None)?, name);
        pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
        let namespaces: Api<Namespace> = Api::all(self.client("default", None)?);
        namespaces.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// The folder of the scripts, which outlives the process: the watchdog runs them at its end.
fn scripts() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(folder_name());
    write_scripts(&folder)?;
    Ok(folder)
}

fn write_scripts(folder: &Path) -> Result<()> {
    make_private(folder).map_err(|error| {
        let folder = folder.display();
        format!(
            "the scripts of the real server cannot be written to {folder}: {error}; remove it, or set TMPDIR to a \
             folder of your own"
        )
    })?;
    for (name, text) in SCRIPTS {
        // Other processes may run them: a file is replaced whole, or not at all.
        let file = folder.join(name);
        if std::fs::read_to_string(&file).is_ok_and(|there| there == text) {
            continue;
        }
        let new = folder.join(format!("{name}.{}", std::process::id()));
        std::fs::write(&new, text)?;
        make_executable(&new)?;
        std::fs::rename(&new, &file)?;
    }
    Ok(())
}

/// A name for each version and user.
#[cfg(unix)]
fn folder_name() -> String {
    format!("kooper-control-plane-{}-{}", env!("CARGO_PKG_VERSION"), rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn folder_name() -> String {
    concat!("kooper-control-plane-", env!("CARGO_PKG_VERSION")).to_owned()
}

/// Creates a folder that only its user can open. Another user may have created it, with scripts of their own.
#[cfg(unix)]
fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};

    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let there = std::fs::symlink_metadata(folder)?;
    let is_own = there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o077 == 0;
    if there.is_dir() && is_own { Ok(()) } else { Err(std::io::Error::other("other users can open this folder")) }
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, metadata, remove_dir_all, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_scripts_are_for_their_user_alone() {
        let folder = std::env::temp_dir().join(format!("kooper-scripts-{}", std::process::id()));
        write_scripts(&folder).expect("they are written");
        write_scripts(&folder).expect("they are there");
        assert!(folder.join("start").is_file());
        assert_eq!(metadata(&folder).expect("it is there").permissions().mode() & 0o777, 0o700);
        set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
        let refused = write_scripts(&folder).expect_err("others can open it").to_string();
        assert!(refused.contains(&*folder.to_string_lossy()), "{refused}");
        remove_dir_all(&folder).expect("it is ours");
    }
}
