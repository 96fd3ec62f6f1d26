//! One run of a scenario, with something that goes wrong, on a cluster of its own.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use kooper_apiserver::StoredObject;
use kooper_apiserver::faults::{Faults, Requests, Verb, WatchEvents};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::children::orphan;
use super::desired::Desired;
use super::end::{EndState, content};
use super::outcome::Outcome;
use super::problem::Problem;
use super::process::{Make, Process};
use super::recorder::{HistoryRecorder, RecordedWrite};
use super::trial::{EventFault, Step, Trial};
use crate::Cluster;
use crate::cluster::{CONTROLLERS, State, Unsettled};
use kooper_access::internal::GivenSettings;
use kooper_runtime::internal::error::{chain, panic_text};
use kooper_runtime::{ObjectKey, Result};

/// Timeout of the waits in a scenario.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Days within which a scenario has to end. Without an end, a wait for a channel would be silent.
const DAYS: u64 = 10;

/// Duration for which watch events are delayed or missed. It is longer than a call waits for its
/// own writes.
const GAP: Duration = Duration::from_secs(30);

/// Duration of a storm after the end of the scenario.
const STORM: Duration = Duration::from_secs(60);

/// Time after which a storm ends even if the scenario has not ended. The scenario may wait for
/// something that cannot succeed during the storm.
const LONGEST_STORM: Duration = Duration::from_secs(900);

/// Number of calls for each object that must change nothing in the desired state.
const QUIET_CALLS: usize = 50;

/// The time between two of them.
const QUIET: Duration = Duration::from_secs(10);

/// The scenario of the test, which every history runs.
pub(super) type Scenario<'a> = &'a dyn Fn(Cluster) -> LocalBoxFuture<'a, Result<(), String>>;

/// The configuration that all histories of an exploration share.
pub(super) struct Setting<'a> {
    pub(super) make: Make,
    pub(super) settings: GivenSettings,
    pub(super) scenario: Scenario<'a>,
    pub(super) desired: &'a [Box<dyn Desired>],
    /// Paths and kinds that the test ignores.
    pub(super) ignored: &'a [String],
    /// The controllers whose children are deleted in waves.
    pub(super) ordered: BTreeSet<String>,
}

impl Setting<'_> {
    /// Runs the scenario with something that goes wrong.
    pub(super) async fn run(&self, trial: &Trial) -> Result<Outcome> {
        let cluster = Cluster::with(self.settings.clone()).await?.with_timeout(TIMEOUT);
        let faults = cluster.faults();
        match trial {
            Trial::Event { of, nth, gap } => faults.replay(&line(of, *nth, *gap))?,
            // It delays nothing, and notes the events.
            Trial::Undisturbed => drop(faults.on_event(WatchEvents::all().by(CONTROLLERS)).delay(Duration::ZERO)),
            _ => {}
        }
        let recorder = Arc::new(HistoryRecorder::new(trial, self.ignored, &self.ordered));
        let started = cluster.version();
        let history = History { setting: self, trial, cluster, faults, recorder, started };
        let mut outcome = Outcome::default();
        if let Err(problem) = history.pass(&mut outcome).await {
            outcome.problem = Some(problem);
        }
        outcome.met = match trial {
            Trial::Write { .. } | Trial::Prefix { .. } => history.recorder.met(),
            Trial::Event { .. } | Trial::Storm { again: Some(_), .. } => history.faults.injected().lines().count() > 1,
            _ => true,
        };
        outcome.injected = history.faults.injected();
        if outcome.requests.is_empty() {
            outcome.requests = history.recorder.requests(&history.cluster);
        }
        Ok(outcome)
    }
}

/// A history while it runs.
struct History<'a, 's> {
    setting: &'a Setting<'s>,
    trial: &'a Trial,
    cluster: Cluster,
    faults: Faults,
    recorder: Arc<HistoryRecorder>,
    /// The version of the last object that the server was started with.
    started: u64,
}

impl History<'_, '_> {
    async fn pass(&self, outcome: &mut Outcome) -> Result<(), Problem> {
        let started = Process::start(self.cluster.clone(), self.setting.make.clone(), self.recorder.clone()).await;
        let process = started.map_err(|error| Problem::Failed(chain(&*error)))?;
        let before = events(&self.faults).len();
        match self.trial {
            Trial::Storm { seed, again: None } => storm(&self.faults, *seed),
            Trial::Storm { again: Some(injected), .. } => {
                self.faults.replay(injected).map_err(|error| Problem::Failed(error.to_string()))?;
            }
            _ => {}
        }
        tokio::select! {
            passed = self.scenario(&process) => passed?,
            () = self.blow_over() => {}
        }
        let mut calm = 0;
        if let Trial::Storm { .. } = self.trial {
            sleep(STORM).await;
            self.faults.clear();
            calm = self.recorder.calls().all;
        }
        let mut calls = self.recorder.calls().all;
        let rest = self.cluster.rest(&self.state(), || calls = self.recorder.calls().all).await;
        if let Trial::Prefix { .. } = self.trial {
            calm = self.recorder.calm();
        }
        ended(&process)?;
        rest.map_err(|Unsettled(objects)| Problem::Unsettled(objects))?;
        outcome.events = events(&self.faults).split_off(before);
        outcome.calls = calls.saturating_sub(calm);
        let objects = self.cluster.objects();
        if let Some((problem, requests)) = self.recorder.out_of_order(&objects) {
            outcome.requests = requests;
            return Err(problem);
        }
        if let Some(child) = orphan(&objects, self.setting.ignored) {
            return Err(Problem::Orphan(child));
        }
        outcome.end = EndState::of(&objects, self.started);
        outcome.written = self.recorder.written();
        outcome.unrest = self.quiet(&process, outcome).await.err();
        Ok(())
    }

    /// Ends a storm that lasts too long. It never returns.
    async fn blow_over(&self) {
        if let Trial::Storm { .. } = self.trial {
            sleep(LONGEST_STORM).await;
            self.faults.clear();
        }
        std::future::pending::<()>().await;
    }

    /// Runs the scenario, and then the steps of this history.
    async fn scenario(&self, process: &Process) -> Result<(), Problem> {
        let scenario = async {
            (self.setting.scenario)(self.cluster.clone()).await?;
            for step in self.steps() {
                let done = match step {
                    Step::Apply(index) => self.setting.desired[index].apply(&self.cluster).await,
                    Step::Delete(index) => self.setting.desired[index].delete(&self.cluster).await,
                    Step::Settle => match self.cluster.rest(&self.state(), || ()).await {
                        Ok(()) => Ok(()),
                        Err(Unsettled(objects)) => Err(format!("{} never stop changing", objects.join(", ")).into()),
                    },
                };
                done.map_err(|error| chain(&*error))?;
            }
            Ok(())
        };
        // A wait that fails panics.
        let scenario = AssertUnwindSafe(scenario).catch_unwind();
        let late = format!("it has not ended within {DAYS} days: it waits for something that does not happen");
        let result = timeout(Duration::from_secs(DAYS * 86_400), scenario).await.unwrap_or(Ok(Err(late)));
        ended(process)?;
        result.unwrap_or_else(|panic| Err(panic_text(&*panic))).map_err(Problem::Failed)
    }

    /// Returns a function that summarizes the state of the cluster without ignored fields and
    /// kinds.
    fn state(&self) -> impl Fn(&[StoredObject]) -> State + use<'_> {
        let (ignored, hasher) = (self.setting.ignored, RandomState::new());
        move |objects| {
            if ignored.is_empty() {
                return State::of(objects);
            }
            State::digested(objects, |object| Some(hasher.hash_one(content(object.json(), ignored)?.to_string())))
        }
    }

    /// The states in this history's order, or one after another.
    fn steps(&self) -> Vec<Step> {
        match self.trial {
            Trial::Sequence(sequence) => sequence.steps(),
            _ => (0..self.setting.desired.len()).flat_map(|index| [Step::Apply(index), Step::Settle]).collect(),
        }
    }

    /// Calls the handlers again and again: nothing changes any more.
    async fn quiet(&self, process: &Process, outcome: &mut Outcome) -> Result<(), Problem> {
        let objects = self.cluster.objects();
        let versions: HashMap<_, _> =
            objects.iter().map(|object| (object.uid().to_owned(), object.version())).collect();
        let keys = objects.iter().map(|object| {
            let (namespace, name) =
                object.key().split_once('/').map_or((None, object.key()), |(one, two)| (Some(one), two));
            (object.group().to_owned(), object.resource().to_owned(), ObjectKey::new(namespace, name))
        });
        let keys: Vec<_> = keys.collect();
        outcome.primaries = primaries(process, &keys, &outcome.events);
        let ignored = self.setting.ignored;
        let content_of = |object: &StoredObject| content(object.json(), ignored).map(|content| content.to_string());
        // The content of each object without the ignored fields, by uid.
        let contents: HashMap<_, _> = match ignored {
            [] => HashMap::new(),
            _ => objects.iter().map(|object| (Some(object.uid().to_owned()), content_of(object))).collect(),
        };
        let is_ignored = |written: &RecordedWrite| {
            written.kind.as_ref().is_some_and(|kind| ignored.contains(kind))
                || contents.get(&written.uid).is_some_and(|before| *before == written.content)
        };
        let changes = |written: &RecordedWrite| {
            written.succeeded()
                && !written.is_empty
                && !is_ignored(written)
                && match (&written.uid, written.version) {
                    (Some(uid), Some(version)) => versions.get(uid) != Some(&version),
                    (Some(uid), None) => versions.contains_key(uid),
                    (None, _) => true,
                }
        };
        let mut seen = self.recorder.len();
        for call in 1..=QUIET_CALLS {
            self.recorder.begin_step();
            let before = self.recorder.calls();
            process.wake(&keys);
            sleep(QUIET).await;
            ended(process)?;
            let written = self.recorder.written().split_off(seen);
            if let Some(written) = written.iter().find(|written| changes(written)) {
                return Err(Problem::Writes { what: written.what.clone(), call });
            }
            seen += written.len();
            let calls = self.recorder.calls();
            if calls.panicked > before.panicked {
                return Err(Problem::Fails { why: Some("it panics".to_owned()), call });
            }
            if calls.failed > before.failed {
                if let Some(refused) = written.iter().find(|written| written.is_refused()) {
                    let why = format!("`{}` is refused with {}", refused.what, refused.status.unwrap_or_default());
                    return Err(Problem::Fails { why: Some(why), call });
                }
                outcome.failing.get_or_insert(call);
            }
        }
        Ok(())
    }
}

/// Returns the number of objects that the controllers handle: those that exist or, if there are
/// more, those that were added.
fn primaries(process: &Process, objects: &[(String, String, ObjectKey)], events: &[(String, u64)]) -> u64 {
    let there = objects.iter().filter(|(group, resource, _)| process.handles(group, resource)).count();
    let added = events.iter().filter_map(|(of, _)| of.strip_prefix("ADDED ")?.split(' ').next());
    let added = added.filter(|resource| {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        process.handles(group, resource)
    });
    there.max(added.count()).try_into().unwrap_or(u64::MAX)
}

fn ended(process: &Process) -> Result<(), Problem> {
    process.ended().map_or(Ok(()), |why| Err(Problem::Ended(why)))
}

/// A line of a plan of faults.
fn line(of: &str, nth: u64, gap: EventFault) -> String {
    let time = serde_json::json!({"secs": GAP.as_secs(), "nanos": 0});
    let fault = match gap {
        EventFault::Late => serde_json::json!({"delay": time}),
        EventFault::Missed => serde_json::json!({"expire_after": time}),
    };
    serde_json::json!({"event": {"of": of, "nth": nth, "fault": fault}}).to_string()
}

/// The watch events that met a fault.
fn events(faults: &Faults) -> Vec<(String, u64)> {
    #[derive(Deserialize)]
    struct Line {
        event: Option<Event>,
    }
    #[derive(Deserialize)]
    struct Event {
        of: String,
        nth: u64,
    }
    let injected = faults.injected();
    let lines = injected.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()?.event);
    lines.map(|Event { of, nth }| (of, nth)).filter(|(of, _)| !of.starts_with("BOOKMARK")).collect()
}

/// Everything that may go wrong with the requests and watches of the controllers, by chance.
fn storm(faults: &Faults, seed: u64) {
    faults.set_seed(seed);
    let writes = || faults.on(Requests::writes().by(CONTROLLERS)).with_probability(0.1);
    writes().reply(500);
    writes().reset();
    writes().drop_response();
    writes().delay(Duration::from_secs(2));
    for verb in [Verb::Watch, Verb::List] {
        let reads = || faults.on(Requests::from(verb).by(CONTROLLERS)).with_probability(0.1);
        reads().reply(500);
        reads().reset();
    }
    let events = || faults.on_event(WatchEvents::all().by(CONTROLLERS)).with_probability(0.05);
    events().close();
    events().expire();
    events().repeat();
    events().corrupt();
    events().delay(Duration::from_secs(1));
    events().expire_after(Duration::from_secs(20));
}
