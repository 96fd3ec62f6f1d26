use std::time::Duration;

use super::escaped::LONGEST;
use super::webhooks::WebhookRow;
use super::*;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::queue::QueueCounts;

fn ready() -> Result<String, String> {
    Ok("ok\n".to_owned())
}

fn rows<T>(shown: Vec<T>) -> Rows<T> {
    Rows { shown, more: 0 }
}

fn watch(problem: Option<&str>) -> WatchView {
    let problem = problem.map(str::to_owned);
    WatchView { place: "pods in shop".to_owned(), objects: 1_234_567, heard: Duration::from_millis(1_250), problem }
}

fn row(key: &str, error: Option<(&str, u32)>) -> KeyState {
    KeyState {
        key: key.to_owned(),
        why: "it waits for a change".to_owned(),
        reasons: "modified".to_owned(),
        error: error.map(|(text, calls)| (text.to_owned(), calls)),
    }
}

fn shops(role: Role) -> ControllerState {
    ControllerState { name: "shops".to_owned(), resource: "pods".to_owned(), role, ..ControllerState::default() }
}

#[test]
fn the_search_of_a_query_is_decoded() {
    for (query, expected) in [
        (None, ""),
        (Some(""), ""),
        (Some("q="), ""),
        (Some("other=x"), ""),
        (Some("q=default%2Fsample"), "default/sample"),
        (Some("a=b&q=+x+"), "x"),
        (Some("q=100%"), "100%"),
        (Some("q=%2"), "%2"),
        (Some("q=%zz%C3%A4"), "%zzä"),
        (Some("q=%FF"), "\u{fffd}"),
    ] {
        assert_eq!(search(query), expected, "{query:?}");
    }
}

#[test]
fn a_webhook_that_was_not_reached_is_marked_and_all_say_what_they_are_for() {
    let row = |name: &str, registered, is_bad| WebhookRow {
        name: name.to_owned(),
        purpose: "validates shops.example.com".to_owned(),
        registered,
        is_bad,
    };
    let webhooks = rows(vec![row("check", "with Fail", false), row("<b>", "with Ignore: no", true)]);
    let webhook_remarks = vec!["The certificate is valid.".to_owned()];
    let html = page("shop", "", &ready(), &[ControllerState { webhooks, webhook_remarks, ..shops(Role::Alone) }]);
    for part in [
        "<td>check</td><td>validates shops.example.com</td><td class=\"\">with Fail</td>",
        "<td>&lt;b&gt;</td><td>validates shops.example.com</td><td class=\"bad\">with Ignore: no</td>",
        "<p>The certificate is valid.</p>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!page("shop", "", &ready(), &[shops(Role::Alone)]).contains("Webhooks"));
}

#[test]
fn strings_from_elsewhere_cannot_add_elements_or_attributes() {
    let evil = "</td><script>alert('\"&')</script>";
    let escaped = "&lt;/td&gt;&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;";
    let with = |role| ControllerState {
        name: evil.to_owned(),
        resource: evil.to_owned(),
        role,
        problem: Some(evil.to_owned()),
        unknown: Some(evil.to_owned()),
        watches: rows(vec![WatchView {
            place: evil.to_owned(),
            objects: 1,
            heard: Duration::ZERO,
            problem: Some(evil.to_owned()),
        }]),
        calls: rows(vec![Running { key: ObjectKey::cluster_scoped(evil), attempt: 1, age: Duration::ZERO }]),
        keys: rows(vec![KeyState {
            key: evil.to_owned(),
            why: evil.to_owned(),
            reasons: evil.to_owned(),
            error: Some((evil.to_owned(), 2)),
        }]),
        ..ControllerState::default()
    };
    let states = [with(Role::Standby(evil.to_owned())), with(Role::Leader(evil.to_owned()))];
    for ready in [Err(evil.to_owned()), Ok(format!("ok\n{evil}\n"))] {
        let html = page(evil, evil, &ready, &states);
        assert_eq!(html.matches("<script").count(), 1, "only its own: {html}");
        assert!(!html.contains("alert('"), "{html}");
        assert_eq!(html.matches(escaped).count(), 3 + 1 + 2 * 12, "{html}");
    }
}

#[test]
fn an_error_keeps_its_lines_and_letters_and_is_cut_off_if_it_is_long() {
    let text = |error: &str| {
        let state = ControllerState { keys: rows(vec![row("a/b", Some((error, 1)))]), ..shops(Role::Alone) };
        let html = page("shop", "", &ready(), &[state]);
        html.split("<td class=\"bad\">").nth(1).and_then(|rest| rest.split("</td>").next()).unwrap().to_owned()
    };
    assert_eq!(text("two\nlines\tand größer 漢字"), "two\nlines\tand größer 漢字");
    assert_eq!(text("a\0b\u{1b}[31m\r"), "a\u{fffd}b\u{fffd}[31m\u{fffd}");
    assert_eq!(text(&"ß".repeat(100_000)), "ß".repeat(LONGEST) + "…");
    assert_eq!(text(&"<".repeat(LONGEST)), "&lt;".repeat(LONGEST));
}

#[test]
fn each_state_of_a_controller_is_shown() {
    let html = |state: ControllerState| page("shop", "", &ready(), &[state]);
    assert!(page("shop", "", &ready(), &[]).contains("<p>There is no controller yet.</p>"));
    assert!(html(shops(Role::Alone)).contains("<h2>shops <small>pods</small></h2>"));
    let leader = html(shops(Role::Leader("web-0_1".to_owned())));
    assert!(leader.contains("leader</span>") && leader.contains("It is the leader as web-0_1."), "{leader}");
    let standby = html(shops(Role::Standby("standby: the lease is held by web-1_2".to_owned())));
    assert!(standby.contains("<p>standby: the lease is held by web-1_2</p>"), "{standby}");
    let shared = html(shops(Role::Shards { owned: 11, count: 32, identity: "web-0_1".to_owned() }));
    assert!(shared.contains("11 of 32 shards</span>") && shared.contains("as web-0_1."), "{shared}");
    assert!(html(shops(Role::NoShards)).contains("no shards</small>"));
    let ended = html(shops(Role::Ended));
    assert!(ended.contains("has ended") && !ended.contains("workers"), "{ended}");
    let starting = html(ControllerState { problem: Some("`init` failed: no till".to_owned()), ..shops(Role::Alone) });
    assert!(starting.contains("<p class=\"bad\">`init` failed: no till</p>"), "{starting}");
    let watches = rows(vec![watch(Some("the request failed")), watch(None)]);
    let watching = html(ControllerState { watches, ..shops(Role::Alone) });
    let row = "<td>pods in shop</td><td>1\u{a0}234\u{a0}567</td><td>1.2s ago</td>";
    assert!(watching.contains(&format!("{row}<td class=\"bad\">the request failed</td>")), "{watching}");
    assert!(watching.contains(&format!("{row}<td>synced</td>")), "{watching}");
    let queue = QueueCounts { lanes: [1, 2, 3], delayed: 4, retries: 5, known: 6_000 };
    let queued = html(ControllerState { queue, workers: 7, ..shops(Role::Alone) });
    for part in
        ["1 events, 2 retries and requeues, 3 resyncs", "5 retries, 4 requeues", "<dd>7</dd>", "<dd>6\u{a0}000</dd>"]
    {
        assert!(queued.contains(part), "{part}: {queued}");
    }
}

#[test]
fn the_readiness_is_shown_with_its_reasons() {
    let html = page("shop", "", &Err("a: broken\nb: broken\n".to_owned()), &[]);
    assert!(html.contains("not ready</b></p>\n<ul>\n<li>a: broken</li>\n<li>b: broken</li>\n</ul>"), "{html}");
    let html = page("shop", "", &Ok("ok\nc: a remark\n".to_owned()), &[]);
    assert!(html.contains("ready</b></p>\n<ul>\n<li>c: a remark</li>\n</ul>"), "{html}");
    assert!(!page("shop", "", &ready(), &[]).contains("<ul>"));
    let html = page("shop", "", &Err("broken\n".repeat(5_000)), &[]);
    assert_eq!(html.matches("<li>broken</li>").count(), MOST_REMARKS);
    assert!(html.contains("<li>and 4\u{a0}980 more; /readyz has all of them</li>"), "{html}");
}

#[test]
fn rows_that_are_left_out_are_counted() {
    let keys = Rows { shown: vec![row("a/b", None)], more: 999_999 };
    let html = page("shop", "a", &ready(), &[ControllerState { keys, ..shops(Role::Alone) }]);
    assert!(html.contains("<p>and 999\u{a0}999 more: search for a part of their key</p>"), "{html}");
    let calls = Rows { shown: Vec::new(), more: 4 };
    let html = page("shop", "", &ready(), &[ControllerState { calls, ..shops(Role::Alone) }]);
    assert!(html.contains("<p>Running calls: 4</p>") && html.contains("running calls</dt><dd>4</dd>"), "{html}");
}

#[test]
fn a_search_without_a_result_is_answered() {
    let html = page("shop", "x", &ready(), &[shops(Role::Alone)]);
    assert!(html.contains("No key in the queue contains the search."), "{html}");
    let unknown = Some("a/b waits for a change: nothing else is planned for it".to_owned());
    let html = page("shop", "a/b", &ready(), &[ControllerState { unknown, ..shops(Role::Alone) }]);
    assert!(html.contains("<p>a/b waits for a change: nothing else is planned for it</p>"), "{html}");
    assert!(!html.contains("No key of the queue"), "{html}");
}

#[test]
fn several_failed_calls_are_counted() {
    let keys = rows(vec![row("a/b", Some(("shut", 1))), row("a/c", Some(("shut", 3)))]);
    let html = page("shop", "", &ready(), &[ControllerState { keys, ..shops(Role::Alone) }]);
    let start = "<td>it waits for a change</td><td>modified</td><td class=\"bad\">shut";
    assert!(html.contains(&format!("<tr><td>a/b</td>{start}</td></tr>")), "{html}");
    assert!(html.contains(&format!("<tr><td>a/c</td>{start} (3 failed calls)</td></tr>")), "{html}");
}
