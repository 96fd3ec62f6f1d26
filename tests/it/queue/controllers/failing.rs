//! When objects whose calls fail are handled again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::kube::core::Status;
use kooper::prelude::*;
use kooper::retriever::channel;

use crate::fixture::{Log, Start, builder, config, eventually};

#[tokio::test(start_paused = true)]
async fn a_new_generation_of_a_failing_object_is_handled_at_once_and_other_changes_within_ten_seconds() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let (seen, start) = (log.clone(), tokio::time::Instant::now());
    let _running = builder("failing")
        .while_deleting()
        .retriever(retriever)
        .handler(move |object: Arc<ConfigMap>, call: Call| {
            let label = object.metadata.labels.as_ref().map_or("", |labels| &labels["n"]);
            let value = &object.data.as_ref().unwrap()["value"];
            seen.note(format!("{} {label} {value} {}", start.elapsed().as_secs(), call.attempt()));
            async { Err::<(), _>(HandlerError::retry_after(Duration::from_secs(86_400), "tomorrow")) }
        })
        .start();
    eventually("the first list", || log.count() == 1).await;
    let labelled = |n: u32, value: &str| {
        let mut object = config("a", value);
        object.metadata.labels = Some([("n".to_owned(), n.to_string())].into());
        object
    };
    for n in 1..=4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        events.modify(&labelled(n, "1")).unwrap();
    }
    eventually("the labels", || log.count() == 3).await;
    events.modify(&labelled(5, "2")).unwrap();
    eventually("the fix", || log.count() == 4).await;
    let mut marked = labelled(5, "2");
    marked.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    events.modify(&marked).unwrap();
    eventually("the deletion mark", || log.count() == 5).await;
    assert_eq!(log.lines(), ["0  1 1", "1 1 1 2", "11 4 1 3", "11 5 2 1", "11 5 2 1"]);
}

/// The response to a patch of a Service without the permission.
fn forbidden(name: &str) -> kube::Error {
    let message = format!(
        "services \"{name}\" is forbidden: User \"shop\" cannot patch resource \"services\" in API group \"\" in the namespace \"test\""
    );
    let status = Status { code: 403, message, reason: "Forbidden".to_owned(), ..Status::default() };
    kube::Error::Api(Box::new(status))
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_during_its_refused_call_does_not_show_that_the_permission_is_granted() {
    let (retriever, events) = channel((0..50).map(|n| config(&n.to_string(), "1"))).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let _running = builder("refused")
        .retriever(retriever)
        .handler(move |object: Arc<ConfigMap>| {
            seen.note("");
            // The first one that is called again.
            if seen.count() == 51 {
                events.delete(&*object).unwrap();
            }
            async { Err::<(), _>(forbidden("a")) }
        })
        .start();
    eventually("one is called again", || log.count() > 50).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(log.count() <= 53, "{} calls: the others still wait", log.count());
}

#[tokio::test(start_paused = true)]
async fn one_of_the_objects_that_lack_a_permission_is_retried_and_the_others_follow_once_it_is_granted() {
    let (retriever, _events) = channel((0..50).map(|n| config(&n.to_string(), "1"))).unwrap();
    let log = Log::default();
    let granted = Arc::new(AtomicU32::new(0));
    let (seen, rule) = (log.clone(), granted.clone());
    let _running = builder("forbidden")
        .retriever(retriever)
        .handler(move |call: Call| {
            let result = if rule.load(Ordering::SeqCst) == 1 {
                seen.note(call.key().name());
                Ok(())
            } else {
                seen.note("");
                Err(forbidden(call.key().name()))
            };
            async { result }
        })
        .start();
    eventually("each was refused", || log.count() >= 50).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let refused = log.count() - 50;
    assert!((110..=150).contains(&refused), "{refused} attempts in an hour");
    granted.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(45)).await;
    let mut handled = log.lines();
    handled.retain(|name| !name.is_empty());
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 50);
}
