//! Releases, Leases of other controllers, deletions and cancellation.

use super::*;
use crate::leader::lease_state::{Candidate, LeaseState, LeaseWrite, NextStep, Record, Terms, WriteResult};

#[tokio::test(start_paused = true)]
async fn a_release_does_not_overwrite_another_holder() {
    let (server, mut candidate) = TestCandidate::leader().await;
    held_by(&server, "b", OURS);
    candidate.elector.release().await;
    assert_eq!(server.get("shop-echo")["spec"]["holderIdentity"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_conflicts_does_not_overwrite_the_next_holder() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let mut writes = 0;
    server.decide(move |method, _| {
        writes += usize::from(method == Method::PUT);
        if method == Method::PUT && writes == 1 { RequestOutcome::Overtaken } else { RequestOutcome::Pass }
    });
    candidate.elector.release().await;
    assert_eq!(server.get("shop-echo")["spec"]["holderIdentity"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_release_succeeds_after_a_renewal_without_a_response() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.decide(|method, _| if method == Method::PUT { RequestOutcome::DoneAndHang } else { RequestOutcome::Pass });
    assert!(timeout(SECOND * 3, candidate.elector.hold()).await.is_err(), "cut off in the middle of a renewal");
    server.decide(|_, _| RequestOutcome::Pass);
    candidate.elector.release().await;
    assert_eq!(server.get("shop-echo")["spec"]["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_release_drops_leadership_at_once_and_takes_little_time() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.decide(|_, _| RequestOutcome::Hang);
    let (begun, leadership) = (Instant::now(), candidate.leadership.clone());
    tokio::join!(candidate.elector.release(), async {
        leadership.lost().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    });
    assert_eq!(begun.elapsed().as_millis(), 2500);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_was_never_the_leader_sends_no_request_to_release() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND).await;
    let before = server.count(&Method::GET, false);
    candidate.elector.release().await;
    assert_eq!(server.count(&Method::GET, false), before);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_keeps_its_holder_until_it_expires() {
    let (server, mut candidate) = TestCandidate::leader().await;
    candidate.elector.abandon();
    assert!(!candidate.leadership.is_held());
    assert_eq!(candidate.elector.hold().await, Lost::NeverHeld);
    assert_eq!(server.get("shop-echo")["spec"]["holderIdentity"], "a");
}

#[tokio::test(start_paused = true)]
async fn an_elector_can_become_the_leader_again_after_a_loss_or_a_release() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.decide(|_, _| RequestOutcome::Fail(503));
    assert_eq!(candidate.elector.hold().await, Lost::Deadline);
    server.decide(|_, _| RequestOutcome::Pass);
    timeout(SECOND * 3, candidate.elector.campaign()).await.expect("the record is its own");
    assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 0);
    candidate.elector.release().await;
    candidate.elector.campaign().await;
    assert_eq!(server.get("shop-echo")["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_campaign_recognizes_its_own_write_later() {
    let server = FakeServer::new();
    server.decide(|method, _| if method == Method::PUT { RequestOutcome::DoneAndHang } else { RequestOutcome::Pass });
    let mut candidate = TestCandidate::new(&server, "a");
    candidate.does_not_acquire(SECOND).await;
    server.decide(|_, _| RequestOutcome::Pass);
    timeout(SECOND, candidate.elector.campaign()).await.expect("the record is its own");
}

#[tokio::test(start_paused = true)]
async fn hold_can_be_cancelled_at_any_moment_without_losing_leadership() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let slow = Arc::new(Mutex::new(0));
    server.decide(move |_, _| {
        let mut count = slow.lock();
        *count += 1;
        if *count % 3 == 0 { RequestOutcome::DoneAndHang } else { RequestOutcome::Pass }
    });
    for cut in 1..200 {
        let cut = Duration::from_millis(37 * (cut % 50));
        assert!(timeout(cut, candidate.elector.hold()).await.is_err());
    }
    assert!(candidate.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_own_record_that_comes_back_from_a_backup_is_respected_like_that_of_another_candidate() {
    let (server, mut candidate) = TestCandidate::leader().await;
    let backup = server.get("shop-echo");
    held_by(&server, "b", OURS);
    assert_eq!(candidate.elector.hold().await, Lost::Taken("b".into()));
    server.change("shop-echo", |lease| *lease = backup);
    candidate.does_not_acquire(SECOND * 14).await;
    timeout(SECOND * 3, candidate.elector.campaign()).await.expect("the term of b is over");
}

#[tokio::test(start_paused = true)]
async fn a_standby_respects_the_leader_from_before_a_restore_of_a_lease_that_was_released() {
    let server = FakeServer::new();
    TestCandidate::leading(&server, "a").await;
    server.change("shop-echo", |lease| lease["spec"]["holderIdentity"] = "".into());
    let backup = server.get("shop-echo");
    let _leader = TestCandidate::leading(&server, "b").await;
    let mut standby = TestCandidate::new(&server, "c");
    standby.does_not_acquire(SECOND * 5).await;
    server.change("shop-echo", |lease| *lease = backup);
    standby.does_not_acquire(SECOND * 14).await;
    timeout(SECOND * 4, standby.elector.campaign()).await.expect("the term of b is over");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_ends_leadership_and_is_created_again() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.delete("shop-echo");
    assert_eq!(candidate.elector.hold().await, Lost::Deleted);
    candidate.elector.campaign().await;
    assert!(candidate.leadership.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_standby_respects_the_holder_of_a_lease_that_was_deleted() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND * 5).await;
    server.delete("shop-echo");
    candidate.does_not_acquire(SECOND * 9).await;
    timeout(SECOND * 2, candidate.elector.campaign()).await.expect("its term is over");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_leadership_is_announced_once() {
    let (server, mut candidate) = TestCandidate::leader().await;
    candidate.elector.release().await;
    assert_eq!(candidate.announced(), [Announcement::Became, Announcement::Stopped]);
    candidate.elector.campaign().await;
    held_by(&server, "b", OURS);
    candidate.elector.hold().await;
    candidate.elector.release().await;
    let lost = Announcement::Lost("the lease is held by b".to_owned());
    assert_eq!(candidate.announced(), [Announcement::Became, Announcement::Stopped, Announcement::Became, lost]);
}

#[tokio::test(start_paused = true)]
async fn removing_the_holder_from_the_lease_ends_leadership() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.change("shop-echo", |lease| lease["spec"]["holderIdentity"] = json!(""));
    assert_eq!(candidate.elector.hold().await, Lost::Emptied);
}

#[tokio::test(start_paused = true)]
async fn a_standby_respects_a_holder_that_was_removed_by_hand() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND * 5).await;
    server.change("shop-echo", |lease| lease["spec"]["holderIdentity"] = json!(""));
    candidate.does_not_acquire(SECOND * 14).await;
    timeout(SECOND * 2, candidate.elector.campaign()).await.expect("its term is over");
}

#[tokio::test(start_paused = true)]
async fn a_standby_respects_a_holder_that_was_removed_by_hand_before_the_lease_was_deleted() {
    let (server, mut candidate) = TestCandidate::standby();
    candidate.does_not_acquire(SECOND * 5).await;
    server.change("shop-echo", |lease| lease["spec"]["holderIdentity"] = json!(""));
    candidate.does_not_acquire(SECOND * 2).await;
    server.delete("shop-echo");
    candidate.does_not_acquire(SECOND * 12).await;
    timeout(SECOND * 4, candidate.elector.campaign()).await.expect("its term is over");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_writes_conflict_with_no_other_version_pauses_between_them() {
    let (server, mut candidate) = TestCandidate::leader().await;
    server.decide(|method, _| if method == Method::PUT { RequestOutcome::Fail(409) } else { RequestOutcome::Pass });
    let before = server.count(&Method::PUT, false);
    assert_eq!(candidate.elector.hold().await, Lost::Deadline);
    let sent = server.count(&Method::PUT, false) - before;
    assert!(sent < 30, "{sent} writes in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_another_controller_is_never_acquired() {
    for holder in ["b", ""] {
        let server = FakeServer::new();
        held_by(&server, holder, Some("bank/echo"));
        let mut candidate = TestCandidate::new(&server, "a");
        candidate.does_not_acquire(SECOND * 200).await;
        let shown = if holder.is_empty() { "bank/echo" } else { "bank/echo (b)" };
        assert_eq!(candidate.announced(), [Announcement::Foreign { holder: shown.to_owned() }]);
        let reason = candidate.ready().expect_err("this is a mistake");
        assert!(reason.contains("belongs to `bank/echo`") && reason.contains("this is `shop/echo`"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_replicas_that_share_the_work_is_awaited_until_the_last_one_returns_it() {
    let server = FakeServer::new();
    let lease = |mark: &str| {
        let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 1});
        server.change("shop-echo", |lease| {
            lease["metadata"]["annotations"][MARK] = json!(mark);
            lease["spec"] = spec;
        });
    };
    lease("shop/echo/shards");
    let mut candidate = TestCandidate::new(&server, "a");
    candidate.does_not_acquire(SECOND * 200).await;
    assert_eq!(candidate.announced(), []);
    let remark = candidate.ready().expect("a rollback waits for this replica").expect("there is a reason");
    assert!(remark.contains("the last one of them that stops returns the Lease"), "{remark}");
    lease("shop/echo");
    timeout(SECOND / 4, candidate.elector.campaign()).await.expect("it is returned");
}

#[tokio::test(start_paused = true)]
async fn a_holder_without_a_mark_is_announced_and_replaced_when_it_releases_the_lease() {
    let server = FakeServer::new();
    held_by(&server, "go-7f9", None);
    let mut candidate = TestCandidate::new(&server, "a");
    candidate.does_not_acquire(SECOND * 5).await;
    assert_eq!(candidate.announced(), [Announcement::Foreign { holder: "go-7f9".to_owned() }]);
    assert!(candidate.ready().is_ok_and(|remark| remark.is_some_and(|remark| remark.contains("go-7f9"))));
    held_by(&server, "", None);
    timeout(SECOND / 4, candidate.elector.campaign()).await.expect("it is free");
    assert_eq!(server.get("shop-echo")["metadata"]["annotations"][MARK], "shop/echo");
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_lease_of_a_previous_name_is_respected() {
    let server = FakeServer::new();
    server.change("shop-old", |lease| {
        lease["spec"] = json!({"holderIdentity": "b", "renewTime": "2020-01-01T00:00:00.000000Z"});
    });
    let mut candidate = TestCandidate::renamed(&server);
    candidate.does_not_acquire(SECOND * 10).await;
    let remark = candidate.ready().unwrap().unwrap();
    assert!(remark.contains("`shop-old` of a previous name is held by b"), "{remark}");
    server.change("shop-old", |lease| lease["spec"]["holderIdentity"] = json!(""));
    // Another replica of the previous version may acquire it.
    candidate.does_not_acquire(SECOND * 3).await;
    server.change("shop-old", |lease| lease["spec"]["holderIdentity"] = json!("c"));
    candidate.does_not_acquire(SECOND * 10).await;
    server.change("shop-old", |lease| lease["spec"]["holderIdentity"] = json!(""));
    timeout(SECOND * 10, candidate.elector.campaign()).await.expect("it was released");
    assert_eq!(server.get("shop-old")["spec"]["holderIdentity"], "", "it is not written");
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_previous_lease_is_respected_for_its_term_although_it_was_removed_by_hand() {
    for is_deleted in [true, false] {
        let server = FakeServer::new();
        let spec =
            json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"});
        server.change("shop-old", |lease| lease["spec"] = spec);
        let mut candidate = TestCandidate::renamed(&server);
        candidate.does_not_acquire(SECOND * 5).await;
        if is_deleted {
            server.delete("shop-old");
        } else {
            server.change("shop-old", |lease| lease["spec"]["holderIdentity"] = json!(""));
        }
        candidate.does_not_acquire(SECOND * 9).await;
        timeout(SECOND * 10, candidate.elector.campaign()).await.expect("its term is over");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_waits_for_the_installation_without_a_name() {
    let server = FakeServer::new();
    server.change("shop-echo", |lease| {
        lease["spec"] = json!({"holderIdentity": "b", "renewTime": "2020-01-01T00:00:00.000000Z"});
    });
    let mut candidate = TestCandidate::made(&server, "a", |options| {
        options.lease = "shop-echo.blue".to_owned();
        options.previous = vec![PreviousLease { name: "shop-echo".to_owned(), owner: LeaseOwner::NoInstance }];
    });
    candidate.does_not_acquire(SECOND * 10).await;
    assert_eq!(
        candidate.ready().unwrap().unwrap(),
        "echo: standby: the lease `shop-echo` of the installation without an instance name is held by b: stop that \
         installation, or give it a name with `--instance NAME`"
    );
    server.change("shop-echo", |lease| lease["spec"]["holderIdentity"] = json!(""));
    timeout(SECOND * 10, candidate.elector.campaign()).await.expect("it was released");
}

#[tokio::test(start_paused = true)]
async fn two_installations_with_one_lease_are_advised_to_have_instance_names() {
    let server = FakeServer::new();
    let watching = |identity, namespaces: &[&str]| {
        TestCandidate::made(&server, identity, |options| {
            options.namespaces = namespaces.iter().map(ToString::to_string).collect();
        })
    };
    let mut leader = watching("a", &["y", "x"]);
    leader.elector.campaign().await;
    let mut replica = watching("b", &["x", "y"]);
    replica.does_not_acquire(SECOND * 5).await;
    assert_eq!(replica.ready().unwrap().unwrap(), "echo: standby: the lease is held by a");
    let mut other = watching("c", &["z"]);
    other.does_not_acquire(SECOND * 5).await;
    assert_eq!(
        other.ready().unwrap().unwrap(),
        "echo: standby: the lease is held by a, which watches namespaces x, y, not namespace z: to run both \
         installations, name each with `--instance NAME`"
    );
    let mut everywhere = watching("d", &[]);
    everywhere.does_not_acquire(SECOND * 5).await;
    assert!(everywhere.ready().unwrap().unwrap().contains(", not all namespaces"));
}

#[tokio::test(start_paused = true)]
async fn a_previous_lease_that_is_not_renewed_expires() {
    let server = FakeServer::new();
    server.change("shop-old", |lease| {
        lease["spec"] = json!({"holderIdentity": "b", "renewTime": "2020-01-01T00:00:00.000000Z"});
    });
    let mut candidate = TestCandidate::renamed(&server);
    timeout(SECOND * 20, candidate.elector.campaign()).await.expect("it expired");
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_the_mark_of_a_previous_name_can_be_acquired() {
    let server = FakeServer::new();
    held_by(&server, "", Some("shop/old"));
    let mut candidate = TestCandidate::renamed(&server);
    timeout(SECOND, candidate.elector.campaign()).await.expect("only the name has changed");
}

#[test]
fn a_renewal_that_is_stored_after_the_release_has_begun_is_not_the_release() {
    let mark: Arc<str> = "shop/echo".into();
    let me = Candidate { identity: "a".into(), mark: Arc::clone(&mark), previous: Vec::new() };
    let mut state = LeaseState::new(me, Terms::new(15 * SECOND, 10 * SECOND, 2 * SECOND), Duration::ZERO);
    let stored =
        |write: &LeaseWrite, version: &str| WriteResult::Committed(Record::stored(write, &mark, version.into()));
    let write = |state: &mut LeaseState, now| match state.next(now, 7) {
        NextStep::Write(write) => write,
        other => panic!("{other:?}"),
    };
    state.campaign();
    state.handle_read(Duration::ZERO, Duration::ZERO, None);
    let now = 60 * SECOND;
    state.handle_read(now, now, None);
    let acquisition = write(&mut state, now);
    state.handle_write_result(now, stored(&acquisition, "1"));
    let now = now + 3 * SECOND;
    let renewal = write(&mut state, now);
    state.step_down(now);
    state.handle_write_result(now, stored(&renewal, "2"));
    let release = write(&mut state, now);
    assert_eq!((&*renewal.holder, &*release.holder), ("a", ""));
    state.handle_write_result(now, stored(&release, "3"));
    assert!(matches!(state.next(now, 7), NextStep::Idle));
}
