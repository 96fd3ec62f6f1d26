//! Several replicas behind a balancer, under load: rotation, crashes, roll-outs.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kooper_access::Operator;
use kooper_runtime::internal::client::{RequestLayer, from_fn};
use kooper_runtime::{BoxError, Health};
use kooper_webhooks::{FailurePolicy, Webhooks};
use kube::api::{Api, DeleteParams, PostParams};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::fixture::{Fixture, Program, SECRET, Shop, ShopSpec, free_address, until};

/// The interval between two checks of readiness.
const PERIOD: Duration = Duration::from_millis(100);

/// The time that the API server waits: a slow machine is no failed call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Forwards connections to the replicas that are ready, as a Service does: the control plane has none.
struct Balancer {
    address: SocketAddr,
    endpoints: Arc<Mutex<Vec<Endpoint>>>,
    _running: DropGuard,
}

struct Endpoint {
    address: SocketAddr,
    health: Health,
    /// It was asked to stop, or has ended.
    leaves: Arc<AtomicBool>,
    /// It was ready when that was checked.
    is_ready: bool,
}

impl Balancer {
    async fn start() -> Self {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let endpoints: Arc<Mutex<Vec<Endpoint>>> = Arc::default();
        let stop = CancellationToken::new();
        let checked = Arc::clone(&endpoints);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                for endpoint in checked.lock().iter_mut() {
                    endpoint.is_ready = !endpoint.leaves.load(Ordering::SeqCst) && endpoint.health.ready().is_ok();
                }
                tokio::time::sleep(PERIOD).await;
            }
        }));
        let known = Arc::clone(&endpoints);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            for turn in 0.. {
                let Ok((mut inbound, _)) = socket.accept().await else { continue };
                let ready: Vec<_> = known.lock().iter().filter(|one| one.is_ready).map(|one| one.address).collect();
                if let Some(address) = ready.get(turn % ready.len().max(1)).copied() {
                    tokio::spawn(async move {
                        if let Ok(mut outbound) = TcpStream::connect(address).await {
                            drop(tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await);
                        }
                    });
                }
            }
        }));
        Self { address, endpoints, _running: stop.drop_guard() }
    }

    fn is_ready(&self, address: SocketAddr) -> bool {
        self.endpoints.lock().iter().any(|one| one.address == address && one.is_ready)
    }
}

/// A replica behind the balancer.
pub(crate) struct Replica {
    address: SocketAddr,
    pub(crate) leaves: Arc<AtomicBool>,
    pub(crate) program: Program,
}

/// Replicas in a namespace, and clients that create shops all the time.
pub(crate) struct Site {
    pub(crate) fixture: Fixture,
    balancer: Balancer,
    failed: Arc<Mutex<Vec<String>>>,
    created: Arc<AtomicUsize>,
    clients: JoinSet<()>,
}

impl Site {
    pub(crate) async fn new(fixture: Fixture) -> Self {
        let balancer = Balancer::start().await;
        Self { fixture, balancer, failed: Arc::default(), created: Arc::default(), clients: JoinSet::new() }
    }

    /// Starts a replica, and waits until it is an endpoint.
    pub(crate) async fn start(
        &self,
        settings: impl FnOnce(Webhooks) -> Webhooks,
        layers: Vec<RequestLayer>,
    ) -> Replica {
        self.start_killable(settings, CancellationToken::new(), layers).await
    }

    async fn start_killable(
        &self,
        settings: impl FnOnce(Webhooks) -> Webhooks,
        dead: CancellationToken,
        layers: Vec<RequestLayer>,
    ) -> Replica {
        let address = free_address();
        let url = format!("https://{}", self.balancer.address);
        let webhooks = settings(self.fixture.webhooks(FailurePolicy::Fail, PATIENCE)).listen(address).url(url);
        let program = self.fixture.run(webhooks, Operator::builder(), dead, layers);
        let leaves = Arc::new(AtomicBool::new(false));
        let endpoint =
            Endpoint { address, health: program.health.clone(), leaves: Arc::clone(&leaves), is_ready: false };
        self.balancer.endpoints.lock().push(endpoint);
        until("the replica is ready", || self.balancer.is_ready(address)).await;
        Replica { address, leaves, program }
    }

    /// Lets clients create shops until the site is dropped.
    pub(crate) fn load(&mut self, clients: usize, pause: Duration) {
        for number in 0..clients {
            let shops: Api<Shop> = Api::namespaced(self.fixture.client.clone(), &self.fixture.namespace);
            let (failed, created) = (Arc::clone(&self.failed), Arc::clone(&self.created));
            self.clients.spawn(async move {
                let params = PostParams { dry_run: true, ..PostParams::default() };
                loop {
                    let shop = Shop::new(&format!("shop-{number}"), ShopSpec::default());
                    match shops.create(&params, &shop).await {
                        Ok(shop) if shop.spec.flavour.as_deref() == Some("vanilla") => {}
                        Ok(shop) => failed.lock().push(format!("it was not filled: {:?}", shop.spec)),
                        Err(error) => failed.lock().push(error.to_string()),
                    }
                    created.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(pause).await;
                }
            });
        }
    }

    /// Waits until this many more shops were created, or denied.
    pub(crate) async fn creates(&self, more: usize) {
        let before = self.created.load(Ordering::SeqCst);
        until("more shops are created", || self.created.load(Ordering::SeqCst) >= before + more).await;
    }

    pub(crate) fn failed(&self) -> Vec<String> {
        self.failed.lock().clone()
    }

    /// Waits until the Secret is as it should be. Meanwhile lets one of its times be so long ago, as if the clock were
    /// fast, again when a replica has put back what it knew before.
    async fn secret(
        &self,
        what: &str,
        aged: Option<(&str, SignedDuration)>,
        holds: impl Fn(&BTreeMap<String, String>) -> bool,
    ) {
        let waited = async {
            loop {
                let data = self.fixture.data().await;
                if holds(&data) {
                    return;
                }
                if let Some((key, by)) = aged
                    && let Some(time) = data.get(key)
                    && time.parse::<Timestamp>().expect("a time") > Timestamp::now() - by
                {
                    self.fixture.write(key, (Timestamp::now() - by).to_string()).await;
                }
                tokio::time::sleep(PERIOD).await;
            }
        };
        let within = Duration::from_secs(300);
        tokio::time::timeout(within, waited).await.unwrap_or_else(|_| panic!("not within {within:?}: {what}"));
    }

    /// One rotation, in which each step waits until all replicas have followed, and `more` shops are created. With
    /// `disturbed`, the Secret is corrupted or deleted in each step.
    async fn rotate(&self, more: usize, disturbed: bool) {
        let first = self.fixture.data().await["ca.crt"].clone();
        let is_published = |data: &BTreeMap<String, String>| data.contains_key("next.published");
        let publish = || {
            let aged = ("ca.made", SignedDuration::from_hours(24 * 300));
            self.secret("the next authority is published", Some(aged), is_published)
        };
        let signs = |data: &BTreeMap<String, String>| data.get("ca.crt").is_some_and(|ca| *ca != first);
        let sign = || {
            let aged = ("next.published", SignedDuration::from_mins(6));
            self.secret("the next authority signs", Some(aged), signs)
        };
        publish().await;
        self.creates(more).await;
        if disturbed {
            self.fixture.write("ca.crt", "garbage").await;
            self.is_back(more).await;
            publish().await;
        }
        sign().await;
        self.creates(more).await;
        if disturbed {
            self.fixture.secrets().delete(SECRET, &DeleteParams::default()).await.expect("deleted");
            self.is_back(more).await;
            sign().await;
        }
        let current = self.fixture.data().await["ca.crt"].clone();
        self.is_served(&current).await;
        let is_gone = |data: &BTreeMap<String, String>| !data.is_empty() && !data.contains_key("old.crt");
        self.secret("the old authority is gone", Some(("old.until", SignedDuration::ZERO)), is_gone).await;
        self.creates(more).await;
    }

    /// Waits until a replica has put back the Secret.
    async fn is_back(&self, more: usize) {
        let is_back = |data: &BTreeMap<String, String>| data.get("ca.crt").is_some_and(|ca| ca.contains("BEGIN"));
        self.secret("it is put back", None, is_back).await;
        self.creates(more).await;
    }

    /// Waits until each endpoint has a certificate of an authority.
    async fn is_served(&self, authority: &str) {
        let addresses: Vec<_> =
            self.balancer.endpoints.lock().iter().filter(|one| one.is_ready).map(|one| one.address).collect();
        for address in addresses {
            let waited = async {
                while !trusts(authority, address).await {
                    tokio::time::sleep(PERIOD).await;
                }
            };
            let within = Duration::from_secs(60);
            tokio::time::timeout(within, waited).await.unwrap_or_else(|_| panic!("{address} is not renewed"));
        }
    }
}

/// Returns whether a client that trusts only this authority connects to a server.
async fn trusts(authority: &str, address: SocketAddr) -> bool {
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    let pem = authority.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, pem).expect("PEM");
    config.root_cert = Some(vec![der]);
    config.default_retry = false;
    let client = kube::Client::try_from(config).expect("a client");
    let request = http::Request::get("/").body(kube::client::Body::empty()).expect("a request");
    client.send(request).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_fail_no_call_while_their_authority_is_rotated_and_their_secret_is_corrupted() {
    let Some(fixture) = Fixture::new("replicas-rotation").await else { return };
    let mut site = Site::new(fixture).await;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(site.start(|webhooks| webhooks, Vec::new()).await);
    }
    site.fixture.registered("Fail").await;
    site.load(4, Duration::from_millis(50));
    site.creates(20).await;
    site.rotate(20, false).await;
    site.rotate(20, true).await;
    assert_eq!(site.failed(), Vec::<String>::new(), "of {:?}", site.created);
    for replica in replicas {
        replica.program.kill();
    }
}

/// The process ends before its write is sent, or when it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Before,
    After,
}

/// Ends the process at a write of the registration, once `left` has been set.
fn ends_at(left: Arc<AtomicI64>, point: Point, dead: CancellationToken) -> RequestLayer {
    from_fn(move |request, next| {
        let (left, dead) = (Arc::clone(&left), dead.clone());
        async move {
            let path = request.uri().path();
            let is_write = request.method() != http::Method::GET
                && (path.contains("/secrets") || path.contains("webhookconfigurations"));
            let is_last = is_write && left.fetch_sub(1, Ordering::SeqCst) == 1;
            if is_last && point == Point::Before {
                dead.cancel();
                return Err(BoxError::from("the program was killed"));
            }
            let response = next.oneshot(request).await;
            if is_last {
                dead.cancel();
                return Err(BoxError::from("the program was killed"));
            }
            response
        }
    })
}

/// Kills the leader at a write of a rotation. Returns whether the rotation has so many.
async fn survives(fixture: Fixture, write: i64, point: Point) -> bool {
    let mut site = Site::new(fixture).await;
    let mut replicas = Vec::new();
    // None of them ends before the rotation has begun.
    let left = Arc::new(AtomicI64::new(i64::MAX));
    for _ in 0..2 {
        let dead = CancellationToken::new();
        let layer = ends_at(Arc::clone(&left), point, dead.clone());
        replicas.push(site.start_killable(|webhooks| webhooks, dead, vec![layer]).await);
    }
    site.fixture.registered("Fail").await;
    site.load(1, Duration::from_millis(100));
    site.creates(5).await;
    left.store(write, Ordering::SeqCst);
    let mut replicas = replicas.into_iter();
    let (one, other) = (replicas.next().expect("one"), replicas.next().expect("another one"));
    let killed = Arc::new(AtomicBool::new(false));
    let reaper = async {
        let (dead, survivor) = tokio::select! {
            () = one.program.dead.clone().cancelled_owned() => (one, other),
            () = other.program.dead.clone().cancelled_owned() => (other, one),
        };
        dead.leaves.store(true, Ordering::SeqCst);
        let address = dead.address;
        dead.program.kill();
        until("it is no endpoint any more", || !site.balancer.is_ready(address)).await;
        // Calls that are under way then may still fail.
        site.creates(2).await;
        killed.store(true, Ordering::SeqCst);
        let failed_by_then = site.failed().len();
        // As if its time were over.
        let leases: Api<Lease> = Api::namespaced(site.fixture.client.clone(), &site.fixture.namespace);
        leases.delete("shop--webhooks", &DeleteParams::default()).await.expect("deleted");
        let replacement = site.start(|webhooks| webhooks, Vec::new()).await;
        (failed_by_then, survivor, replacement)
    };
    let rotation = site.rotate(2, false);
    let mut reaper = std::pin::pin!(reaper);
    let mut rotation = std::pin::pin!(rotation);
    let ended = tokio::select! {
        ended = &mut reaper => { rotation.await; ended }
        () = &mut rotation => {
            if left.load(Ordering::SeqCst) > 0 {
                return false;
            }
            reaper.await
        }
    };
    let (failed_by_then, survivor, replacement) = ended;
    // Those that trust the bundle trust every replica.
    let current = site.fixture.data().await["ca.crt"].clone();
    site.is_served(&current).await;
    site.fixture.registered("Fail").await;
    site.creates(5).await;
    let failed = site.failed();
    assert_eq!(
        failed.len(),
        failed_by_then,
        "write {write}, {point:?}: later than those of the killed replica: {failed:?}"
    );
    for error in &failed {
        let is_of_killed =
            ["EOF", "connection reset", "connection refused", "broken pipe", "closed network connection"]
                .iter()
                .any(|one| error.contains(one));
        assert!(is_of_killed, "write {write}, {point:?}: {error}");
    }
    survivor.program.kill();
    replacement.program.kill();
    true
}

/// The writes of a rotation at which its leader is killed; with `KOOPER_WRITES`, more than the first three.
fn writes() -> std::ops::RangeInclusive<i64> {
    1..=std::env::var("KOOPER_WRITES").map_or(3, |writes| writes.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_at_any_write_of_a_rotation_fails_only_its_own_calls() {
    let mut cases = JoinSet::new();
    for write in writes() {
        for point in [Point::Before, Point::After] {
            let name = format!("replicas-{write}-{point:?}").to_lowercase();
            let Some(fixture) = Fixture::new(&name).await else { return };
            cases.spawn(async move { (write, survives(fixture, write, point).await) });
        }
    }
    let mut reached = 0;
    while let Some(case) = cases.join_next().await {
        let (write, has_so_many) = case.unwrap_or_else(|error| panic!("{error}"));
        reached += usize::from(has_so_many);
        assert!(has_so_many || write > 6, "a rotation has more than {write} writes");
    }
    assert!(reached >= 2 * 6.min(*writes().end() as usize), "{reached} kills");
}
