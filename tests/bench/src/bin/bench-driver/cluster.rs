//! The control plane of `tests/control-plane`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use kooper_bench::{Etcd, Proxy, Usage};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::arguments::Arguments;

/// A running API server; dropping it stops it.
pub(crate) struct Cluster {
    scripts: PathBuf,
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts one in a new folder. It also ends when this process does.
    pub(crate) fn start(arguments: &Arguments) -> Result<Self> {
        let scripts = arguments.control_plane.clone();
        let parent = process::id().to_string();
        let kubeconfig = script(&scripts, "start", &["--without-controller-manager", "--parent", &parent])?;
        let kubeconfig = PathBuf::from(kubeconfig.trim());
        let folder = kubeconfig.parent().context("start printed no path")?.to_owned();
        Ok(Self { scripts, folder, kubeconfig })
    }

    /// Restarts the API server over the same data. Its watch cache then begins at the newest version:
    /// a watch from before is answered with 410.
    pub(crate) fn restart_apiserver(&self) -> Result<()> {
        let folder = self.folder.to_str().context("the folder's name is no UTF-8")?;
        script(&self.scripts, "stop", &["--apiserver-only", folder])?;
        script(&self.scripts, "start", &["--reuse", folder])?;
        Ok(())
    }

    /// A client without the proxy.
    pub(crate) async fn client(&self) -> Result<Client> {
        let config = kube::Config::from_custom_kubeconfig(self.read()?, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// The API server's storage.
    pub(crate) fn etcd(&self) -> Etcd {
        Etcd::new(&self.folder.join("etcd.sock"))
    }

    /// Returns the resource usage of the API server's process. After a restart, this is another
    /// process.
    pub(crate) fn apiserver(&self) -> Result<Usage> {
        let pid = fs::read_to_string(self.folder.join("kube-apiserver.pid")).context("reading the API server's id")?;
        Ok(Usage::of(pid.trim().parse().context("the process ID of the API server is not a number")?))
    }

    /// The kubeconfig without the proxy.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the API server listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        let kubeconfig = self.read()?;
        let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref());
        let server = cluster.and_then(|cluster| cluster.server.as_deref()).context("no server in the kubeconfig")?;
        let address = server.trim_start_matches("https://").trim_end_matches('/');
        address.parse().with_context(|| format!("{server} is no address"))
    }

    /// Writes a kubeconfig whose server is the proxy, and says where.
    pub(crate) fn kubeconfig_through(&self, proxy: &Proxy) -> Result<PathBuf> {
        let mut kubeconfig = self.read()?;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(format!("https://{}", proxy.address()));
        }
        let path = self.folder.join("proxy.kubeconfig");
        // JSON is YAML too.
        fs::write(&path, serde_json::to_vec(&kubeconfig)?).context("writing the proxy's kubeconfig")?;
        Ok(path)
    }

    fn read(&self) -> Result<Kubeconfig> {
        Kubeconfig::read_from(&self.kubeconfig).context("reading the control plane's kubeconfig")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = Command::new(self.scripts.join("stop")).arg(&self.folder).status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!("the control plane in {} was not stopped", self.folder.display());
        }
    }
}

/// Runs a script and returns its standard output.
fn script(folder: &Path, name: &str, arguments: &[&str]) -> Result<String> {
    let path = folder.join(name);
    ensure!(path.exists(), "{} is missing", path.display());
    let output = Command::new(&path).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{} failed: {}", path.display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}
