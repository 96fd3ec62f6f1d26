//! Records the list of a real API server, and replays it: as often as asked for, and with as many objects.
//!
//! A list of a million pods takes more memory than a real server may have on a small machine, and a
//! profile of a program is repeatable if nothing else changes. The objects beyond the recorded ones are
//! copies with names of their own.

mod record;
mod recording;
mod server;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use kooper_bench::Kind;
use serde_json::json;

use crate::recording::Recording;

/// Records a list, or replays it.
#[derive(Parser)]
enum Arguments {
    /// Records the streaming list of a kind, in each encoding that the server has for it.
    Record {
        #[command(flatten)]
        recorded: Recorded,
        /// The API server.
        #[arg(long)]
        kubeconfig: PathBuf,
    },
    /// Serves a recorded list over plain HTTP until standard input ends, and prints `ready`.
    Serve {
        #[command(flatten)]
        recorded: Recorded,
        /// Number of objects.
        #[arg(long)]
        objects: usize,
        /// Where to write the kubeconfig of the server.
        #[arg(long)]
        kubeconfig: PathBuf,
    },
}

/// Which recording.
#[derive(clap::Args)]
struct Recorded {
    /// The folder of the recordings.
    #[arg(long)]
    recordings: PathBuf,
    /// The kind.
    #[arg(long, value_enum)]
    kind: Kind,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse() {
        Arguments::Record { recorded: Recorded { recordings, kind }, kubeconfig } => {
            fs::create_dir_all(&recordings).context("making --recordings")?;
            record::record(&kubeconfig, kind, &recordings).await
        }
        Arguments::Serve { recorded: Recorded { recordings, kind }, objects, kubeconfig } => {
            let recording = Recording::read(&recordings, kind)?;
            let address = server::start(kind, recording, objects).await?;
            fs::write(&kubeconfig, self::kubeconfig(&format!("http://{address}"))).context("writing --kubeconfig")?;
            println!("ready");
            tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
            Ok(())
        }
    }
}

/// A kubeconfig without credentials; JSON is YAML, too.
fn kubeconfig(server: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "replay", "cluster": { "server": server } }],
        "users": [{ "name": "replay", "user": {} }],
        "contexts": [{ "name": "replay", "context": { "cluster": "replay", "user": "replay" } }],
        "current-context": "replay"
    })
    .to_string()
}
