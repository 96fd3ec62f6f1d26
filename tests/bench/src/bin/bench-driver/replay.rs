//! A server that replays a recorded list.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use kooper_bench::Kind;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::arguments::Arguments;

/// A running one; dropping it ends it.
pub(crate) struct Replay {
    /// The kubeconfig for programs.
    pub(crate) kubeconfig: PathBuf,
    _server: Child,
}

impl Replay {
    /// Records the objects of a kind that a server has.
    pub(crate) async fn record(arguments: &Arguments, kind: Kind, kubeconfig: &Path) -> Result<()> {
        let recorded = command(arguments, "record", kind).arg("--kubeconfig").arg(kubeconfig).status().await?;
        ensure!(recorded.success(), "bench-replay did not record the list: {recorded}");
        Ok(())
    }

    /// Replays them as a list of so many objects.
    pub(crate) async fn start(arguments: &Arguments, kind: Kind, objects: u32) -> Result<Self> {
        let kubeconfig = arguments.output.join("replay.kubeconfig");
        let mut server = command(arguments, "serve", kind)
            .arg("--objects")
            .arg(objects.to_string())
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = server.stdout.take().context("no standard output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        ensure!(line.as_deref() == Some("ready"), "bench-replay does not serve");
        Ok(Self { kubeconfig, _server: server })
    }
}

fn command(arguments: &Arguments, what: &str, kind: Kind) -> Command {
    let mut command = Command::new(arguments.binaries.join("bench-replay"));
    command.arg(what).arg("--recordings").arg(arguments.output.join("recordings")).args(["--kind", &kind.to_string()]);
    command
}
