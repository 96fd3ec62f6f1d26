//! A program whose functions block their threads, and never cease. A blocked function adds a line with `STALLS_NAME` to
//! the file `STALLS_BEATS`, again and again.
//!
//! It has what most programs have: an election, a finalizer, children and Events.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kube::core::ObjectMeta;

/// A line for each moment in which a function of this process blocks.
fn beat() {
    static BEATS: LazyLock<Option<File>> = LazyLock::new(|| {
        OpenOptions::new().create(true).append(true).open(std::env::var_os("STALLS_BEATS").unwrap_or_default()).ok()
    });
    static NAME: LazyLock<String> = LazyLock::new(|| std::env::var("STALLS_NAME").unwrap_or_default() + "\n");
    if let Some(mut beats) = BEATS.as_ref() {
        // One write, so that the lines of several processes are in their order.
        drop(beats.write_all(NAME.as_bytes()));
    }
}

/// Blocks the thread if the name begins with the function that is to block.
fn block(function: &str, name: &str) {
    if name.starts_with(function) {
        tracing::info!("{name} blocks");
        loop {
            beat();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wanted(config: &ConfigMap) -> bool {
    block("filter", &config.name_any());
    true
}

fn holder(secret: &Secret) -> Option<ObjectKey> {
    block("map", &secret.name_any());
    Some(ObjectKey::new(secret.namespace().as_deref(), &secret.name_any()))
}

#[kooper::controller(
    resource = ConfigMap,
    labels = "stalls",
    workers = 2,
    timeout = "3s",
    when = wanted,
    watches = [Secret => holder],
    cleanup = clean,
    finalizer = "stalls.example.com/cleanup",
    leader_election(lease_duration = "3s", renew_deadline = "2s", retry_period = "1s"),
)]
async fn stalls(config: Arc<ConfigMap>, children: OwnedApplier<ConfigMap>, events: Recorder) -> Result<()> {
    let name = config.name_any();
    tracing::info!("{name} begins");
    block("handler", &name);
    assert!(!name.starts_with("panic"), "as the test requests");
    events.normal("Handled", "it is handled");
    let metadata =
        ObjectMeta { name: Some(format!("{name}-child")), namespace: config.namespace(), ..ObjectMeta::default() };
    children.apply_owned(&*config, &ConfigMap { metadata, ..ConfigMap::default() }).await?;
    tracing::info!("{name} is handled");
    Ok(())
}

async fn clean(config: Arc<ConfigMap>) {
    tracing::info!("{} is cleaned up", config.name_any());
}
