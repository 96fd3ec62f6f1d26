//! Problems between a watch and its source.

use super::*;

#[test]
fn a_process_is_ready_without_an_optional_kind_but_not_after_another_error() {
    let status = WatchStatus::new("test", "shops.example.com", None, false, true);
    assert!(status.ready().is_err());
    status.record_failure(&RetrieveError::NotFound("404 page not found".to_owned()), Duration::ZERO, 1);
    let remark = status.ready().expect("ready without the kind").expect("a remark");
    assert!(remark.starts_with("test: shops.example.com: optional, and not installed: "), "{remark}");
    status.record_failure(&RetrieveError::Forbidden("no".to_owned()), Duration::ZERO, 2);
    assert!(status.ready().is_err());
    status.record_failure(&RetrieveError::NotFound("404 page not found".to_owned()), Duration::ZERO, 3);
    status.require();
    assert!(status.ready().is_err());
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_where_the_server_would_speak() {
    let of = |from_server| WatchStatus::new("test", "shops.example.com", None, false, from_server);
    let (optional, served, own) = (of(true), of(true), of(false));
    served.require();
    let missing = RetrieveError::NotFound("404 page not found".to_owned());
    optional.record_failure(&missing, Duration::ZERO, 1);
    served.record_failure(&missing, Duration::ZERO, 1);
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!([&optional, &served, &own].map(WatchStatus::silence), [0, 300, 0].map(Duration::from_secs));
    own.record_failure(&missing, Duration::ZERO, 1);
    own.require();
    assert_eq!(own.silence(), Duration::from_secs(300), "it fails");
    served.record_sync(1);
    served.record_stop();
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(served.silence(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn other_tasks_run_while_a_list_is_compared_in_which_nothing_has_changed() {
    let list = || page("5", &[("a", "1")]);
    let script = Script::default().list(list()).watch(vec![Err(expired())]).list(list()).open_watch(vec![]);
    let run = script.run();
    run.until("the second list", |seen| *seen.relists.lock() == 1).await;
    let mut turns = 0;
    while run.script.watched.lock().len() < 2 {
        turns += 1;
        tokio::task::yield_now().await;
    }
    assert!(turns >= 50, "{turns} turns");
}

#[test]
fn a_kind_that_is_no_longer_served_is_not_ready_until_it_is_served_again() {
    let status = WatchStatus::new("test", "shops.example.com", None, false, true);
    status.require();
    status.record_sync(1);
    assert_eq!(status.ready(), Ok(None));
    status.record_failure(&RetrieveError::NotFound("404 page not found".to_owned()), Duration::ZERO, 1);
    let reason = status.ready().unwrap_err();
    assert!(
        reason.starts_with("test: shops.example.com: no longer served: ") && reason.contains("apply its CRD"),
        "{reason}"
    );
    status.record_sync(0);
    assert_eq!(status.ready(), Ok(None));
    // The process stays ready with another error as long as the watch is not silent for long.
    status.record_failure(&RetrieveError::other("connection refused"), Duration::ZERO, 1);
    assert!(status.ready().is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_are_retried_after_any_error_and_the_status_shows_it() {
    for error in [
        RetrieveError::Forbidden("pods is forbidden".to_owned()),
        RetrieveError::NotFound("404 page not found".to_owned()),
        RetrieveError::Unauthorized("Unauthorized".to_owned()),
        RetrieveError::Busy { after: Duration::from_secs(3), message: "too many requests".to_owned() },
        RetrieveError::Status { code: 500, message: "boom".to_owned() },
        RetrieveError::other("connection refused"),
        RetrieveError::TooLargeVersion("too large".to_owned()),
    ] {
        let run =
            Script::default().list(Err(error.clone())).list(Err(error.clone())).list(page("5", &[("a", "1")])).run();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let not_ready = run.status.ready().unwrap_err();
        assert!(
            not_ready.starts_with("test: pods: not synced yet: ") && not_ready.contains(&error::chain(&error)),
            "{not_ready}"
        );
        run.until_seen(&[("a", "1")]).await;
        run.until("it is ready", |_| run.status.ready() == Ok(None)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_has_objects_is_unserved_after_several_404_and_one_without_after_the_first() {
    let missing = || RetrieveError::NotFound("404 page not found".to_owned());
    let refused = || RetrieveError::other("connection refused");
    let objects = [("a", "1")];
    for (objects, errors, is_unserved) in [
        (&objects[..], vec![missing(), missing()], false),
        // As while the API server restarts behind a proxy.
        (&objects[..], vec![refused(), refused(), missing()], false),
        (&objects[..], vec![missing(), missing(), missing()], true),
        (&objects[..0], vec![missing()], true),
    ] {
        let (case, requests) = (format!("{objects:?}: {errors:?}"), errors.len() + 1);
        let script = Script::default().list(page("5", objects));
        let run = errors.into_iter().fold(script, |script, error| script.opening(Err(error))).run();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(run.script.watched.lock().len(), requests, "the last one is not answered: {case}");
        assert_eq!(run.store.is_unserved(), is_unserved, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_does_not_affect_the_others() {
    let bad = Page {
        objects: vec![Ok(object("a", "1")), Err(malformed()), Ok(object("b", "2"))],
        version: "5".to_owned(),
        continue_token: None,
    };
    let run = Script::default().list(Ok(bad)).watch(vec![Ok(Event::Malformed(malformed())), added("c", "6")]).run();
    run.until_seen(&[("a", "1"), ("b", "2"), ("c", "6")]).await;
    assert_eq!((*run.seen.malformed.lock(), *run.seen.relists.lock()), (2, 0));
    assert!(run.status.ready().unwrap().unwrap().contains("2 unreadable objects"));
}

#[tokio::test(start_paused = true)]
async fn after_the_deletion_of_an_object_that_cannot_be_read_a_list_shows_which_one_it_was() {
    let run = Script::default()
        .list(page("5", &[("a", "1"), ("b", "2")]))
        .watch(vec![Ok(Event::MalformedDeletion(malformed())), added("never", "7")])
        .list(page("9", &[("a", "1")]))
        .open_watch(vec![])
        .run();
    run.until_seen(&[("a", "1")]).await;
    assert_eq!(run.seen.log.lock().last().map(String::as_str), Some("deleted b"));
    assert_eq!((*run.seen.malformed.lock(), *run.seen.relists.lock()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn if_no_watch_can_be_followed_changes_are_listed() {
    // The first one receives no response, the second one is rejected, the third one is closed at once.
    let cases: [fn(Script) -> Script; 3] = [
        |script| script,
        |script| (0..50).fold(script, |script, _| script.opening(Err(RetrieveError::other("it is broken")))),
        |script| (0..50).fold(script, |script, _| script.watch(vec![])),
    ];
    for case in cases {
        let run = case(Script::default().list(page("50", &[("a", "1")])).list(page("60", &[("b", "55")]))).run();
        *run.script.current.lock() = Some("60");
        let started = Instant::now();
        run.until_seen(&[("b", "55")]).await;
        assert!((180..400).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(*run.script.listed.lock(), 2, "nothing has changed since the last list");
    }
}

#[tokio::test(start_paused = true)]
async fn if_watches_are_rejected_a_source_of_streaming_lists_is_listed_in_pages() {
    let rejected = || RetrieveError::Status { code: 500, message: "no watches".to_owned() };
    let script = Script::default().watch(vec![added("a", "1"), bookmark("50", true)]);
    let script = (0..60).fold(script, |script, _| script.opening(Err(rejected())));
    let run = script.list(page("60", &[("b", "55")])).run_streaming();
    *run.script.current.lock() = Some("60");
    let started = Instant::now();
    run.until_seen(&[("b", "55")]).await;
    assert!((180..500).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn while_the_server_does_not_answer_nothing_is_listed_again() {
    let script = Script::default().list(page("50", &[("a", "1")])).list(page("60", &[("b", "55")]));
    let script = (0..8).fold(script, |script, _| script.opening(Err(RetrieveError::other("it is down"))));
    let run = script.watch_from("50", vec![added("b", "55"), deleted("a", "56")]).run();
    run.until_seen(&[("b", "55")]).await;
    assert_eq!(*run.script.listed.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_with_a_malformed_one_lacks_is_not_deleted() {
    let bad =
        Page { objects: vec![Ok(object("a", "1")), Err(malformed())], version: "7".to_owned(), continue_token: None };
    let run = Script::default()
        .list(page("5", &[("a", "1"), ("b", "2")]))
        .watch(vec![Err(expired())])
        .list(Ok(bad))
        .watch(vec![added("c", "8"), Err(expired())])
        .list(page("9", &[("a", "1"), ("c", "8")]))
        .open_watch(vec![])
        .run();
    run.until_seen(&[("a", "1"), ("c", "8")]).await;
    assert_eq!(run.seen.log.lock()[2..], ["added c", "deleted b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_while_a_list_with_a_malformed_one_is_sent_is_not_kept() {
    let run = Script::default()
        .watch(vec![added("a", "1"), added("b", "2"), bookmark("5", true), Err(expired())])
        .watch(vec![added("a", "1"), Ok(Event::Malformed(malformed())), deleted("a", "6"), bookmark("7", true)])
        .open_watch(vec![])
        .run_streaming();
    run.until("deleted", |seen| seen.log.lock().len() == 3).await;
    assert_eq!(run.seen.log.lock().last().map(String::as_str), Some("deleted a"));
    run.until_seen(&[("b", "2")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_reconnected_and_then_listed_again() {
    let run = Script::default()
        .list(page("50", &[("a", "1")]))
        .open_watch(vec![])
        .open_watch(vec![])
        .list(page("60", &[("b", "55")]))
        .open_watch(vec![])
        .run();
    run.until_seen(&[("b", "55")]).await;
    assert_eq!(*run.seen.restores.lock(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_with_lower_versions_is_accepted_after_silence() {
    let run = Script::default()
        .list(page("50", &[("a", "49")]))
        .open_watch(vec![])
        .open_watch(vec![])
        .list(page("30", &[("a", "20")]))
        .watch_from("30", vec![modified("a", "31")])
        .run();
    run.until_seen(&[("a", "31")]).await;
    assert_eq!(*run.seen.restores.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_from_a_server_that_lags_behind_is_not_accepted() {
    let run = Script::default()
        .list(page("50", &[("a", "49")]))
        .opening(Err(expired()))
        .list(page("40", &[("a", "39")]))
        .list(page("60", &[("a", "59")]))
        .run();
    run.until_seen(&[("a", "59")]).await;
    assert_eq!((*run.seen.restores.lock(), run.seen.log.lock().len()), (0, 2), "version 39 was not reported");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_five_minutes_makes_the_process_not_ready() {
    let run = Script::default().list(page("5", &[])).open_watch(vec![]).run();
    run.until("synced", |_| run.status.is_synced()).await;
    assert!(run.status.ready().is_ok());
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert!(run.status.ready().unwrap_err().contains("no event or bookmark for 301 s"));
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_namespace_is_left_out_and_reported_as_a_remark() {
    let status = WatchStatus::new("test", "pods", Some("shop"), false, true);
    status.require();
    let forbidden = RetrieveError::Forbidden("pods is forbidden".to_owned());
    status.record_failure(&forbidden, Duration::ZERO, 1);
    status.wait_tried().await;
    let remark = status.ready().expect("the others are handled").expect("a remark");
    assert!(remark.starts_with("test: pods in shop: left out until it can be watched: not allowed: "), "{remark}");

    // It can be watched and is forbidden again, as when the namespace is deleted with its Role.
    status.record_sync(1);
    assert_eq!((status.ready(), status.left_out()), (Ok(None), None));
    status.record_failure(&forbidden, Duration::ZERO, 1);
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(status.ready().is_ok_and(|remark| remark.is_some_and(|remark| remark.contains("left out"))));
    // If a controller cannot work without this namespace, it is not ready.
    status.require_synced();
    assert!(status.ready().is_err_and(|reason| reason.contains("no event or bookmark for 3600 s: not allowed: ")));
}

#[tokio::test(start_paused = true)]
async fn the_first_list_of_a_namespace_may_fail_several_times_before_it_is_left_out() {
    let status = WatchStatus::new("test", "pods", Some("shop"), false, true);
    let refused = RetrieveError::other("connection refused");
    for failures in 1..=3 {
        let tried = timeout(Duration::from_secs(60), status.wait_tried()).await.is_ok();
        assert!(!tried && status.left_out().is_none() && status.ready().is_err(), "after {} failures", failures - 1);
        status.record_failure(&refused, Duration::ZERO, failures);
    }
    status.wait_tried().await;
    assert!(status.left_out().is_some());
    status.record_sync(0);
    assert_eq!(status.left_out(), None);
}

#[tokio::test(start_paused = true)]
async fn lists_are_delayed_if_their_versions_are_too_old_from_the_start() {
    let script = Arc::new(Script::default());
    let lists = script.clone();
    let source = from_fns::<(), _, _, _, _, _>(
        move |_: ListRequest| {
            *lists.listed.lock() += 1;
            async { page("5", &[]) }
        },
        |_: WatchRequest| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Err::<stream::Empty<Result<Event, RetrieveError>>, _>(expired())
        },
    );
    let run = run_over(script, Arc::new(Streaming(erase::<(), _>(source), false)));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let listed = *run.script.listed.lock();
    assert!((10..60).contains(&listed), "{listed} lists in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_that_ended_early_are_used_again_for_the_next_list() {
    let breaks = || Ok(Watch { expects: None, events: vec![added("a", "1")], stays_open: false });
    let script = Script::default().opening(breaks()).opening(breaks()).list(page("5", &[("a", "1")]));
    // The watch after the list is too old: the list after it is streamed.
    let script = script.opening(Err(expired())).open_watch(vec![added("b", "6"), bookmark("6", true)]);
    let run = script.run_streaming();
    run.until_seen(&[("b", "6")]).await;
    assert_eq!(*run.script.listed.lock(), 1);
}
