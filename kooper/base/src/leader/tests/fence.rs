//! The client that only sends requests while leadership is held.

use http_body_util::BodyExt;
use kube::client::Body;

use super::*;
use crate::client::ClientStack;

fn get(path: &str) -> http::Request<Body> {
    http::Request::get(path).body(Body::empty()).unwrap()
}

fn fenced(server: &FakeServer, leadership: &Leadership) -> kube::Client {
    ClientStack::new(server.client()).with(leadership.fence()).client()
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/shops/leases/shop-echo";
const WATCH: &str =
    "/apis/coordination.k8s.io/v1/namespaces/shops/leases?watch=true&fieldSelector=metadata.name%3Dshop-echo";

fn text(error: &kube::Error) -> String {
    crate::error::chain(error)
}

#[tokio::test(start_paused = true)]
async fn a_request_without_leadership_is_not_sent() {
    let server = FakeServer::new();
    let candidate = TestCandidate::new(&server, "a");
    let client = fenced(&server, &candidate.leadership);
    let error = client.send(get(LEASE)).await.expect_err("it is not the leader");
    assert!(text(&error).contains("was not sent: this process is not the leader"), "{}", text(&error));
    assert!(text(&error).contains(LEASE), "{}", text(&error));
    assert_eq!(server.count(&Method::GET, false), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_leader_is_sent() {
    let (server, candidate) = TestCandidate::leader().await;
    let answer = fenced(&server, &candidate.leadership).send(get(LEASE)).await.unwrap();
    assert!(answer.status().is_success());
    let body = answer.into_body().collect_bytes().await.unwrap();
    assert!(!body.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_request_is_aborted_when_the_token_expires() {
    let (server, candidate) = TestCandidate::leader().await;
    server.decide(|_, _| RequestOutcome::Hang);
    let begun = Instant::now();
    let error = fenced(&server, &candidate.leadership).send(get(LEASE)).await.expect_err("it is aborted");
    assert_eq!(begun.elapsed(), SECOND * 10);
    assert!(text(&error).contains("lost leadership while it waited"), "{}", text(&error));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_leadership_is_dropped() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let mut body = fenced(&server, &candidate.leadership).send(get(WATCH)).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok(), "the first event arrives");
    let begun = Instant::now();
    let (frame, ()) = tokio::join!(body.frame(), async {
        sleep(SECOND).await;
        candidate.elector.abandon();
    });
    let error = frame.unwrap().expect_err("it is cut off");
    assert!(text(&error).contains("cut off"), "{}", text(&error));
    assert_eq!(begun.elapsed(), SECOND);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_term_does_not_continue_in_the_next() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let mut body = fenced(&server, &candidate.leadership).send(get(WATCH)).await.unwrap().into_body();
    candidate.elector.release().await;
    candidate.elector.campaign().await;
    assert!(candidate.leadership.is_held());
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn without_leader_election_every_process_is_the_leader_forever() {
    let (server, leadership) = (FakeServer::new(), Leadership::always());
    assert!(leadership.is_held() && leadership.time_left().is_none());
    leadership.held().await;
    assert!(timeout(SECOND * 1_000_000, leadership.lost()).await.is_err());
    assert!(!fenced(&server, &leadership).send(get(LEASE)).await.unwrap().status().is_success());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_leadership_is_woken() {
    let server = FakeServer::new();
    let mut candidate = TestCandidate::new(&server, "a");
    let leadership = candidate.leadership.clone();
    let waits = tokio::spawn(async move { leadership.held().await });
    advance(SECOND).await;
    assert!(!waits.is_finished());
    candidate.elector.campaign().await;
    waits.await.unwrap();
}
