//! Crashes before and after each write: the next process reaches the same end state.

use std::time::Duration;

use kooper::apiserver::faults::{Fault, Requests};
use kooper::prelude::*;
use kooper::testing::{Cluster, Running};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Stall", namespaced, status = "StallStatus")]
struct StallSpec {
    owner: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct StallStatus {
    open: bool,
}

/// A Secret and a ConfigMap for each Stall, a status, and a log of the closed ones.
#[kooper::controller(resource = Stall, cleanup = close, finalizer = "example.com/stall", main = false)]
async fn stalls(
    stall: Arc<Stall>,
    secrets: OwnedApplier<Secret>,
    configs: OwnedApplier<ConfigMap>,
    statuses: StatusWriter<Stall>,
) -> Result<()> {
    secrets.apply_owned(&stall, &with_name(&format!("{}-key", stall.name_any()))).await?;
    configs.apply_owned(&stall, &config(&format!("{}-prices", stall.name_any()))).await?;
    statuses.apply_status(&stall, &StallStatus { open: true }).await?;
    Ok(())
}

async fn close(stall: Arc<Stall>, logs: Applier<ConfigMap>) -> Result<()> {
    let mut log = config(&format!("{}-closed", stall.name_any()));
    log.metadata.namespace = stall.namespace();
    logs.apply(&log).await?;
    Ok(())
}

/// When the process is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Crash {
    Never,
    /// Before the nth write reaches the server.
    Before(u64),
    /// After the nth write, before its answer arrives.
    After(u64),
}

impl Crash {
    /// The fault that holds a write back for an hour.
    pub(super) fn plan(self, faults: &Faults) -> Option<Fault> {
        let (hour, writes) = (Duration::from_secs(3600), || faults.on(Requests::writes().by(CONTROLLER)));
        match self {
            Self::Never => None,
            Self::Before(nth) => Some(writes().nth(nth).delay(hour)),
            Self::After(nth) => Some(writes().nth(nth).delay_answer(hour)),
        }
    }
}

/// Kills the controller when it meets the fault, and runs it again. Without a fault, it goes on.
pub(super) async fn crashed(
    cluster: &Cluster,
    first: Running,
    fault: Option<Fault>,
    controller: fn() -> Result<Controller, kooper::ConfigError>,
) -> Running {
    let Some(fault) = fault else { return first };
    eventually("the fault is met", || fault.times() == 1).await;
    // The write is done, and its answer on the way.
    sleep(Duration::from_millis(1)).await;
    first.kill().await;
    cluster.faults().clear();
    cluster.run([controller().unwrap()]).await.unwrap()
}

/// Actions of the test.
#[derive(Clone, Copy, Debug)]
enum Step {
    Opens,
    Closes,
}

/// The objects, without what differs from run to run.
async fn state(cluster: &Cluster) -> Vec<String> {
    let stalls: Vec<Stall> = cluster.list().await.unwrap();
    let secrets: Vec<Secret> = cluster.list().await.unwrap();
    let configs: Vec<ConfigMap> = cluster.list().await.unwrap();
    let open = |stall: &Stall| stall.status.as_ref().is_some_and(|status| status.open);
    let owners = |meta: &kube::core::ObjectMeta| meta.owner_references.iter().flatten().count();
    let stalls = stalls.iter().map(|stall| {
        format!("Stall {} open {} finalizers {:?}", stall.name_any(), open(stall), stall.metadata.finalizers)
    });
    let secrets = secrets.iter().map(|secret| format!("Secret {} {}", secret.name_any(), owners(&secret.metadata)));
    let configs = configs.iter().map(|config| format!("ConfigMap {} {}", config.name_any(), owners(&config.metadata)));
    stalls.chain(secrets).chain(configs).collect()
}

/// The end state, and how many writes it took.
async fn history(step: Step, crash: Crash) -> (Vec<String>, u64) {
    let cluster = Cluster::start().await.unwrap().with_timeout(Duration::from_secs(3600));
    let faults = cluster.faults();
    let writes = || faults.on(Requests::writes().by(CONTROLLER));
    let first = cluster.run([stalls::controller().unwrap()]).await.unwrap();
    let stall = Stall::new("corner", StallSpec { owner: "ann".to_owned() });
    if matches!(step, Step::Closes) {
        cluster.create(&stall).await.unwrap();
        cluster.wait("corner", |stall: &Stall| stall.status.as_ref().is_some_and(|status| status.open)).await;
        sleep(Duration::from_secs(60)).await;
    }
    let counted = writes().delay(Duration::ZERO);
    let crashes = crash.plan(&faults);
    match step {
        Step::Opens => drop(cluster.create(&stall).await.unwrap()),
        Step::Closes => cluster.delete(&cluster.get::<Stall>("corner").await.unwrap().unwrap()).await.unwrap(),
    }
    let running = crashed(&cluster, first, crashes, stalls::controller).await;
    match step {
        Step::Opens => {
            cluster.wait("corner", |stall: &Stall| stall.status.as_ref().is_some_and(|status| status.open)).await;
        }
        Step::Closes => cluster.wait_deleted(&stall).await,
    }
    // At rest nothing more is written.
    sleep(Duration::from_secs(60)).await;
    let more = writes().delay(Duration::ZERO);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(more.times(), 0, "{step:?}, {crash:?}");
    let end = state(&cluster).await;
    running.stop().await.unwrap();
    (end, counted.times())
}

#[test]
fn a_crash_before_or_after_any_write_leads_to_the_same_end_state() {
    for step in [Step::Opens, Step::Closes] {
        let writes = Arc::new(Mutex::new((Vec::new(), 0)));
        let count = writes.clone();
        paused(async move { *count.lock() = history(step, Crash::Never).await });
        let (expected, writes) = writes.lock().clone();
        assert!(writes >= 2, "{step:?} takes {writes} writes");
        for nth in 1..=writes {
            for crash in [Crash::Before(nth), Crash::After(nth)] {
                let expected = expected.clone();
                paused(async move { assert_eq!(history(step, crash).await.0, expected, "{step:?}, {crash:?}") });
            }
        }
    }
}
