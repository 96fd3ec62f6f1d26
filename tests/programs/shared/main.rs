//! A program with shards, for several processes on a real API server. Each call adds lines to the file `SHARED_LOG`,
//! with the name of the process, `SHARED_NAME`, and the object. It takes `SHARED_MILLIS`. With `SHARED_BY=namespace`,
//! the namespace of an object determines its shard.
//! A task runs in one of the shards.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::App;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use serde_json::json;

static NAME: LazyLock<String> = LazyLock::new(|| std::env::var("SHARED_NAME").unwrap_or_default());

static TAKES: LazyLock<Duration> = LazyLock::new(|| {
    let millis = std::env::var("SHARED_MILLIS").ok().and_then(|millis| millis.parse().ok());
    Duration::from_millis(millis.unwrap_or(10))
});

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
struct Running {
    /// Its object and its term.
    call: String,
    has_returned: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        note(&format!("{} {}", if self.has_returned { "ends" } else { "aborts" }, self.call));
    }
}

/// Writes to the object what it was handled for, and in which term.
async fn handle(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, call: Call) -> Result<Action> {
    let term = call.shard().map_or(0, |shard| shard.term).to_string();
    let object = format!("{} {} {term}", config.uid().unwrap_or_default(), config.namespace().unwrap_or_default());
    let value = |name: &str| config.data.as_ref().and_then(|data| data.get(name)).cloned().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    note(&format!("begins {object} {now} {} {}", value("value"), call.reasons().to_string().replace(' ', "_")));
    let mut running = Running { call: object.clone(), has_returned: false };
    let worked = async {
        tokio::time::sleep(*TAKES).await;
        if value("handled") != value("value") || value("term") != term {
            let data = json!({"data": {"handled": value("value"), "term": term}});
            let written = configs.patch_object(&config, PatchBody::merge(data)).await?;
            note(&format!("wrote {object} {}", written.resource_version().unwrap_or_default()));
        }
        Ok(())
    };
    let worked: Result<()> = worked.await;
    running.has_returned = true;
    worked?;
    // Such an object is handled all the time, also while no change arrives.
    let again = value("again") == "yes";
    Ok(if again { Action::requeue_after(Duration::from_millis(50)) } else { Action::done() })
}

#[kooper::controller(
    resource = ConfigMap,
    labels = "shared",
    workers = 16,
    resync = off,
    shards(count = 32, members = 6, lease_duration = "3s", renew_deadline = "2s", retry_period = "1s"),
    main = false,
)]
async fn shared(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, call: Call) -> Result<Action> {
    handle(config, configs, call).await
}

#[kooper::controller(
    name = "shared",
    resource = ConfigMap,
    labels = "shared",
    workers = 16,
    resync = off,
    shards(
        count = 32,
        by = namespace,
        members = 6,
        lease_duration = "3s",
        renew_deadline = "2s",
        retry_period = "1s",
    ),
    main = false,
)]
async fn by_namespace(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, call: Call) -> Result<Action> {
    handle(config, configs, call).await
}

/// Runs in one of the processes, and in another one when that has ended.
#[kooper::task(every = "1h", shard_of = "shared", main = false)]
async fn sweep(call: Call) {
    tracing::info!(shard = call.shard().map(|shard| shard.index), "swept");
}

fn main() -> ExitCode {
    let app = App::new("shared", env!("CARGO_PKG_VERSION")).define::<sweep>();
    let is_by_namespace = std::env::var("SHARED_BY").is_ok_and(|by| by == "namespace");
    if is_by_namespace { app.define::<by_namespace>() } else { app.define::<shared>() }.run()
}
