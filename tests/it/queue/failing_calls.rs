//! Calls that keep failing, as the Events on their object show them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use kooper::apiserver::faults::Verb;
use kooper::controller::FailureEvents;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{BoxError, Controller};
use serde_json::json;

use crate::fixture::{events, wait_for_events, with_name};

/// A controller whose calls fail as long as this is true.
fn fails(shut: &Arc<AtomicBool>, error: &str) -> kooper::controller::Builder<ConfigMap> {
    let (shut, error) = (shut.clone(), error.to_owned());
    // The root certificate of the namespace is another ConfigMap.
    Controller::builder::<ConfigMap>("shop").labels("app=shop").resync(None).handler(move || {
        let (shut, error) = (shut.load(Ordering::SeqCst), error.clone());
        async move { if shut { Err(BoxError::from(error)) } else { Ok(()) } }
    })
}

fn labelled(name: &str) -> ConfigMap {
    let mut object: ConfigMap = with_name(name);
    object.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    object
}

fn count(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).unwrap_or(1)
}

#[kooper::test(start_paused = true)]
async fn one_event_reports_the_failures_and_one_the_recovery(cluster: Cluster) -> Result<()> {
    let shut = Arc::new(AtomicBool::new(true));
    let running = cluster.run([fails(&shut, "the shop is shut").build()?]).await?;
    let object = cluster.create(&labelled("corner")).await?;
    let found =
        wait_for_events(&cluster, "ReconcileFailed", |events| events.iter().any(|event| count(event) >= 3)).await;
    let [event] = &found[..] else { panic!("one Event: {found:#?}") };
    let message = event.message.as_deref().unwrap_or_default();
    assert!(message.starts_with("the handler failed: the shop is shut. Attempt 1"), "{message}");
    assert!(message.contains("; it is retried in ") && message.ends_with("s."), "{message}");
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Warning"), Some("Reconcile")));
    assert_eq!(event.involved_object.uid, object.metadata.uid, "`kubectl describe` finds it by the uid");
    assert_eq!(event.reporting_component.as_deref(), Some("test/shop"));

    // The next process continues it.
    let before = count(event);
    running.kill().await;
    let running = cluster.run([fails(&shut, "the shop is shut").build()?]).await?;
    let found =
        wait_for_events(&cluster, "ReconcileFailed", |events| events.iter().any(|event| count(event) > before)).await;
    assert_eq!(found.len(), 1, "{found:#?}");

    shut.store(false, Ordering::SeqCst);
    cluster.patch(&object, json!({"data": {"open": "yes"}})).await?;
    let found = wait_for_events(&cluster, "Recovered", |events| !events.is_empty()).await;
    let message = found[0].message.as_deref().unwrap_or_default();
    assert!(message.starts_with("The controller shop succeeds again after "), "{message}");
    assert_eq!((found.len(), found[0].type_.as_deref()), (1, Some("Normal")));
    running.stop().await?;
    assert_eq!(events(&cluster, "Recovered").await.len(), 1);
    assert_eq!(events(&cluster, "ReconcileFailed").await.len(), 1);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_failure_that_a_retry_mends_leaves_no_event(cluster: Cluster) -> Result<()> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let controller = Controller::builder::<ConfigMap>("shop").labels("app=shop").resync(None).handler(move || {
        let first = counted.fetch_add(1, Ordering::SeqCst) < 3;
        async move { if first { Err(BoxError::from("busy")) } else { Ok(()) } }
    });
    let running = cluster.run([controller.build()?]).await?;
    cluster.create(&labelled("corner")).await?;
    while calls.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.stop().await?;
    assert_eq!((events(&cluster, "ReconcileFailed").await.len(), events(&cluster, "Recovered").await.len()), (0, 0));
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_long_error_is_cut_and_what_follows_is_not(cluster: Cluster) -> Result<()> {
    let shut = Arc::new(AtomicBool::new(true));
    let running = cluster.run([fails(&shut, &"zu, für heute. ".repeat(200)).build()?]).await?;
    cluster.create(&labelled("corner")).await?;
    let found = wait_for_events(&cluster, "ReconcileFailed", |events| !events.is_empty()).await;
    let message = found[0].message.as_deref().unwrap_or_default();
    assert!(message.len() <= 1024 && message.len() > 1000, "{}", message.len());
    assert!(message.contains('…') && message.contains(". Attempt ") && message.ends_with("s."), "{message}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_event_on_a_cluster_scoped_object_is_in_default(cluster: Cluster) -> Result<()> {
    let controller = Controller::builder::<Namespace>("malls")
        .labels("app=mall")
        .handler(async || Err::<(), _>(HandlerError::permanent("it is sold")));
    let running = cluster.run([controller.build()?]).await?;
    let mut mall: Namespace = with_name("mall");
    mall.metadata.labels = Some([("app".to_owned(), "mall".to_owned())].into());
    cluster.create(&mall).await?;
    let found = wait_for_events(&cluster, "ReconcileFailed", |events| !events.is_empty()).await;
    assert_eq!(found[0].metadata.namespace.as_deref(), Some("default"));
    assert_eq!(found[0].involved_object.name.as_deref(), Some("mall"));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn many_objects_that_fail_at_once_have_an_event_each_in_the_end(cluster: Cluster) -> Result<()> {
    const OBJECTS: usize = 300;
    for n in 0..OBJECTS {
        cluster.create(&labelled(&format!("shop-{n}"))).await?;
    }
    let controller = Controller::builder::<ConfigMap>("shop")
        .labels("app=shop")
        .resync(None)
        .handler(async || Err::<(), _>(HandlerError::permanent("no such shop")));
    let running = cluster.run([controller.build()?]).await?;
    // Each look lists all of them.
    tokio::time::sleep(Duration::from_secs(19)).await;
    let found = wait_for_events(&cluster, "ReconcileFailed", |events| events.len() >= OBJECTS).await;
    assert_eq!(found.len(), OBJECTS);
    // A hundred at once, and ten in each of the next seconds.
    let times = found.iter().filter_map(|event| event.metadata.creation_timestamp.as_ref());
    let (first, last) = (times.clone().min().expect("a time"), times.max().expect("a time"));
    let seconds = last.0.as_second() - first.0.as_second();
    assert!((19..=22).contains(&seconds), "{seconds}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn events_off_leaves_out_the_events_and_their_rule(cluster: Cluster) -> Result<()> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let controller = Controller::builder::<ConfigMap>("shop").labels("app=shop").events(false).handler(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), _>(BoxError::from("the shop is shut")) }
    });
    let controller = controller.build()?;
    let rules: Vec<_> = controller.plan().needs().iter().map(|need| need.rule.to_string()).collect();
    assert_eq!(rules, ["configmaps: list, watch"]);
    let running = cluster.run([controller]).await?;
    cluster.create(&labelled("corner")).await?;
    while calls.load(Ordering::SeqCst) < 15 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.stop().await?;
    assert_eq!(events(&cluster, "ReconcileFailed").await.len(), 0);
    assert!(!cluster.requests().iter().any(|request| request.to_string().contains("/events")));
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_forbidden_event_does_not_affect_the_calls(cluster: Cluster) -> Result<()> {
    let (shut, opened) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (state, count) = (shut.clone(), opened.clone());
    let controller = Controller::builder::<ConfigMap>("shop").labels("app=shop").resync(None).handler(move || {
        let shut = state.load(Ordering::SeqCst);
        count.fetch_add(usize::from(!shut), Ordering::SeqCst);
        async move { if shut { Err(BoxError::from("the shop is shut")) } else { Ok(()) } }
    });
    let created = cluster.faults().on(Verb::Create.of("events")).reply(403);
    let running = cluster.run([controller.build()?]).await?;
    let object = cluster.create(&labelled("corner")).await?;
    while created.times() == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The next failure has an Event, and what follows is refused.
    cluster.faults().clear();
    wait_for_events(&cluster, "ReconcileFailed", |events| !events.is_empty()).await;
    let patched = cluster.faults().on(Verb::Patch.of("events")).reply(403);
    while patched.times() == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    shut.store(false, Ordering::SeqCst);
    for open in ["yes", "always"] {
        let before = opened.load(Ordering::SeqCst);
        cluster.patch(&object, json!({"data": {"open": open}})).await?;
        while opened.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(running.problem(), None);
    running.stop().await
}

/// An error with a source.
#[derive(Debug)]
struct Shut(BoxError);

impl std::fmt::Display for Shut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shop is shut")
    }
}

impl std::error::Error for Shut {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Returns the message of the Event about a failed call.
async fn reported(cluster: &Cluster, name: &str, builder: kooper::controller::Builder<ConfigMap>) -> Result<String> {
    let running = cluster.run([builder.build()?]).await?;
    let mut object = labelled(name);
    object.metadata.labels.get_or_insert_default().insert("app".to_owned(), name.to_owned());
    cluster.create(&object).await?;
    let of_object = |event: &&Event| event.involved_object.name.as_deref() == Some(name);
    let found =
        wait_for_events(cluster, "ReconcileFailed", |events| events.iter().any(|event| of_object(&event))).await;
    running.stop().await?;
    let message = found.iter().find(of_object).and_then(|event| event.message.clone()).unwrap_or_default();
    Ok(message.split(". Attempt ").next().unwrap_or_default().to_owned())
}

#[kooper::test(start_paused = true)]
async fn an_event_says_of_an_error_what_everyone_may_know(cluster: Cluster) -> Result<()> {
    let builder = |name: &str| Controller::builder::<ConfigMap>(name).labels(format!("app={name}")).resync(None);
    fn shut() -> Shut {
        Shut("the till has s3cr3t".into())
    }
    let (whole, outermost) =
        ("the handler failed: the shop is shut: the till has s3cr3t", "the handler failed: the shop is shut");
    let permanent = async || Err::<(), _>(HandlerError::permanent(shut()));
    for (name, builder, expected) in [
        ("outermost", builder("outermost").handler(permanent), outermost),
        ("full", builder("full").events(FailureEvents::Full).handler(permanent), whole),
        ("brief", builder("brief").events(FailureEvents::Brief).handler(permanent), "the handler failed"),
        (
            "public",
            builder("public").handler(async || Err::<(), _>(HandlerError::permanent(HandlerError::public(shut())))),
            whole,
        ),
        (
            "panic-full",
            builder("panic-full").events(FailureEvents::Full).handler(async || -> Result<()> { panic!("s3cr3t") }),
            "the handler panicked: s3cr3t",
        ),
        (
            "panic-brief",
            builder("panic-brief").events(FailureEvents::Brief).handler(async || -> Result<()> { panic!("s3cr3t") }),
            "the handler panicked",
        ),
    ] {
        assert_eq!(reported(&cluster, name, builder).await?, expected, "{name}");
    }
    let line = line!() + 1;
    let panics = builder("panic").handler(async || -> Result<()> { panic!("s3cr3t") });
    let said = reported(&cluster, "panic", panics).await?;
    assert!(
        said.starts_with("the handler panicked at ") && said.ends_with(&format!("failing_calls.rs:{line}")),
        "{said}"
    );
    Ok(())
}
