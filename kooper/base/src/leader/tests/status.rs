//! The status of an election.

use super::super::lease::LeaseError;
use super::super::previous::LeaseOwner;
use super::super::scope::WatchedNamespaces;
use super::super::status::{ElectionStatus, Phase, RequestPurpose};
use super::*;
use crate::metrics::health::Probe;

fn refused(verb: &'static str) -> LeaseError {
    let (namespace, name, message) = ("shops".into(), "shop-echo".into(), "no rule".to_owned());
    LeaseError::Forbidden { verb, namespace, name, message, advice: String::new() }
}

fn status() -> ElectionStatus {
    let lease = "shops/shop-echo".to_owned();
    let clock = crate::clock::system();
    ElectionStatus::new(
        "echo".into(),
        lease,
        "shop/echo".into(),
        WatchedNamespaces::of(&[]),
        Duration::from_secs(15),
        clock,
    )
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_until_a_request_of_the_same_sort_succeeds() {
    let status = status();
    status.record_success(RequestPurpose::Read);
    assert!(status.ready().is_ok());

    status.record_failure(RequestPurpose::Previous, &refused("get"));
    status.record_success(RequestPurpose::Read);
    status.record_success(RequestPurpose::Write);
    assert!(status.ready().is_err(), "the success was with our own Lease");
    status.record_success(RequestPurpose::Previous);
    assert!(status.ready().is_ok());

    status.record_failure(RequestPurpose::Write, &refused("create"));
    status.record_success(RequestPurpose::Read);
    assert!(status.ready().unwrap_err().contains("cannot create"));
    status.record_success(RequestPurpose::Write);
    assert!(status.ready().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_ready_although_its_last_write_was_forbidden() {
    let status = status();
    status.record_failure(RequestPurpose::Write, &refused("update"));
    status.record_success(RequestPurpose::Read);
    assert!(status.ready().is_err());
    status.enter(Phase::Standby("other".into()), false);
    assert!(status.ready().is_err(), "the Lease has expired, and it cannot be acquired");
    status.enter(Phase::Standby("other".into()), true);
    assert!(status.ready().unwrap().unwrap().contains("held by other"));
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_ready_although_a_respected_lease_could_not_be_read_once() {
    let previous = Phase::Previous { lease: "shop-old".into(), owner: LeaseOwner::Controller, holder: "other".into() };
    for phase in [Phase::Standby("other".into()), previous] {
        let status = status();
        status.record_success(RequestPurpose::Read);
        status.record_failure(RequestPurpose::Previous, &refused("get"));
        assert!(status.ready().is_err());
        status.enter(phase, true);
        assert!(status.ready().unwrap().unwrap().contains("other"));
    }
}

#[test]
fn a_candidate_that_respects_another_lease_does_not_report_the_expired_holder_of_its_own() {
    let status = status();
    let respected = |holder: &str| Phase::Previous {
        lease: "shop-old".into(),
        owner: LeaseOwner::Controller,
        holder: holder.into(),
    };
    assert!(status.enter(respected("a"), true));
    assert!(!status.enter(Phase::Standby("dead".into()), false));
    assert!(!status.enter(respected("a"), true), "nothing has changed");
    assert!(status.enter(Phase::Leading, false));
}
