//! Histories of requests, sent to this server and to a real one: the answers are the same.
//!
//! Written histories are in `cases`; `KOOPER_CASE=name` runs those alone whose names begin like that.
//! Others are random: `KOOPER_REQUESTS` sets how many requests they have in
//! all, `KOOPER_SEED` which. With `KOOPER_RECORD=1` the real server's answers
//! are kept in `recorded`, from where they are compared without a real server.
//!
//! `known.txt` lists the answers that differ; it may only get shorter.

mod case;
mod compare;
#[path = "../control_plane.rs"]
mod control_plane;
mod costs;
mod coverage;
#[path = "../diff.rs"]
mod diff;
mod expressions;
mod hooks;
mod normal;
mod random;
mod real;
mod recorded;
mod run;
mod server;
mod shrink;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _, stream};

use self::case::Case;
use self::compare::{Difference, differences};
use self::coverage::Coverage;
use self::normal::normal;
use self::random::History;
use self::real::Real;
use self::recorded::File;
use self::run::run;
use self::server::{Answer, Server};

/// Total number of requests in random histories, unless `KOOPER_REQUESTS` is set. Each pair of
/// kinds has a history.
const REQUESTS: u64 = 28 * LENGTH as u64;
/// Number of requests in a random history.
const LENGTH: usize = 120;
/// Number of random histories that are sent at the same time, each in a separate namespace.
///
/// A consistent list of the real server may wait 100 ms for etcd, during which others continue.
/// With more histories at the same time, each of them takes longer on a slow machine than 75
/// seconds. The real server keeps the versions at which watches begin for at least this time.
const AT_ONCE: usize = 12;
/// Maximum number of times that a case with differences is sent again.
const MOST_REPETITIONS: usize = 2;

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().map_or(default, |value| value.parse().expect("the variable is a number"))
}

fn recording() -> bool {
    env::var_os("KOOPER_RECORD").is_some()
}

/// The differences that are known, with the reasons as comments.
fn known() -> BTreeSet<&'static str> {
    include_str!("known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Sends a case to a fresh embedded server.
async fn ours(case: &Case) -> Vec<Answer> {
    let (_running, server) = Server::embedded().await;
    run(case, &server, None).await
}

/// Sends a case to both servers.
async fn compared(case: &Case, real: &Real) -> Vec<Difference> {
    let ours = ours(case).await;
    let theirs = run(case, &real.server, Some(&ours)).await;
    differences(case, ours, theirs)
}

/// Sends a case to both servers again, as long as they differ. Returns the differences that were
/// there each time, and how often the case was sent again.
///
/// The embedded server gives the same answers each time. What depends on how fast the real one is
/// does not happen again: admission of an update may see the object before the write that came last.
async fn lasting(case: &Case, mut all: Vec<Difference>, real: &Real) -> (Vec<Difference>, usize) {
    let mut repetitions = 0;
    while !all.is_empty() && repetitions < MOST_REPETITIONS {
        repetitions += 1;
        let again = Case { name: format!("{}-again-{repetitions}", case.name), ..case.clone() };
        let again = compared(&again, real).await;
        all.retain(|difference| again.iter().any(|other| other.what == difference.what));
    }
    (all, repetitions)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_are_those_of_a_real_server() {
    let Some(real) = Real::start() else { return };
    let only = env::var("KOOPER_CASE").ok();
    let known = known();
    let (mut report, mut requests, mut differing) = (String::new(), 0, 0);
    for file in recorded::files() {
        let mut all = Vec::new();
        for case in &file.cases {
            if only.as_ref().is_some_and(|only| !case.name.starts_with(only.as_str())) {
                continue;
            }
            let ours = ours(case).await;
            let theirs = run(case, &real.server, Some(&ours)).await;
            if recording() {
                all.push(normal(theirs.clone()));
            }
            requests += ours.len();
            let mut new = differences(case, ours, theirs);
            new.retain(|difference| !known.contains(&*difference.line()));
            for difference in lasting(case, new, &real).await.0 {
                differing += 1;
                let _ = write!(report, "{difference}");
            }
        }
        if recording() && only.is_none() {
            recorded::write(&file, &all);
        }
    }
    assert!(report.is_empty(), "{differing} of {requests} answers differ:\n{report}");
}

/// The clock is paused: watches that end with time take none.
#[tokio::test(start_paused = true)]
async fn the_answers_are_those_that_were_recorded() {
    let (mut report, mut requests, mut differing, mut missing) = (String::new(), 0, 0, Vec::new());
    let (known, mut met) = (known(), BTreeSet::new());
    for file in recorded::files() {
        let cases = recorded::read(&file);
        let fresh = |case: &&Case| !cases.iter().any(|(other, _)| other.name == case.name);
        missing.extend(file.cases.iter().filter(fresh).map(|case| case.name.clone()));
        for (case, theirs) in cases {
            let ours = normal(ours(&case).await);
            requests += ours.len();
            for difference in compare::between(&case, ours.into_iter().zip(theirs)) {
                match known.get(&*difference.line()) {
                    Some(line) => drop(met.insert(*line)),
                    None => {
                        differing += 1;
                        let _ = write!(report, "{difference}");
                    }
                }
            }
        }
    }
    assert!(report.is_empty(), "{differing} of {requests} answers differ:\n{report}");
    let mended: Vec<_> = known.difference(&met).collect();
    assert!(mended.is_empty(), "these differ no longer, remove them from known.txt: {mended:#?}");
    assert!(missing.is_empty(), "cases without a recording, run with KOOPER_RECORD=1: {missing:?}");
}

/// A random history and how the servers differ on it.
struct Outcome {
    history: History,
    theirs: Vec<Answer>,
    /// The first difference: what follows it may follow from it.
    difference: Option<Difference>,
    /// Number of times that the history was sent again.
    repetitions: usize,
}

/// Makes a random history and sends it to both servers.
async fn outcome(index: u64, seed: u64, real: Arc<Real>) -> Outcome {
    let one = seed.wrapping_mul(1_000_003).wrapping_add(index);
    let subjects = random::subjects(seed.wrapping_add(index));
    let history = random::history(one, &format!("random-{one}"), subjects, LENGTH).await;
    let theirs = run(&history.case, &real.server, Some(&history.answers)).await;
    let all = differences(&history.case, history.answers.clone(), theirs.clone());
    let (mut all, repetitions) = lasting(&history.case, all, &real).await;
    all.sort_by_key(Difference::indirectness);
    Outcome { history, theirs, difference: all.into_iter().next(), repetitions }
}

/// Differences of one kind.
struct Found {
    count: usize,
    case: Case,
    difference: Difference,
}

impl Found {
    /// The shortest history that shows the difference.
    async fn shortest(&self, real: &Real) -> String {
        let what = &self.difference.what;
        let differs = async |case: &Case| compared(case, real).await.iter().any(|other| other.what == *what);
        let shortest = shrink::shrink(self.case.clone(), self.difference.step.id, differs).await;
        let again = Case { name: format!("{}-again", self.case.name), ..shortest.clone() };
        match compared(&again, real).await.iter().find(|other| other.what == *what) {
            Some(difference) => format!("{shortest}{difference}"),
            None => format!("{}it did not happen again:\n{}", self.case, self.difference),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_get_the_answers_of_a_real_server() {
    let requests = number("KOOPER_REQUESTS", REQUESTS);
    let Some(mut real) = Real::start() else { return };
    run::install_fixture(&real.server).await;
    // So that the first version is too old for a watch of any kind.
    real.restart();
    run::install_fixture(&real.server).await;
    let real = Arc::new(real);
    let seed = number("KOOPER_SEED", 1);
    // Number of kinds of differences for which a shortest history is printed.
    let shortened = number("KOOPER_SHORTEN", 3) as usize;
    let mut coverage = Coverage::default();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let (mut cases, mut recorded, mut repeated) = (Vec::new(), Vec::new(), 0);
    let outcomes = (0..requests.div_ceil(LENGTH as u64))
        .map(|index| tokio::spawn(outcome(index, seed, Arc::clone(&real))).map(|outcome| outcome.expect("no panic")));
    let mut outcomes = stream::iter(outcomes).buffered(AT_ONCE);
    while let Some(Outcome { history, theirs, difference, repetitions }) = outcomes.next().await {
        coverage.add(&history);
        repeated += usize::from(repetitions > 0);
        let case = history.case;
        if recording() {
            cases.push(case.clone());
            recorded.push(normal(theirs));
        }
        let Some(difference) = difference else { continue };
        if !found.contains_key(&difference.what) {
            drop(writeln!(std::io::stderr(), "{difference}"));
        }
        let entry = found.entry(difference.what.clone());
        entry.or_insert_with(|| Found { count: 0, case, difference }).count += 1;
    }
    if recording() {
        let file = File { name: "random".into(), cases };
        recorded::write_cases(&file);
        recorded::write(&file, &recorded);
    }
    if requests > REQUESTS {
        drop(writeln!(std::io::stderr(), "{coverage}\n{repeated} histories were sent again"));
    }
    let shortest = join_all(found.values().take(shortened).map(|found| found.shortest(&real))).await;
    let mut report = String::new();
    for (index, (what, found)) in found.iter().enumerate() {
        let shown = shortest.get(index).cloned().unwrap_or_else(|| found.difference.to_string());
        let _ = write!(report, "\n######## {} times: {what}\n{shown}", found.count);
    }
    let total: usize = found.values().map(|found| found.count).sum();
    let short = coverage.shortfalls();
    assert!(
        found.is_empty() && short.is_empty(),
        "{total} histories of seed {seed} differ, and these shares are too low: {short:#?}\n{report}"
    );
}
