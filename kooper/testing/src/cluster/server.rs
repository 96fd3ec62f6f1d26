//! The server of a cluster: an embedded one, or a namespace of the real one.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

use kooper_apiserver::faults::{Answered, Faults};
use kooper_apiserver::{ApiServer, StoredObject, User};
use kube::Client;

use super::controllers::Controllers;
use super::real::RealServer;
use kooper_runtime::Result;
use kooper_workloads::Simulation;

/// The user of the requests of the test itself.
const WITNESS: &str = "kooper-test";

/// The environment variable that selects the server.
const SELECTED: &str = "KOOPER_TEST_SERVER";

/// The server of a cluster, and the clients of its users.
pub(super) struct Server {
    backend: Backend,
    namespace: String,
    client: Client,
    test_client: Client,
    controllers: Controllers,
    /// Simulates the scheduler, the kubelet and, if needed, the controllers of workloads.
    simulation: Simulation,
    /// Collects garbage and finalizes namespaces, on a real server without kube-controller-manager.
    _collection: Option<Simulation>,
    /// `true` if a test that the real server cannot run is skipped instead of failed.
    skips: bool,
    /// `true` if the report of a failed test was requested.
    reported: AtomicBool,
}

#[derive(Debug)]
enum Backend {
    Embedded(Box<ApiServer>),
    Real(&'static RealServer),
}

/// Why a test was skipped: the payload of a panic that the test's frame catches.
#[derive(Debug)]
pub(super) struct Skipped(pub(super) &'static str);

impl Server {
    /// Returns whether the environment selects the real server.
    pub(super) fn is_real() -> bool {
        std::env::var(SELECTED).as_deref() == Ok("real")
    }

    /// The server that the environment asks for.
    pub(super) async fn start() -> Result<Self> {
        match std::env::var(SELECTED).as_deref() {
            Err(_) | Ok("" | "embedded") => Self::embedded().await,
            Ok("real") => Self::real().await,
            Ok(other) => {
                Err(format!("KOOPER_TEST_SERVER is `{other}`: write `real`, or leave it out for the embedded one")
                    .into())
            }
        }
    }

    async fn embedded() -> Result<Self> {
        let server = ApiServer::start().await?;
        server.faults().spare(WITNESS);
        let test_client = server.client_of(User::new(WITNESS, &["system:masters"]));
        let client = server.client();
        let simulation = Simulation::when_needed(&server);
        let backend = Backend::Embedded(Box::new(server));
        Ok(Self::new(backend, "default".to_owned(), [client, test_client], simulation, None))
    }

    async fn real() -> Result<Self> {
        let server = RealServer::shared().await?;
        let namespace = server.create_namespace().await?;
        let client = server.client(&namespace, None)?;
        let simulation = Simulation::beside(&client, &namespace, server.has_controllers());
        let collection =
            (!server.has_controllers()).then(|| Simulation::collecting(&client, &namespace, RealServer::is_of_tests));
        Ok(Self::new(Backend::Real(server), namespace, [client.clone(), client], simulation, collection))
    }

    fn new(
        backend: Backend,
        namespace: String,
        [client, test_client]: [Client; 2],
        simulation: Simulation,
        _collection: Option<Simulation>,
    ) -> Self {
        let (controllers, reported) = (Controllers::default(), AtomicBool::default());
        Self { backend, namespace, client, test_client, controllers, simulation, _collection, skips: false, reported }
    }

    /// Removes what would stay behind.
    pub(super) async fn clean(&self) -> Result<()> {
        match &self.backend {
            Backend::Embedded(_) => Ok(()),
            Backend::Real(server) => server.delete_namespace(&self.namespace).await,
        }
    }

    /// Skips a test that it cannot serve, in place of failing it.
    pub(super) fn skipping(mut self) -> Self {
        self.skips = true;
        self
    }

    /// Stops what lets pods run, and workloads have pods.
    pub(super) async fn stop_workloads(&self) {
        self.simulation.stop().await;
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The controllers that the test has started.
    pub(super) fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client of the test's own requests, which meet no faults.
    pub(super) fn test_client(&self) -> Client {
        self.test_client.clone()
    }

    /// A client of a ServiceAccount in the test's namespace.
    pub(super) fn client_of_account(&self, account: &str) -> Result<Client> {
        match &self.backend {
            Backend::Embedded(server) => Ok(server.client_of(User::service_account(&self.namespace, account))),
            Backend::Real(server) => server.client(&self.namespace, Some(account)),
        }
    }

    /// Returns whether other tests use the server at the same time.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.backend, Backend::Real(_))
    }

    pub(super) fn faults(&self) -> Faults {
        match &self.backend {
            Backend::Embedded(server) => server.faults(),
            Backend::Real(_) if self.skips => resume_unwind(Box::new(Skipped("the real server injects no faults"))),
            Backend::Real(_) => panic!("the real server injects no faults: unset KOOPER_TEST_SERVER"),
        }
    }

    /// Everything that is stored, if it is embedded.
    pub(super) fn objects(&self) -> Option<Vec<StoredObject>> {
        match &self.backend {
            Backend::Embedded(server) => Some(server.objects()),
            Backend::Real(_) if self.skips => {
                resume_unwind(Box::new(Skipped("the real server's clock cannot be paused")))
            }
            Backend::Real(_) => None,
        }
    }

    /// The stored object of this resource and key, if the server is embedded.
    pub(super) fn object(&self, group: &str, resource: &str, key: &str) -> Option<StoredObject> {
        match &self.backend {
            Backend::Embedded(server) => server.object(group, resource, key),
            Backend::Real(_) => None,
        }
    }

    /// The version of the last write, if it is embedded.
    pub(super) fn version(&self) -> u64 {
        match &self.backend {
            Backend::Embedded(server) => server.version(),
            Backend::Real(_) => 0,
        }
    }

    pub(super) fn requests(&self) -> Vec<Answered> {
        match &self.backend {
            Backend::Embedded(server) => server.faults().requests(),
            Backend::Real(_) => Vec::new(),
        }
    }

    /// Returns the last requests, the seed and the injected faults, for the output of a failed
    /// test.
    pub(super) fn report(&self) -> String {
        self.reported.store(true, Ordering::Relaxed);
        let Backend::Embedded(server) = &self.backend else { return String::new() };
        let faults = server.faults();
        let mut report = String::new();
        let requests = faults.requests();
        let shown = requests.len().saturating_sub(SHOWN);
        if shown > 0 {
            report += &format!("the last {SHOWN} of at least {} requests:\n", requests.len());
        } else if !requests.is_empty() {
            report += "the requests:\n";
        }
        for request in requests.iter().skip(shown) {
            report += &format!("  {request}\n");
        }
        match faults.report() {
            Some(injected) => report + &injected,
            None => report + &format!("seed {}", faults.seed()),
        }
    }
}

/// The requests that are shown when a test fails.
const SHOWN: usize = 30;

impl Drop for Server {
    /// A test that panics and has started its cluster itself has nothing around it that prints the report.
    fn drop(&mut self) {
        if std::thread::panicking() && !self.reported.load(Ordering::Relaxed) {
            let report = self.report();
            if !report.is_empty() {
                eprintln!("{report}");
            }
        }
    }
}

kooper_runtime::internal::debug_fields! { Server { backend, namespace } }
