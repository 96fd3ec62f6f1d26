//! Exploration: a scenario, with something that goes wrong at each point in turn.

mod children;
mod common;
mod desired;
mod difference;
mod end;
mod expected;
mod finding;
mod frame;
mod history;
mod normal;
mod outcome;
mod plan;
mod problem;
mod process;
mod recorder;
mod reference;
mod scenario;
mod text;
mod trial;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio::runtime::Runtime;

use self::desired::Desired;
use self::history::Setting;
use self::outcome::Outcome;
use self::problem::Problem;
use self::process::Make;
use self::reference::Reference;
use self::trial::{Sequence, Trial};
use crate::Cluster;
use crate::cluster::is_paused;
use kooper_access::internal::GivenSettings;
use kooper_access::{ConfigError, Controller};
use kooper_runtime::Kind;
use kooper_runtime::internal::error::chain;

pub use self::finding::Finding;
pub use self::frame::explore;
pub use self::problem::Oracle;
pub use self::scenario::ScenarioResult;

/// The histories of an exploration, unless a test sets another limit.
const LIMIT: usize = 500;

/// The storms of an exploration, unless the environment sets another number.
const STORMS: u64 = 10;

/// Maximum number of first writes that are rejected or lose their response. With more of them, the
/// back-off would exceed the quiet period after which a cluster counts as at rest.
const FAILURES: usize = 12;

/// So many histories without their fault are no finding.
const MOST_UNMET: usize = 4;

/// The histories without faults that are run first.
const FIRST: usize = 2;

/// Number of histories without faults that are compared before a difference is reported. Random
/// values, such as the order of a list, may agree in fewer of them.
const SURE: usize = 8;

/// Maximum number of partly compared fields that are displayed.
const SHOWN: usize = 20;

/// Explores what controllers make of a scenario when something goes wrong at any
/// point of it. `kooper::explore` is the shorthand for tests.
///
/// First the scenario runs twice without faults: what the controllers write and
/// receive then are the points at which something can go wrong, and what the two
/// histories have in common is the expected end state. Then it runs once for each
/// point, on a cluster of its own:
///
/// | at | goes wrong |
/// |---|---|
/// | each write | the process is killed before it is sent, after it is stored but before its answer arrives, or after the answer; the write is rejected; its answer is lost |
/// | the first writes | the same happens to the first one, and to each of the first 2, 3 and so on; at most 12 are rejected or lose their answer |
/// | each watch event | it and what follows is 30 seconds late, so that the cache is stale; or everything in these 30 seconds is missed, and only the result is observed |
/// | random points | ten storms: errors, resets, lost answers, delays and broken watches; `KOOPER_STORMS` sets how many |
///
/// With several [states](Self::state) of an object it also runs sequences of them.
///
/// There is one process at a time, which runs without leader election. If all controllers
/// have shards, a further history for each write has two: after the answer to the
/// write another process starts, to which the first one hands over its shards before it stops.
///
/// After each history the objects must be those of a history without faults, as
/// many must have been created and deleted, the end state must have been reached
/// in at most ten more calls for each object after a crash, an error or a storm,
/// and then 50 more calls must change nothing. Declared children must have been deleted in the
/// order of their waves, and none without an owner reference may outlive its owner. What the server assigns, uids, times,
/// addresses and generated names are not compared, also where they are a part of a
/// text. Of what already differs without faults only what these histories have in
/// common is compared, such as the number of lines; [`Explored::partly_compared`]
/// lists it, and an object of which nothing can be compared is a finding. What is
/// created for an owner that a stale cache still has is not counted: it is collected
/// as garbage.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::prelude::*;
/// use kooper::testing::{Cluster, Exploration};
///
/// async fn password(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
///     let mut secret = Secret::default();
///     secret.metadata.name = Some(format!("{}-password", config.name_any()));
///     secrets.apply_owned(&config, &secret).await?;
///     Ok(())
/// }
///
/// # fn runtime() -> tokio::runtime::Runtime {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
/// # }
/// let exploration = Exploration::of(|| Ok(vec![ConfigMap::controller("password").handler(password).build()?]));
/// // `runtime` makes a current-thread runtime of tokio with `start_paused(true)`.
/// let explored = exploration.run(runtime, async |cluster: Cluster| {
///     let mut config = ConfigMap::default();
///     config.metadata.name = Some("shop".into());
///     cluster.create(&config).await.map(drop)
/// })?;
/// assert!(explored.histories() > 10);
/// # Ok::<_, kooper::testing::Finding>(())
/// ```
#[must_use = "`run` explores"]
pub struct Exploration {
    make: Make,
    name: String,
    settings: GivenSettings,
    desired: Vec<Box<dyn Desired>>,
    ignored: Vec<String>,
    seed: u64,
    limit: usize,
}

/// The summary of an [`Exploration`] that found no problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    histories: usize,
    possible: usize,
    unmet: usize,
    seed: u64,
    partly: Vec<String>,
}

impl Explored {
    /// The number of histories with something that went wrong.
    #[must_use]
    pub fn histories(&self) -> usize {
        self.histories
    }

    /// The number of histories that there are; more than were tried if there is a limit.
    #[must_use]
    pub fn possible(&self) -> usize {
        self.possible
    }

    /// The number of histories without their fault: its write or event did not occur
    /// again, for example because the handler chooses a random name for its object.
    #[must_use]
    pub fn unmet(&self) -> usize {
        self.unmet
    }

    /// The fields that are not compared whole, as they already differ without faults, with what is compared of
    /// them: `` `data.token` of `Secret default/a`, except for about 8 characters, 1 line ``. Those that the test
    /// [ignores](Exploration::ignore) are left out.
    #[must_use]
    pub fn partly_compared(&self) -> &[String] {
        &self.partly
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, possible, unmet, seed, partly } = self;
        write!(f, "{histories} of {possible} histories explored, seed {seed}")?;
        if *unmet > 0 {
            write!(f, "; {unmet} of them without their fault, as its write or event did not occur again")?;
        }
        if !partly.is_empty() {
            f.write_str("\nnot compared, because it differs between runs without faults:")?;
        }
        partly.iter().take(SHOWN).try_for_each(|one| write!(f, "\n  {one}"))?;
        match partly.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl Exploration {
    /// Explores controllers. The function makes those of one process: it is called
    /// for each start, and each start has a state of its own.
    pub fn of(controllers: impl Fn() -> Result<Vec<Controller>, ConfigError> + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(controllers),
            // That of the test, unless tests share the main thread.
            name: std::thread::current().name().filter(|name| *name != "main").unwrap_or_default().to_owned(),
            settings: GivenSettings::default(),
            desired: Vec::new(),
            ignored: Vec::new(),
            seed: plan::seed().unwrap_or_else(plan::new_seed),
            limit: plan::histories().unwrap_or(LIMIT),
        }
    }

    /// Adds a desired state of an object. Each history applies the states in turn,
    /// after the scenario; and sequences of them must lead to what the last one
    /// alone leads to: one changed to another, at once too, back again, and deleted
    /// and created again.
    pub fn state<K: Kind + Serialize + Clone>(mut self, object: K) -> Self {
        self.desired.push(Box::new(object));
        self
    }

    /// Ignores a field with everything below it, such as `status.lastRun`, in all objects;
    /// or all objects of a kind, such as `PersistentVolumeClaim`.
    pub fn ignore(mut self, path_or_kind: impl Into<String>) -> Self {
        self.ignored.push(path_or_kind.into());
        self
    }

    /// The program's own settings.
    pub fn settings<T: Send + Sync + 'static>(mut self, settings: T) -> Self {
        self.settings.give(settings);
        self
    }

    /// The most histories; of more, the seed chooses. Default: 500. `KOOPER_HISTORIES`
    /// overrides it.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn limit(mut self, histories: usize) -> Self {
        assert!(histories > 0, "an exploration without histories shows nothing: write `limit(1)` or more");
        self.limit = plan::histories().unwrap_or(histories);
        self
    }

    /// The seed of what is left to chance. Default: a new one. `KOOPER_SEED` overrides it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = plan::seed().unwrap_or(seed);
        self
    }

    /// The name of the test, which a failure shows; empty if it is unknown.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Explores: runs the scenario again and again, each time on a runtime of its
    /// own, whose clock is paused. With `KOOPER_REPLAY=FILE` only the history in
    /// that file is run.
    ///
    /// # Errors
    /// The first history that is not as it should be.
    ///
    /// # Panics
    /// If the clock of the runtime is not paused, or the file of `KOOPER_REPLAY` cannot be read.
    pub fn run<F>(&self, runtime: impl Fn() -> Runtime, scenario: impl Fn(Cluster) -> F) -> Result<Explored, Finding>
    where
        F: Future<Output: ScenarioResult>,
    {
        let scenario = &scenario;
        let scenario = move |cluster| async move { scenario(cluster).await.checked() }.boxed_local();
        let setting = Setting {
            make: self.make.clone(),
            settings: self.settings.clone(),
            scenario: &scenario,
            desired: &self.desired,
            ignored: &self.ignored,
            // Mistakes in the controllers are found when they are run.
            ordered: (self.make)().map_or_else(|_| BTreeSet::new(), |all| children::ordered(&all)),
        };
        // Each history would take hours.
        let is_paused = runtime().block_on(async { is_paused() });
        assert!(is_paused, "an exploration needs a runtime whose clock is paused: build it with `start_paused(true)`");
        let run = |trial: &Trial| {
            runtime().block_on(async {
                let failed = |error: kooper_runtime::BoxError| Outcome {
                    problem: Some(Problem::Failed(chain(&*error))),
                    ..Outcome::default()
                };
                setting.run(trial).await.unwrap_or_else(failed)
            })
        };
        let replayed = plan::replayed(&self.name);
        let mut references =
            References { run: &run, exploration: self, is_replay: replayed.is_some(), learned: HashMap::new() };
        let mut trials = match &replayed {
            Some(trial) => vec![trial.clone()],
            None => self.trials(references.of(&Trial::Undisturbed)?.outcome()),
        };
        if replayed.is_none() && trials.iter().all(|trial| matches!(trial, Trial::Storm { .. } | Trial::Sequence(_))) {
            let problem = "nothing can go wrong: the controllers receive no events and send no writes, as the scenario \
                           has no object that they handle";
            return Err(self.finding(&Trial::Undisturbed, Problem::Failed(problem.to_owned()), &Outcome::default()));
        }
        let possible = trials.len();
        plan::choose(&mut trials, self.limit, self.seed);
        let mut unmet = 0;
        for trial in &trials {
            let outcome = run(trial);
            if let Some(problem) = references.judge(trial, &outcome)? {
                return Err(self.finding(trial, problem, &outcome));
            }
            unmet += usize::from(!outcome.met);
            if replayed.is_some() && !outcome.met {
                let problem = "its fault did not occur: the controllers no longer write or receive this";
                return Err(self.finding(trial, Problem::Failed(problem.to_owned()), &outcome));
            }
        }
        if unmet >= MOST_UNMET && 2 * unmet > trials.len() {
            let problem = format!(
                "the faults of {unmet} of {} histories did not occur, because each run writes and receives something \
                 different: the controllers or the scenario are not deterministic",
                trials.len()
            );
            return Err(self.finding(&Trial::Undisturbed, Problem::Failed(problem), &Outcome::default()));
        }
        Ok(Explored { histories: trials.len(), possible, unmet, seed: self.seed, partly: references.partly() })
    }

    /// Everything that can go wrong in such a history.
    fn trials(&self, outcome: &Outcome) -> Vec<Trial> {
        // Without shards, both of two processes would handle every object. Some tasks may run in both.
        let has_shards = (self.make)().is_ok_and(|controllers| {
            let may_overlap = |one: &Controller| !one.limits_replicas() && !one.has_leader_election();
            controllers.iter().any(Controller::has_shards) && controllers.iter().all(may_overlap)
        });
        let writes = outcome.written.iter().flat_map(|written| {
            let (of, nth) = (written.what.clone(), written.nth);
            let handed_over = has_shards.then_some(trial::WriteFault::HandedOver);
            let mishaps = trial::WriteFault::ALL.into_iter().chain(handed_over);
            mishaps.map(move |mishap| Trial::Write { of: of.clone(), nth, mishap })
        });
        let prefixes = (1..=outcome.written.len()).flat_map(|writes| {
            let mishaps = trial::WriteFault::ALL.into_iter();
            let mishaps = mishaps.filter(move |mishap| writes <= FAILURES || !mishap.is_retried());
            mishaps.map(move |mishap| Trial::Prefix { writes, mishap })
        });
        let events = outcome.events.iter().flat_map(|(of, nth)| {
            trial::EventFault::ALL.map(move |gap| Trial::Event { of: of.clone(), nth: *nth, gap })
        });
        let storms = (0..plan::storms().unwrap_or(STORMS))
            .map(|number| Trial::Storm { seed: self.seed.wrapping_add(number), again: None });
        let sequences = Sequence::all(self.desired.len()).into_iter().map(Trial::Sequence);
        writes.chain(prefixes).chain(events).chain(sequences).chain(storms).collect()
    }

    fn finding(&self, trial: &Trial, problem: Problem, outcome: &Outcome) -> Finding {
        let mut trial = trial.clone();
        if let Trial::Storm { again, .. } = &mut trial {
            // The dice fall otherwise for names that are generated.
            again.get_or_insert_with(|| outcome.injected.clone());
        }
        Finding::new(&self.name, self.seed, trial, problem, outcome.requests.clone())
    }
}

/// The histories without faults that others are compared with, by their last desired state. They
/// are run when they are first needed.
struct References<'a> {
    run: &'a dyn Fn(&Trial) -> Outcome,
    exploration: &'a Exploration,
    /// `true` if only the history of a file is run again.
    is_replay: bool,
    learned: HashMap<Option<usize>, Reference>,
}

impl References<'_> {
    fn of(&mut self, trial: &Trial) -> Result<&mut Reference, Finding> {
        let (last, undisturbed) = compared_with(trial);
        match self.learned.entry(last) {
            Entry::Occupied(learned) => Ok(learned.into_mut()),
            Entry::Vacant(vacant) => {
                let passed = passed(self.run, self.exploration, &undisturbed, FIRST)?;
                let reference = Reference::learn(passed, self.exploration.ignored.clone());
                match reference.unseen() {
                    Some(problem) => Err(self.exploration.finding(&Trial::Undisturbed, problem, &Outcome::default())),
                    None => Ok(vacant.insert(reference)),
                }
            }
        }
    }

    /// Returns the problem with a history, if any. Before it reports a difference that may be due
    /// to chance, it learns from more histories without faults.
    fn judge(&mut self, trial: &Trial, outcome: &Outcome) -> Result<Option<Problem>, Finding> {
        let is_replay = self.is_replay;
        let reference = self.of(trial)?;
        let found = reference.judge(trial, outcome);
        let may_be_chance = matches!(found, Some(Problem::Differs(_) | Problem::Counts { .. }));
        if !may_be_chance || is_replay || reference.len() >= SURE {
            return Ok(found);
        }
        let more = passed(self.run, self.exploration, &compared_with(trial).1, SURE - FIRST)?;
        let reference = self.of(trial)?;
        reference.learn_more(more);
        Ok(reference.judge(trial, outcome))
    }

    /// Returns descriptions of everything that is compared only in part, sorted.
    fn partly(&self) -> Vec<String> {
        let all: BTreeSet<_> =
            self.learned.values().flat_map(Reference::uncompared).map(|one| one.to_string()).collect();
        all.into_iter().collect()
    }
}

/// The histories that one is compared with: the last state that they have, and how they are run.
fn compared_with(trial: &Trial) -> (Option<usize>, Trial) {
    match trial {
        Trial::Sequence(sequence) => (Some(sequence.last()), Trial::Sequence(Sequence::Only { to: sequence.last() })),
        _ => (None, Trial::Undisturbed),
    }
}

/// Runs so many histories without faults, which must have no problem.
fn passed(
    run: &dyn Fn(&Trial) -> Outcome,
    exploration: &Exploration,
    trial: &Trial,
    number: usize,
) -> Result<Vec<Outcome>, Finding> {
    let passed = |_| {
        let mut outcome = run(trial);
        match outcome.problem.take().or_else(|| outcome.unrest.take()) {
            Some(problem) => Err(exploration.finding(trial, problem, &outcome)),
            None => Ok(outcome),
        }
    };
    (0..number).map(passed).collect()
}

kooper_runtime::internal::debug_fields! { Exploration { seed, limit } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "write `limit(1)` or more")]
    fn an_exploration_without_histories_is_refused() {
        let _ = Exploration::of(|| Ok(Vec::new())).limit(0);
    }
}
