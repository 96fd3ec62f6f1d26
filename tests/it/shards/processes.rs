//! Three processes that share the objects on the real API server: one is killed, one is paused, one is cut off, all are
//! replaced.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::process::Process;
use kooper_tests::wait::{eventually, until};
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "shards-processes";

/// Objects, of which each shard has some.
const OBJECTS: usize = 96;

/// What processes and the test have done, by the file to which all of them add lines.
pub(super) struct Journal(pub(super) PathBuf);

impl Journal {
    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Adds that this process has ended, or was paused, by the test.
    fn note(&self, name: &str, what: &str) {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0);
        file.unwrap().write_all(format!("{name} {what}\n").as_bytes()).unwrap();
    }

    /// The objects that were handled since this many lines, with the processes.
    fn since(&self, count: usize) -> BTreeMap<String, BTreeSet<String>> {
        handled(&self.lines()[count..], |_| true)
    }

    /// The objects that were handled with this value, with the processes.
    fn with(&self, value: &str) -> BTreeMap<String, BTreeSet<String>> {
        handled(&self.lines(), |of| of == value)
    }

    /// The objects that this process was the last one to handle.
    fn last_handled_by(&self, name: &str) -> BTreeSet<String> {
        let mut last = BTreeMap::new();
        for line in self.lines() {
            if let [who, "begins", uid, ..] = line.split(' ').collect::<Vec<_>>()[..] {
                last.insert(uid.to_owned(), who.to_owned());
            }
        }
        last.into_iter().filter(|(_, who)| who == name).map(|(uid, _)| uid).collect()
    }

    /// No object is in two hands: no call of it begins while another process works on it, terms never go back, and
    /// neither do those of the writes, in the order in which the API server has stored them.
    pub(super) fn check(&self) {
        let (mut running, mut terms) = (BTreeMap::<String, String>::new(), BTreeMap::<String, u64>::new());
        let (mut calls, mut writes) = (0, BTreeMap::<String, BTreeMap<u64, u64>>::new());
        for line in self.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                [who, "begins", uid, term, ..] => {
                    let other = running.insert(uid.to_owned(), who.to_owned());
                    assert!(other.is_none(), "{line}: {other:?} works on it");
                    let term = term.parse().unwrap();
                    let last = terms.insert(uid.to_owned(), term).unwrap_or_default();
                    assert!(last <= term, "{line}: after term {last}");
                    calls += 1;
                }
                // Another process may have begun since this one was paused.
                [who, "ends", uid] if running.get(uid).is_some_and(|other| other == who) => drop(running.remove(uid)),
                [_, "wrote", uid, term, version] => {
                    let written = writes.entry(uid.to_owned()).or_default();
                    written.insert(version.parse().unwrap(), term.parse().unwrap());
                }
                [who, "killed" | "paused"] => running.retain(|_, other| other != who),
                _ => {}
            }
        }
        for (uid, written) in &writes {
            assert!(written.values().is_sorted(), "{uid}: {written:?}");
        }
        println!("{calls} calls, {} writes", writes.values().map(BTreeMap::len).sum::<usize>());
    }
}

/// The objects of the calls with such a value, with the processes that were called.
fn handled(lines: &[String], is_right: impl Fn(&str) -> bool) -> BTreeMap<String, BTreeSet<String>> {
    let mut handled = BTreeMap::<String, BTreeSet<String>>::new();
    for line in lines {
        if let [who, "begins", uid, _, value, _] = line.split(' ').collect::<Vec<_>>()[..]
            && is_right(value)
        {
            handled.entry(uid.to_owned()).or_default().insert(who.to_owned());
        }
    }
    handled
}

/// A process of the program.
pub(super) struct Replica {
    name: &'static str,
    pub(super) process: Process,
}

impl Replica {
    pub(super) fn start(name: &'static str, cluster: &ControlPlane, journal: &Journal) -> Self {
        Self::start_at(name, cluster.kubeconfig(), journal)
    }

    fn start_at(name: &'static str, kubeconfig: &Path, journal: &Journal) -> Self {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shared"));
        command.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", NAMESPACE]);
        command.args(["--lease-namespace", NAMESPACE, "--listen", "127.0.0.1:0"]);
        command.env("SHARED_NAME", name).env("SHARED_LOG", &journal.0);
        Self { name, process: Process::run(&mut command) }
    }

    fn owned(&self) -> usize {
        self.process.metric("kooper_shards_owned{controller=\"shared\"}").unwrap_or_default() as usize
    }

    /// The objects in its cache.
    fn objects(&self) -> usize {
        self.process.metric("kooper_store_objects{controller=\"shared\"}").unwrap_or_default() as usize
    }

    /// Stops it in order.
    pub(super) fn stop(mut self) {
        self.process.signal("TERM");
        assert_eq!(self.process.exit_code(), Some(0), "{}", self.process.lines().join("\n"));
    }
}

/// Waits until these own all shards, as many each as possible.
pub(super) fn wait_for_balance(replicas: &[&Replica]) {
    let each = 32 / replicas.len();
    let loads = || replicas.iter().map(|replica| replica.owned()).collect::<Vec<_>>();
    let is_balanced = |loads: &[usize]| {
        loads.iter().sum::<usize>() == 32 && loads.iter().all(|load| (each..=each + 1).contains(load))
    };
    until("the shards are balanced", || is_balanced(&loads()).then_some(()), || format!("{:?}", loads()));
}

/// Waits until each object is in the cache of one process.
pub(super) fn wait_for_parts(replicas: &[&Replica]) {
    let objects = || replicas.iter().map(|replica| replica.objects()).collect::<Vec<_>>();
    let is_shared = || (objects().iter().sum::<usize>() == OBJECTS).then_some(());
    until("each object is in one cache", is_shared, || format!("{:?}", objects()));
    println!("objects in the caches: {:?}", objects());
}

fn object(number: usize, value: &str) -> Value {
    let metadata = json!({"namespace": NAMESPACE, "name": format!("config-{number}"), "labels": {"shared": "yes"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
}

/// Changes all objects, and waits until each is handled with the new value.
pub(super) fn change_all(cluster: &ControlPlane, journal: &Journal, value: &str) {
    cluster.apply((0..OBJECTS).map(|number| object(number, value)));
    eventually("each object is handled", || journal.with(value).len() == OBJECTS);
}

#[test]
fn no_object_is_in_two_hands_and_each_is_handled_while_processes_are_killed_paused_cut_off_and_replaced() {
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.must(&["create", "namespace", NAMESPACE]);
    let journal = Journal(cluster.dir().join("shards-processes"));
    let start = |name| Replica::start(name, cluster, &journal);
    let (first, second, third) = (start("first"), start("second"), start("third"));
    wait_for_balance(&[&first, &second, &third]);
    change_all(cluster, &journal, "created");
    wait_for_parts(&[&first, &second, &third]);

    let killed = Instant::now();
    third.process.signal("KILL");
    eventually("it has ended", || third.process.has_ended());
    journal.note(third.name, "killed");
    let orphaned = journal.last_handled_by(third.name);
    assert!(!orphaned.is_empty());
    wait_for_balance(&[&first, &second]);
    println!("after a crash, all shards are owned again within {:.2?}", killed.elapsed());
    // Its objects are handled again, although they have not changed.
    eventually("the objects of the killed process are handled", || {
        journal.last_handled_by(third.name).is_disjoint(&orphaned)
    });
    change_all(cluster, &journal, "after-the-crash");

    let (server, proxy) = (cluster.address().to_string(), Proxy::start(cluster.address()));
    let kubeconfig =
        cluster.kubeconfig_with("shards-proxy", |text| text.replace(&server, &proxy.address().to_string()));
    let third = Replica::start_at("fourth", &kubeconfig, &journal);
    wait_for_balance(&[&first, &second, &third]);
    // By default, the API server has no shard selectors. The objects of a list show it, and the first lists had none.
    let state = if cluster.has_feature_gate("ShardedListAndWatch") { "applied" } else { "ignored" };
    let selector = format!(r#"kooper_shard_selector{{controller="shared",state="{state}"}}"#);
    third.process.wait_for_metric(&selector, |count| count == 1.0);
    let (lines, paused) = (journal.lines().len(), Instant::now());
    second.process.signal("STOP");
    journal.note(second.name, "paused");
    wait_for_balance(&[&first, &third]);
    println!("after a pause, all shards are owned again within {:.2?}", paused.elapsed());
    // The paused process is going to receive all of these events late.
    change_all(cluster, &journal, "during-the-pause");
    assert!(journal.since(lines).values().all(|by| !by.contains(second.name)));
    second.process.signal("CONT");
    wait_for_balance(&[&first, &second, &third]);
    change_all(cluster, &journal, "after-the-pause");

    // It is cut off from the API server while it works.
    cluster.apply((0..OBJECTS).map(|number| object(number, "before-the-cut")));
    eventually("it works", || journal.with("before-the-cut").values().any(|by| by.contains(third.name)));
    let cut = Instant::now();
    proxy.shut();
    wait_for_balance(&[&first, &second]);
    println!("after a cut, all shards are owned again within {:.2?}", cut.elapsed());
    let lines = journal.lines().len();
    change_all(cluster, &journal, "during-the-cut");
    assert!(journal.since(lines).values().all(|by| !by.contains(third.name)));
    proxy.open();
    wait_for_balance(&[&first, &second, &third]);

    // A roll-out: each new process is ready before an old one stops.
    let mut replicas = vec![first, second, third];
    for (name, value) in [("fifth", "one-is-new"), ("sixth", "two-are-new"), ("seventh", "all-are-new")] {
        let new = start(name);
        new.process.wait_for_page("/readyz", 200, &[]);
        replicas.push(new);
        let begun = Instant::now();
        replicas.remove(0).stop();
        println!("a process has handed its shards over and stopped within {:.2?}", begun.elapsed());
        change_all(cluster, &journal, value);
        wait_for_balance(&replicas.iter().collect::<Vec<_>>());
    }
    replicas.into_iter().for_each(Replica::stop);
    journal.check();
}
