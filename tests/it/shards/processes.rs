//! Three processes that share the objects on the real API server, while calls run all the time: processes are killed,
//! paused, cut off and replaced, and the API server stops.
#![cfg(target_os = "linux")]

use std::time::{SystemTime, UNIX_EPOCH};

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::wait::eventually;

pub(super) mod fleet;
pub(super) mod journal;

use fleet::{Fleet, Replica, wait_for_balance};
use journal::{Note, Unit};

/// Objects, of which each shard has some.
const OBJECTS: usize = 96;

/// Those of a process. As many calls may be about to begin when it is paused.
const WORKERS: usize = 16;

/// Longer than the lease of a session.
const OUTAGE_MICROS: u128 = 3_500_000;

#[test]
fn no_object_is_in_two_hands_and_each_is_handled_while_processes_are_killed_paused_cut_off_and_replaced() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let name = "shards-processes";
    let fleet = Fleet::new(cluster, name, &[(name.to_owned(), OBJECTS)]);
    let [first, second, third] = ["first", "second", "third"].map(|name| fleet.start(name));
    wait_for_balance(&[&first, &second, &third]);
    fleet.apply("created");
    fleet.wait_for_parts(&[&first, &second, &third]);
    let proxy = Proxy::start(cluster.address());
    let [server, proxied] = [cluster.address(), proxy.address()].map(|address| address.to_string());
    let behind_proxy = cluster.kubeconfig_with("shards-proxy", |text| text.replace(&server, &proxied));
    let replicas = fleet.touched(|| {
        killed(&fleet, &third, &[&first, &second]);
        let third = fleet.start_at("fourth", &behind_proxy);
        wait_for_balance(&[&first, &second, &third]);
        // By default, the API server has no shard selectors. The objects of a list show it, and the first lists had none.
        let state = if cluster.has_feature_gate("ShardedListAndWatch") { "applied" } else { "ignored" };
        let selector = format!(r#"kooper_shard_selector{{controller="shared",state="{state}"}}"#);
        third.process.wait_for_metric(&selector, |count| count == 1.0);
        let second = paused(&fleet, second, &[&first, &third]);
        cut_off(&fleet, &proxy, &third, &[&first, &second]);
        replaced(&fleet, vec![first, second, third])
    });
    replicas.into_iter().for_each(Replica::stop);
    fleet.journal.check(Unit::Object);
    assert_eq!(fleet.mark_of_the_map(), "shared/shared", "the last one returns the Lease to leader election");
}

fn killed(fleet: &Fleet<'_>, lost: &Replica, others: &[&Replica]) {
    fleet.take_away(lost, others, || {
        lost.process.signal("KILL");
        eventually("it has ended", || lost.process.has_ended());
        assert!(!fleet.journal.running(lost.name).is_empty(), "its calls ran");
        fleet.journal.stopped(lost.name);
    });
}

/// Returns the process that was paused, or one that replaces it.
fn paused(fleet: &Fleet<'_>, lost: Replica, others: &[&Replica; 2]) -> Replica {
    fleet.take_away(&lost, others, || {
        lost.process.signal("STOP");
        eventually("its threads are paused", || lost.process.is_paused());
        assert!(!fleet.journal.running(lost.name).is_empty(), "its calls ran");
        fleet.journal.stopped(lost.name);
    });
    // The paused process is going to receive all of these events late.
    fleet.change_all("during-the-pause");
    let resumed = fleet.journal.end();
    lost.process.signal("CONT");
    // It ends itself unless it aborts its calls before it notices that they have outlived its session.
    let works = || fleet.journal.begun_by(lost.name, resumed) > WORKERS;
    eventually("it ends, or works again", || lost.process.has_ended() || works());
    let again = if lost.process.has_ended() {
        lost.process.wait_for_line(&["a handler still runs at the end of its term"]);
        fleet.journal.stopped(lost.name);
        fleet.start("second-again")
    } else {
        lost
    };
    wait_for_balance(&[others[0], others[1], &again]);
    again
}

fn cut_off(fleet: &Fleet<'_>, proxy: &Proxy, lost: &Replica, others: &[&Replica; 2]) {
    let begun = fleet.journal.end();
    fleet.take_away(lost, others, || {
        proxy.shut();
        assert!(!fleet.journal.running(lost.name).is_empty(), "its calls run");
        let begun = fleet.journal.end();
        eventually("it continues to work", || fleet.journal.begun_by(lost.name, begun) > 0);
    });
    // The check of the journal compares the ends of these calls with the beginnings of others.
    let is_aborted = |note: &Note| matches!(note, Note::Aborts(call) if call.who == lost.name);
    assert!(fleet.journal.since(begun).iter().any(is_aborted), "calls that run at the end of its token are aborted");
    assert!(fleet.journal.running(lost.name).is_empty());
    let begun = fleet.journal.end();
    fleet.change_all("during-the-cut");
    assert_eq!(fleet.journal.begun_by(lost.name, begun), 0);
    proxy.open();
    wait_for_balance(&[others[0], others[1], lost]);
}

/// A roll-out: each new process is ready before an old one stops.
fn replaced(fleet: &Fleet<'_>, mut replicas: Vec<Replica>) -> Vec<Replica> {
    for (name, value) in [("fifth", "one-is-new"), ("sixth", "two-are-new"), ("seventh", "all-are-new")] {
        let new = fleet.start(name);
        new.process.wait_for_page("/readyz", 200, &[]);
        replicas.push(new);
        let old = replicas.remove(0);
        fleet.wait_for_calls(&[&old]);
        old.stop();
        fleet.change_all(value);
        wait_for_balance(&replicas.iter().collect::<Vec<_>>());
    }
    replicas
}

#[test]
fn no_object_is_in_two_hands_and_each_is_handled_after_the_api_server_was_unavailable_for_longer_than_a_lease() {
    let Some(cluster) = ControlPlane::exclusive() else { return };
    let name = "shards-outage";
    let fleet = Fleet::new(&cluster, name, &[(name.to_owned(), OBJECTS)]);
    let replicas = ["first", "second", "third"].map(|name| fleet.start(name));
    let all = replicas.each_ref();
    wait_for_balance(&all);
    fleet.touched(|| {
        fleet.change_all("created");
        fleet.wait_for_calls(&all);
        cluster.kill_apiserver();
        let (down, begun) = (now(), fleet.journal.end());
        eventually("each continues to work", || all.iter().all(|one| fleet.journal.begun_by(one.name, begun) > 0));
        eventually("all calls have ended", || all.iter().all(|one| fleet.journal.running(one.name).is_empty()));
        let ended = fleet.journal.end();
        eventually("all sessions have expired", || now() > down + OUTAGE_MICROS);
        assert_eq!(fleet.journal.end(), ended, "no call begins");
        cluster.start_apiserver();
        fleet.change_all("after-the-outage");
        wait_for_balance(&all);
    });
    replicas.into_iter().for_each(Replica::stop);
    fleet.journal.check(Unit::Object);
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

#[test]
fn by_namespace_no_namespace_is_in_two_hands_when_a_process_is_killed_however_uneven_they_are() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let small = (0..16).map(|number| (format!("shards-small-{number}"), 2));
    let namespaces: Vec<_> = [("shards-large".to_owned(), 64)].into_iter().chain(small).collect();
    let fleet = Fleet::new(cluster, "shards-uneven", &namespaces).by_namespace();
    let mut replicas: Vec<_> = ["first", "second", "third"].map(|name| fleet.start(name)).into();
    wait_for_balance(&replicas.iter().collect::<Vec<_>>());
    fleet.touched(|| {
        fleet.change_all("created");
        let works = |name| fleet.journal.last_handled_by(name).len();
        let largest = (0..3).max_by_key(|index| works(replicas[*index].name)).unwrap();
        assert!((64..96).contains(&works(replicas[largest].name)), "the large namespace, and not all others");
        let lost = replicas.remove(largest);
        killed(&fleet, &lost, &replicas.iter().collect::<Vec<_>>());
        fleet.change_all("after-the-crash");
    });
    replicas.into_iter().for_each(Replica::stop);
    fleet.journal.check(Unit::Namespace);
}
