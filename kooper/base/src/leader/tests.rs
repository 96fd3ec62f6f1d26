//! The behaviour of an election, in virtual time, with a server that has the checks
//! of the real one. Some cases are known problems of client-go and
//! controller-runtime.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, advance, sleep, timeout};

use super::fake::{FakeServer, RequestOutcome};
use super::lease::MARK;
use super::*;
use crate::clock::TokioTime;
use crate::metrics::NoMetrics;
use crate::metrics::health::Probe;

mod fence;
mod settings;
mod status;
mod steps;

const SECOND: Duration = Duration::from_secs(1);

/// A candidate of the controller `echo` of the program `shop`.
struct TestCandidate {
    elector: Elector,
    leadership: Leadership,
    announcements: Arc<Mutex<Vec<Announcement>>>,
}

impl TestCandidate {
    fn new(server: &FakeServer, identity: &str) -> Self {
        Self::made(server, identity, |_| {})
    }

    /// A candidate whose controller had the name `old` before.
    fn renamed(server: &FakeServer) -> Self {
        Self::made(server, "a", |options| {
            options.previous = vec![PreviousLease { name: "shop-old".to_owned(), owner: LeaseOwner::Controller }];
            options.previous_marks = vec!["shop/old".into()];
        })
    }

    fn made(server: &FakeServer, identity: &str, change: impl FnOnce(&mut ElectorOptions)) -> Self {
        // The clock of a machine that has been up for a while.
        let start = Instant::now().checked_sub(1000 * SECOND).unwrap();
        let leadership = Leadership::by(Arc::new(TokioTime(start)));
        let announcements = Arc::new(Mutex::new(Vec::new()));
        let announced = Arc::clone(&announcements);
        let mut options = ElectorOptions {
            controller: "echo".into(),
            mark: "shop/echo".into(),
            previous_marks: Vec::new(),
            namespaces: Vec::new(),
            lease: "shop-echo".to_owned(),
            namespace: "shops".to_owned(),
            identity: identity.to_owned(),
            election: LeaderElection::new(),
            previous: Vec::new(),
            client: server.client(),
            metrics: Arc::new(NoMetrics),
            leadership: leadership.clone(),
            announce: Arc::new(move |news, _| announced.lock().push(news)),
        };
        change(&mut options);
        Self { elector: Elector::new(options), leadership, announcements }
    }

    async fn leading(server: &FakeServer, identity: &str) -> Self {
        let mut candidate = Self::new(server, identity);
        candidate.elector.campaign().await;
        candidate
    }

    /// A server, and a candidate that is its leader.
    async fn leader() -> (FakeServer, Self) {
        let server = FakeServer::new();
        let candidate = Self::leading(&server, "a").await;
        (server, candidate)
    }

    /// A server whose Lease another candidate holds, and a candidate.
    fn standby() -> (FakeServer, Self) {
        let server = FakeServer::new();
        held_by(&server, "b", OURS);
        let candidate = Self::new(&server, "a");
        (server, candidate)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let status: Arc<ElectionStatus> = self.elector.status();
        status.ready()
    }

    fn announced(&self) -> Vec<Announcement> {
        self.announcements.lock().clone()
    }

    /// Campaigns for this time without acquiring the lease.
    async fn does_not_acquire(&mut self, span: Duration) {
        let acquired = timeout(span, self.elector.campaign()).await.is_ok();
        assert!(!acquired && !self.leadership.is_held(), "it did not become the leader");
    }
}

/// Sets the holder of the Lease, as another candidate would.
fn held_by(server: &FakeServer, holder: &str, mark: Option<&str>) {
    server.change("shop-echo", |lease| {
        let time = "2020-01-01T00:00:00.000000Z";
        lease["spec"] = json!({
            "holderIdentity": holder, "leaseDurationSeconds": if holder.is_empty() { 1 } else { 15 }, "leaseTransitions": 4,
            "acquireTime": time, "renewTime": time,
        });
        if let Some(mark) = mark {
            lease["metadata"]["annotations"][MARK] = json!(mark);
        }
    });
}

const OURS: Option<&str> = Some("shop/echo");

#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_created_by_put() {
    let (server, candidate) = TestCandidate::leader().await;
    assert!(candidate.leadership.is_held());
    assert_eq!(candidate.announced(), [Announcement::Became]);
    assert_eq!(candidate.ready(), Ok(None));
    let lease = server.get("shop-echo");
    assert_eq!(lease["metadata"]["annotations"][MARK], "shop/echo");
    let spec = &lease["spec"];
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("a"), &json!(15)));
    assert_eq!((&spec["leaseTransitions"], &spec["acquireTime"]), (&json!(0), &spec["renewTime"]));
    assert_eq!(server.count(&Method::POST, false), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_created_by_post_if_the_server_does_not_create_by_put() {
    let server = FakeServer::new();
    server.creates_by_post_only();
    assert!(TestCandidate::leading(&server, "a").await.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_once() {
    let server = FakeServer::new();
    held_by(&server, "", OURS);
    let begun = Instant::now();
    TestCandidate::leading(&server, "a").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_acquired_before_it_expires_however_old_its_times_are() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND * 14).await;
    assert_eq!(candidate.ready(), Ok(Some("echo: standby: the lease is held by b".to_owned())));
    let begun = Instant::now();
    candidate.elector.campaign().await;
    assert!(begun.elapsed() >= SECOND && begun.elapsed() < SECOND * 2, "{:?}", begun.elapsed());
    assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_for_the_longer_of_the_two_lease_durations() {
    let (server, mut candidate) = TestCandidate::standby();
    server.change("shop-echo", |lease| lease["spec"]["leaseDurationSeconds"] = json!(40));
    candidate.does_not_acquire(SECOND * 39).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_restarts_the_wait_of_a_candidate_and_a_new_label_does_not() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND * 10).await;
    server.change("shop-echo", |lease| lease["spec"]["renewTime"] = json!("2020-01-01T00:00:01.000000Z"));
    candidate.does_not_acquire(SECOND * 14).await;
    server.change("shop-echo", |lease| lease["metadata"]["labels"] = json!({"seen": "yes"}));
    timeout(SECOND * 2, candidate.elector.campaign()).await.expect("the label is not a renewal");
    assert_eq!(server.get("shop-echo")["metadata"]["labels"]["seen"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_keeps_the_acquire_time_the_transitions_and_the_fields_of_other_clients() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let first = server.get("shop-echo");
    server.change("shop-echo", |lease| {
        lease["metadata"]["labels"] = json!({"team": "b"});
        lease["spec"]["strategy"] = json!("OldestEmulationVersion");
    });
    assert!(timeout(SECOND * 30, candidate.elector.hold()).await.is_err(), "it keeps leading");
    let lease = server.get("shop-echo");
    assert_ne!(lease["spec"]["renewTime"], first["spec"]["renewTime"]);
    for field in ["acquireTime", "leaseTransitions", "holderIdentity"] {
        assert_eq!(lease["spec"][field], first["spec"][field]);
    }
    assert_eq!(lease["metadata"]["labels"]["team"], "b");
    assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
}

#[tokio::test(start_paused = true)]
async fn a_leader_sends_one_request_per_retry_period() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let before = (server.count(&Method::PUT, false), server.count(&Method::GET, false));
    assert!(timeout(SECOND * 21, candidate.elector.hold()).await.is_err());
    assert_eq!(server.count(&Method::PUT, false) - before.0, 10);
    assert_eq!(server.count(&Method::GET, false), before.1);
}

#[tokio::test(start_paused = true)]
async fn failures_before_the_deadline_do_not_end_leadership() {
    // A 404 that does not name the Lease is that of a proxy.
    let codes = [403, 404, 429, 500].map(RequestOutcome::Fail);
    for outcome in
        codes.into_iter().chain([RequestOutcome::DoneBut(504), RequestOutcome::Hang, RequestOutcome::DoneAndHang])
    {
        let (server, mut candidate) = TestCandidate::leader().await;
        let until = Instant::now() + SECOND * 7;
        server.decide(move |_, _| if Instant::now() < until { outcome } else { RequestOutcome::Pass });
        assert!(timeout(SECOND * 60, candidate.elector.hold()).await.is_err(), "{outcome:?}");
        assert!(candidate.leadership.is_held(), "{outcome:?}");
        assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_api_server_does_not_end_leadership() {
    // The time of a response in each ten minutes.
    for millis in [&[1900][..], &[2900, 4500], &[2500, 4900, 100, 2900]] {
        let (server, mut candidate) = TestCandidate::leader().await;
        let begun = Instant::now();
        server.decide(move |_, _| {
            let phase = (begun.elapsed().as_secs() / 600) as usize;
            RequestOutcome::Slow(Duration::from_millis(millis[phase.min(millis.len() - 1)]))
        });
        assert!(timeout(SECOND * 600 * millis.len() as u32, candidate.elector.hold()).await.is_err(), "{millis:?}");
        assert!(candidate.leadership.is_held());
        candidate.elector.abandon();
        timeout(SECOND * 60, candidate.elector.campaign()).await.expect("a candidate acquires it, too");
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_at_the_deadline_after_the_last_renewal_was_sent() {
    for outcome in [RequestOutcome::Fail(500), RequestOutcome::Hang] {
        let (server, mut candidate) = TestCandidate::leader().await;
        let begun = Instant::now();
        server.decide(move |_, _| outcome);
        assert_eq!(candidate.elector.hold().await, Lost::Deadline);
        assert_eq!(begun.elapsed().as_millis(), 10_000, "{outcome:?}");
        assert!(!candidate.leadership.is_held());
        assert!(
            matches!(&candidate.announced()[..], [Announcement::Became, Announcement::Lost(why)] if why.contains("could not be renewed"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_expires_although_the_elector_does_not_run() {
    let (_server, candidate) = TestCandidate::leader().await;
    let begun = Instant::now();
    candidate.leadership.lost().await;
    assert_eq!(begun.elapsed(), SECOND * 10);
    assert_eq!(candidate.leadership.time_left(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_response_was_lost_counts_from_when_it_was_sent() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let mut writes = 0;
    // The first renewal is processed without a response; then only reads succeed.
    server.decide(move |method, _| {
        match (method.as_str(), {
            writes += usize::from(method == Method::PUT);
            writes
        }) {
            ("PUT", 1) => RequestOutcome::DoneAndHang,
            ("PUT", _) => RequestOutcome::Hang,
            _ => RequestOutcome::Pass,
        }
    });
    let begun = Instant::now();
    assert_eq!(candidate.elector.hold().await, Lost::Deadline);
    assert_eq!(begun.elapsed(), SECOND * 12, "it was sent after 2 s");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_reads_another_holder_stops_at_once() {
    let (server, mut candidate) = TestCandidate::leader().await;
    held_by(&server, "b", OURS);
    let begun = Instant::now();
    assert_eq!(candidate.elector.hold().await, Lost::Taken("b".into()));
    assert_eq!(begun.elapsed(), SECOND * 2);
    assert!(!candidate.leadership.is_held());
    assert_eq!(candidate.announced()[1], Announcement::Lost("the lease is held by b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_record_of_another_elector_with_the_same_identity_is_not_ours() {
    let server = FakeServer::new();
    held_by(&server, "a", OURS);
    TestCandidate::new(&server, "a").does_not_acquire(SECOND * 14).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_removes_the_holder_and_a_standby_takes_over_within_milliseconds() {
    let server = FakeServer::new();
    let mut first = TestCandidate::leading(&server, "a").await;
    let mut second = TestCandidate::new(&server, "b");
    let campaigning = tokio::spawn(async move {
        second.elector.campaign().await;
        Instant::now()
    });
    sleep(SECOND).await;
    let released = Instant::now();
    first.elector.release().await;
    assert!(!first.leadership.is_held());
    let took = campaigning.await.unwrap() - released;
    assert!(took < Duration::from_millis(250), "{took:?}");
    assert_eq!(server.get("shop-echo")["spec"]["holderIdentity"], "b");
    assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_standby_without_permission_to_watch_polls_and_reports_it() {
    let (server, mut candidate) = TestCandidate::standby();
    server.decide(|_, watch| if watch { RequestOutcome::Fail(403) } else { RequestOutcome::Pass });
    candidate.does_not_acquire(SECOND * 8).await;
    let remark = candidate.ready().unwrap().unwrap();
    for part in ["held by b", "cannot watch", "create, get, update, watch"] {
        assert!(remark.contains(part), "{remark}");
    }
    let begun = Instant::now();
    held_by(&server, "", OURS);
    candidate.elector.campaign().await;
    assert!(begun.elapsed() < SECOND * 3, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_does_not_delay_a_take_over() {
    let server = FakeServer::new();
    server.decide(|_, watch| if watch { RequestOutcome::Hang } else { RequestOutcome::Pass });
    let crashed = TestCandidate::leading(&server, "a").await;
    let mut candidate = TestCandidate::new(&server, "b");
    let begun = Instant::now();
    drop(crashed);
    candidate.elector.campaign().await;
    assert!(begun.elapsed() <= SECOND * 16, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_replaced_within_a_second_after_its_lease() {
    for lease in [15, 3, 60] {
        let server = FakeServer::new();
        let election = LeaderElection::new()
            .lease_duration(SECOND * lease)
            .renew_deadline(SECOND * lease * 2 / 3)
            .retry_period(SECOND);
        let mut crashing = TestCandidate::made(&server, "a", |options| options.election = election.clone());
        crashing.elector.campaign().await;
        let mut candidate = TestCandidate::made(&server, "b", |options| options.election = election);
        let campaigning = tokio::spawn(async move { candidate.elector.campaign().await });
        assert!(timeout(SECOND * 100, crashing.elector.hold()).await.is_err());
        let crashed = Instant::now();
        drop(crashing);
        campaigning.await.unwrap();
        assert!(crashed.elapsed() <= SECOND * (lease + 1), "{:?}", crashed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_stays_the_leader_for_a_day_with_one_per_cent_of_failed_requests() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let mut seed = 0;
    server.decide(move |_, watch| {
        seed += 1;
        let outcomes = [
            RequestOutcome::Fail(500),
            RequestOutcome::DoneBut(500),
            RequestOutcome::Hang,
            RequestOutcome::DoneAndHang,
            RequestOutcome::Fail(429),
        ];
        if watch || crate::backoff::fraction(seed) >= 0.01 { RequestOutcome::Pass } else { outcomes[seed as usize % 5] }
    });
    let day = SECOND * 24 * 3600;
    let lost = timeout(day, candidate.elector.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(candidate.leadership.is_held());
    assert_eq!(candidate.announced(), [Announcement::Became]);
}
