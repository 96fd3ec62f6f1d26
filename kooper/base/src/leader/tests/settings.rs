//! Settings, probes and metrics.

use parking_lot::Mutex;

use super::*;
use crate::metrics::{Counter, Gauge, MetricsError, MetricsRecorder, ReadGauge};

/// Keeps what an election records.
#[derive(Default)]
struct Recorded {
    counts: Mutex<Vec<Counter>>,
    renewals: Mutex<u32>,
    gauges: Mutex<Vec<(Gauge, ReadGauge)>>,
}

impl Recorded {
    fn read(&self, gauge: &Gauge) -> f64 {
        let gauges = self.gauges.lock();
        let (_, read) = gauges.iter().find(|(known, _)| known == gauge).expect("it is registered");
        read()
    }
}

impl MetricsRecorder for Recorded {
    fn inc_event_queued(&self, _: &str, _: bool) {}
    fn observe_in_queue_duration(&self, _: &str, _: Duration) {}
    fn observe_processing_duration(&self, _: &str, _: bool, _: Duration) {}
    fn register_queue_length(&self, _: &str, _: ReadGauge) -> Result<(), MetricsError> {
        Ok(())
    }
    fn count(&self, _: &str, counter: Counter) {
        self.counts.lock().push(counter);
    }
    fn observe_lease_renewal(&self, _: &str, _: Duration) {
        *self.renewals.lock() += 1;
    }
    fn register_gauge(&self, _: &str, gauge: Gauge, read: ReadGauge) -> Result<(), MetricsError> {
        self.gauges.lock().push((gauge, read));
        Ok(())
    }
}

#[test]
fn the_error_for_an_invalid_setting_names_it_and_what_to_write() {
    let election = LeaderElection::new;
    assert_eq!(election().check(), Ok(()));
    assert_eq!(election().lease("shop.echo").namespace("shops").check(), Ok(()));
    for (wrong, part) in [
        (election().lease(""), "`lease` is empty"),
        (election().namespace(""), "`namespace` is empty"),
        (election().lease("Shop"), "`lease`: \"Shop\" is not a DNS name"),
        (election().namespace("a.b"), "`namespace`: \"a.b\" is not a DNS label"),
        (election().lease_duration(SECOND / 2), "`lease_duration` is 500ms"),
        (election().lease_duration(Duration::MAX), "`lease_duration` is too long"),
        (election().renew_deadline(SECOND * 11), "more than two thirds of `lease_duration`"),
        (election().retry_period(SECOND * 9), "not more than 1.2 times `retry_period`"),
    ] {
        let error = wrong.check().expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_accepts_the_shortest_valid_lease() {
    let shortest = LeaderElection::new()
        .lease_duration(Duration::from_millis(1802))
        .renew_deadline(Duration::from_millis(1201))
        .retry_period(SECOND);
    assert_eq!(shortest.check(), Ok(()));
    let server = FakeServer::new();
    let mut candidate = TestCandidate::made(&server, "a", |options| options.election = shortest);
    candidate.elector.campaign().await;
    assert_eq!(server.get("shop-echo")["spec"]["leaseDurationSeconds"], 2);
    assert!(timeout(SECOND * 60, candidate.elector.hold()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn readiness_names_a_missing_rule_until_it_is_granted() {
    let server = FakeServer::new();
    server.decide(|_, _| RequestOutcome::Fail(403));
    let mut candidate = TestCandidate::new(&server, "a");
    assert_eq!(candidate.ready(), Err("echo: the Lease shops/shop-echo has not been read yet".to_owned()));
    candidate.does_not_acquire(SECOND * 3).await;
    let reason = candidate.ready().expect_err("the rule is missing");
    for part in
        ["get", "\"coordination.k8s.io/leases: create, get, update, watch\"", "`shop-echo`", "namespace `shops`"]
    {
        assert!(reason.contains(part), "{reason}");
    }
    server.decide(|_, _| RequestOutcome::Pass);
    candidate.elector.campaign().await;
    assert_eq!(candidate.ready(), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn readiness_names_a_webhook_that_rejects_the_lease_with_the_code_of_a_conflict_or_of_a_missing_object() {
    for code in [404, 409] {
        for (rejected, exists) in [(Method::PUT, false), (Method::POST, false), (Method::PUT, true)] {
            let server = FakeServer::new();
            server.creates_by_post_only();
            if exists {
                held_by(&server, "", OURS);
            }
            server.decide(
                move |method, _| if *method == rejected { RequestOutcome::Denied(code) } else { RequestOutcome::Pass },
            );
            let mut candidate = TestCandidate::new(&server, "a");
            candidate.does_not_acquire(SECOND * 3).await;
            let reason = candidate.ready().expect_err("it is rejected");
            let expected = format!("with {code}: admission webhook \"a.io\" denied the request: frozen");
            assert!(reason.contains(&expected), "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_makes_a_standby_not_ready_only_if_it_lasts() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND).await;
    server.decide(|_, _| RequestOutcome::Fail(500));
    candidate.does_not_acquire(SECOND * 16).await;
    assert!(candidate.ready().is_ok(), "{:?}", candidate.ready());
    candidate.does_not_acquire(SECOND * 30).await;
    let reason = candidate.ready().expect_err("it lasts");
    assert!(reason.contains("this request fails"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_an_election_show_its_state() {
    let metrics = Arc::new(Recorded::default());
    let server = FakeServer::new();
    let mut candidate = TestCandidate::made(&server, "a", |options| options.metrics = metrics.clone());
    let is_leader = Gauge::Leader { lease: "shop-echo".to_owned() };
    assert_eq!(metrics.read(&is_leader), 0.0);
    candidate.elector.campaign().await;
    assert_eq!((metrics.read(&is_leader), metrics.read(&Gauge::LeaseTimeLeft)), (1.0, 10.0));
    assert_eq!((&*metrics.counts.lock(), *metrics.renewals.lock()), (&vec![Counter::LeaderTransition], 1));
    candidate.elector.release().await;
    assert_eq!(metrics.read(&is_leader), 0.0);
}
