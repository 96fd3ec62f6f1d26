//! Grace periods of pods, and the metadata of terminating objects.

use serde_json::{Value, json};

use super::DeleteOptions;
use crate::kinds::Kind;
use crate::{crd, meta, registry, time};

/// The seconds that an object may still live: only pods on a node have any.
pub(super) fn grace(kind: &Kind, present: &Value, options: &DeleteOptions) -> i64 {
    if !registry::of(kind).ends_gracefully() {
        return 0;
    }
    let asked = options.grace.map(not_negative);
    // A period that runs already only gets shorter.
    if let Some(running) = present["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        let Some(asked) = asked.filter(|asked| *asked < running) else { return running };
        // Only a period of 0 lets the server delete the pod itself, so what has ended already gets the least other one.
        return if time::is_past(shortened_end(present, asked)) { asked.min(1) } else { asked };
    }
    let phase = present["status"]["phase"].as_str().unwrap_or_default();
    let bound = !present["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if !bound || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let own = present["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    asked.unwrap_or(not_negative(own))
}

/// A negative period is the same as one second.
fn not_negative(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// When a deletion ends, in seconds since 1970, whose period is shortened: it counts from when the deletion began.
fn shortened_end(present: &Value, grace: i64) -> u64 {
    let metadata = &present["metadata"];
    let end = time::seconds(metadata["deletionTimestamp"].as_str().unwrap_or_default()).unwrap_or_default();
    let running = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    end.saturating_sub((running - grace).unsigned_abs())
}

/// Sets the deletion mark, or shortens the time that is left.
pub(super) fn mark(kind: &Kind, object: &mut Value, grace: i64) {
    if kind.custom.is_none() && kind.group == crd::GROUP {
        return crd::mark(object);
    }
    let mut end = time::after(grace.unsigned_abs());
    if meta::is_deleting(object) {
        let running = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if running.is_none_or(|running| running <= grace) {
            return;
        }
        let shortened = shortened_end(object, grace);
        end = if time::is_past(shortened) { time::now() } else { time::written(shortened) };
    } else if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|generation| *generation > 0) {
        meta::of(object).insert("generation".into(), json!(generation + 1));
    }
    let metadata = meta::of(object);
    metadata.insert("deletionTimestamp".into(), json!(end));
    if !kind.is_namespace() {
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    } else {
        object["status"]["phase"] = json!("Terminating");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{DeleteOptions, grace, mark};
    use crate::cluster::Cluster;
    use crate::time;

    #[tokio::test(start_paused = true)]
    async fn a_shortened_period_counts_from_the_beginning_of_the_deletion() {
        let cluster = Cluster::new("", String::new(), ([127, 0, 0, 1], 0).into(), false);
        let kind = cluster.kind("", "v1", "pods").expect("there are pods");
        let mut pod = json!({"metadata": {}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        let begun = time::seconds(&time::now()).expect("it is a time");
        let delete = |pod: &mut Value, asked: Option<i64>| {
            let grace = grace(&kind, pod, &DeleteOptions { grace: asked, ..DeleteOptions::default() });
            mark(&kind, pod, grace);
            let metadata = &pod["metadata"];
            let end = time::seconds(metadata["deletionTimestamp"].as_str().unwrap_or_default());
            (metadata["deletionGracePeriodSeconds"].as_i64(), end.map(|end| end - begun))
        };
        assert_eq!(delete(&mut pod, None), (Some(30), Some(30)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(delete(&mut pod, Some(20)), (Some(20), Some(20)));
        assert_eq!(delete(&mut pod, Some(25)), (Some(20), Some(20)));
        assert_eq!(delete(&mut pod, None), (Some(20), Some(20)));
        tokio::time::advance(Duration::from_secs(5)).await;
        // A period that would have ended in the past ends now. It is still the node that deletes
        // the pod.
        assert_eq!(delete(&mut pod, Some(10)), (Some(1), Some(15)));
        assert_eq!(delete(&mut pod, Some(-5)), (Some(1), Some(15)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(delete(&mut pod, Some(0)), (Some(0), Some(20)));
    }
}
