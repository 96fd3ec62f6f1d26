//! A program with shards, for several processes on a real API server. Each call adds lines to the file `SHARED_LOG`,
//! with the name of the process, `SHARED_NAME`, and the uid of the object.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use serde_json::json;

static NAME: LazyLock<String> = LazyLock::new(|| std::env::var("SHARED_NAME").unwrap_or_default());

/// Adds a line with one write, so that the lines of several processes are in their order.
fn note(what: &str) {
    static LOG: LazyLock<Option<File>> = LazyLock::new(|| {
        OpenOptions::new().create(true).append(true).open(std::env::var_os("SHARED_LOG").unwrap_or_default()).ok()
    });
    if let Some(mut log) = LOG.as_ref() {
        drop(log.write_all(format!("{} {what}\n", *NAME).as_bytes()));
    }
}

/// A call that runs. It may be cancelled and aborted.
struct Running(String);

impl Drop for Running {
    fn drop(&mut self) {
        note(&format!("ends {}", self.0));
    }
}

/// Writes to the object what it was handled for, and in which term.
#[kooper::controller(
    resource = ConfigMap,
    labels = "shared",
    workers = 8,
    resync = off,
    shards(count = 32, members = 6, lease_duration = "3s", renew_deadline = "2s", retry_period = "1s"),
)]
async fn shared(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, call: Call) -> Result<()> {
    let uid = config.uid().unwrap_or_default();
    let term = call.shard().map_or(0, |shard| shard.term).to_string();
    let value = |name: &str| config.data.as_ref().and_then(|data| data.get(name)).cloned().unwrap_or_default();
    note(&format!("begins {uid} {term} {} {}", value("value"), call.reasons().to_string().replace(' ', "_")));
    let running = Running(uid.clone());
    tokio::time::sleep(Duration::from_millis(10)).await;
    if value("handled") != value("value") || value("term") != term {
        let data = json!({"data": {"handled": value("value"), "term": term}});
        let written = configs.patch_object(&config, PatchBody::merge(data)).await?;
        note(&format!("wrote {uid} {term} {}", written.resource_version().unwrap_or_default()));
    }
    drop(running);
    Ok(())
}
