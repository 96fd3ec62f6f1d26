//! Flags with which the driver starts a program.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};

/// Which of the two kinds a program retrieves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Pods: a built-in kind, which the server also sends as protobuf.
    Pods,
    /// [`Widget`](crate::Widget)s: custom resources, JSON for everybody.
    Crs,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pods => "pods",
            Self::Crs => "crs",
        })
    }
}

/// The flags of every program.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// The API server to use.
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// The kind to retrieve.
    #[arg(long, value_enum)]
    pub kind: Kind,
    /// Number of objects.
    #[arg(long)]
    pub expect: usize,
    /// Number of handlers that run at a time.
    #[arg(long, default_value_t = 4)]
    pub workers: u16,
}

impl Flags {
    /// A client of the API server that `--kubeconfig` names.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig).await
    }

    /// The configuration of such a client.
    pub async fn config(&self) -> anyhow::Result<kube::Config> {
        config(&self.kubeconfig).await
    }
}

/// A client of the API server that a kubeconfig names.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    Ok(kube::Client::try_from(config(kubeconfig).await?)?)
}

/// The configuration in a kubeconfig.
pub async fn config(kubeconfig: &Path) -> anyhow::Result<kube::Config> {
    let file = Kubeconfig::read_from(kubeconfig).context("reading --kubeconfig")?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}
