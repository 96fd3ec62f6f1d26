//! Processes of the program, and the objects that they share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;
use kooper_tests::wait::{eventually, until};
use kube::core::ObjectList;
use serde_json::{Value, json};

use super::journal::{Journal, Note};

/// The duration of a call, in milliseconds.
const MILLIS: &str = "400";

/// One of this many objects is handled all the time.
const AGAIN: usize = 4;

/// The time between two changes of all objects by the test.
const PACE: Duration = Duration::from_secs(2);

/// Processes that share the objects of some namespaces.
pub(crate) struct Fleet<'a> {
    cluster: &'a ControlPlane,
    /// The value of the label, unlike that of other tests.
    name: &'static str,
    /// By namespace, and not by uid.
    by_namespace: bool,
    /// The namespaces of the objects, with their number. The Leases are in the first one.
    namespaces: Vec<(String, usize)>,
    pub(crate) journal: Journal,
}

/// A process of the program.
pub(crate) struct Replica {
    pub(crate) name: &'static str,
    pub(crate) process: Process,
}

impl Replica {
    fn owned(&self) -> usize {
        self.process.metric("kooper_shards_owned{controller=\"shared\"}").unwrap_or_default() as usize
    }

    /// The objects in its cache.
    fn objects(&self) -> usize {
        self.process.metric("kooper_store_objects{controller=\"shared\"}").unwrap_or_default() as usize
    }

    /// Stops it in order.
    pub(crate) fn stop(mut self) {
        self.process.terminate();
    }
}

/// Waits until these own all shards, as many each as possible.
pub(crate) fn wait_for_balance(replicas: &[&Replica]) {
    let each = 32 / replicas.len();
    let loads = || replicas.iter().map(|replica| replica.owned()).collect::<Vec<_>>();
    let is_balanced = |loads: &[usize]| {
        loads.iter().sum::<usize>() == 32 && loads.iter().all(|load| (each..=each + 1).contains(load))
    };
    let seen = || {
        let logs = replicas.iter().map(|replica| replica.process.lines().join("\n")).collect::<Vec<_>>();
        format!("{:?}\n{}", loads(), logs.join("\n\n"))
    };
    until("the shards are balanced", || is_balanced(&loads()).then_some(()), seen);
}

impl<'a> Fleet<'a> {
    /// Creates the namespaces, which have this many objects each.
    pub(crate) fn new(cluster: &'a ControlPlane, name: &'static str, namespaces: &[(String, usize)]) -> Self {
        cluster.create_namespaces(namespaces.iter().map(|(name, _)| &**name));
        let journal = Journal(cluster.dir().join(name));
        Self { cluster, name, by_namespace: false, namespaces: namespaces.to_vec(), journal }
    }

    /// All objects of a namespace are in one shard.
    pub(crate) fn by_namespace(mut self) -> Self {
        self.by_namespace = true;
        self
    }

    pub(crate) fn start(&self, name: &'static str) -> Replica {
        self.start_at(name, self.cluster.kubeconfig())
    }

    pub(crate) fn start_at(&self, name: &'static str, kubeconfig: &Path) -> Replica {
        let namespaces: Vec<&str> = self.namespaces.iter().map(|(name, _)| &**name).collect();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shared"));
        command.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", &namespaces.join(",")]);
        command.args(["--lease-namespace", namespaces[0], "--listen", "127.0.0.1:0", "--status-page", "on"]);
        command.env("SHARED_NAME", name).env("SHARED_LOG", &self.journal.0).env("SHARED_MILLIS", MILLIS);
        command.env("SHARED_BY", if self.by_namespace { "namespace" } else { "uid" });
        Replica { name, process: Process::run(&mut command) }
    }

    fn objects(&self) -> usize {
        self.namespaces.iter().map(|(_, objects)| objects).sum()
    }

    /// Sets the value of all objects.
    pub(crate) fn apply(&self, value: &str) {
        let numbers =
            self.namespaces.iter().flat_map(|(namespace, objects)| (0..*objects).map(move |n| (namespace, n)));
        let items = numbers.map(|(namespace, number)| -> Value {
            let name = format!("config-{number}");
            let metadata = json!({"namespace": namespace, "name": name, "labels": {"shared": self.name}});
            let data = json!({"value": value, "again": if number % AGAIN == 0 { "yes" } else { "no" }});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()}).to_string();
        // One request for each object, instead of two.
        self.cluster.apply_text(&["--server-side", "--validate=false"], &list);
    }

    /// Sets the value of all objects, and waits until each is handled with it.
    pub(crate) fn change_all(&self, value: &str) {
        let begun = self.journal.end();
        self.apply(value);
        let handled = || self.journal.handled(value, begun).len();
        until("each object is handled", || (handled() == self.objects()).then_some(()), || format!("{}", handled()));
    }

    /// Waits until each object is in the cache of one process.
    pub(crate) fn wait_for_parts(&self, replicas: &[&Replica]) {
        let objects = || replicas.iter().map(|replica| replica.objects()).collect::<Vec<_>>();
        let is_shared = || (objects().iter().sum::<usize>() == self.objects()).then_some(());
        until("each object is in one cache", is_shared, || format!("{:?}", objects()));
    }

    /// Changes all objects again and again while a test runs.
    pub(crate) fn touched<T>(&self, test: impl FnOnce() -> T) -> T {
        /// Ends the changes, also if the test panics.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let is_over = AtomicBool::new(false);
        let selector = format!("--selector=shared={}", self.name);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let touch = format!("touched={round}");
                    // The API server may be unavailable.
                    self.cluster.kubectl(&["annotate", "configmaps", "-A", &selector, "--overwrite", &touch]);
                    thread::park_timeout(PACE);
                }
            });
            let _over = Over(&is_over);
            test()
        })
    }

    /// Waits until a call of each of these runs.
    pub(crate) fn wait_for_calls(&self, replicas: &[&Replica]) {
        let run = |replica: &&Replica| !self.journal.running(replica.name).is_empty();
        eventually("calls run", || replicas.iter().all(run));
    }

    /// The controller that the Lease of the map belongs to.
    pub(crate) fn mark_of_the_map(&self) -> String {
        let (namespace, path) =
            (&self.namespaces[0].0, r"--output=jsonpath={.metadata.annotations.kooper\.rs/controller}");
        self.cluster.must(&["get", "lease", "shared-shared", "--namespace", namespace, path])
    }

    /// When the session of each process expires if it is not renewed, in microseconds, by its identity.
    fn expiries(&self) -> BTreeMap<String, i64> {
        let namespace = format!("--namespace={}", self.namespaces[0].0);
        let leases = self.cluster.must(&["get", "leases", &namespace, "--output=json"]);
        let leases: ObjectList<Lease> = serde_json::from_str(&leases).unwrap();
        let expiry = |lease: Lease| {
            let spec = lease.spec?;
            let holder = spec.holder_identity.filter(|holder| !holder.is_empty())?;
            Some((holder, spec.renew_time?.0.as_microsecond() + i64::from(spec.lease_duration_seconds?) * 1_000_000))
        };
        leases.items.into_iter().filter_map(expiry).collect()
    }

    /// Takes a process away while its calls run. The others take its shards over, not before its session has expired,
    /// and handle all of its objects.
    pub(crate) fn take_away(&self, lost: &Replica, others: &[&Replica], fault: impl FnOnce()) {
        // Each owner has handled all of its objects, also of shards that it has just been given.
        self.change_all(&format!("before-{}-is-lost", lost.name));
        let mut expiries = self.expiries();
        let page = lost.process.wait_for_page("/status", 200, &[]);
        let identity = expiries.keys().find(|identity| page.contains(&**identity)).unwrap().clone();
        self.wait_for_calls(&[lost]);
        let begun = self.journal.end();
        fault();
        let orphaned = self.journal.last_handled_by(lost.name);
        // The last renewal, unless another process has already ended the session.
        expiries.extend(self.expiries());
        wait_for_balance(others);
        // When each was handled first, and whether it was because of the shard.
        let taken_over = || {
            let mut handled = BTreeMap::<String, (i64, bool)>::new();
            for note in self.journal.since(begun) {
                if let Note::Begins { call, at, reasons, .. } = note
                    && orphaned.contains(&call.uid)
                    && call.who != lost.name
                {
                    handled.entry(call.uid).or_insert((at, false)).1 |= reasons.contains("shard");
                }
            }
            handled
        };
        let is_handled = || taken_over().values().filter(|(_, by_shard)| *by_shard).count() == orphaned.len();
        until("its objects are handled", || is_handled().then_some(()), || format!("{:?}", taken_over()));
        for (uid, (at, _)) in taken_over() {
            let early = expiries[&identity] - at;
            assert!(early <= 0, "{uid} is handled {early} µs before the session of {} expires", lost.name);
        }
    }
}
