//! The keys of a queue that the page shows, each once: the queue may change while it is read.

use std::collections::BTreeSet;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::queue::KeyView;
use kooper_runtime::queue::WorkQueue;

use super::model::Rows;

/// At most `most` keys: first these, then the others in the order in which they run.
pub(super) fn next(queue: &WorkQueue, first: &[ObjectKey], most: usize) -> Rows<KeyView> {
    // Some of the upcoming ones may be shown already, or be there twice.
    let shown = once(queue.views(first).into_iter().chain(queue.upcoming(4 * most)), most);
    let more = queue.counts().known.saturating_sub(shown.len());
    Rows { shown, more }
}

/// At most `most` keys that contain `text`: first these, then others in no particular order.
pub(super) fn found(queue: &WorkQueue, first: &[ObjectKey], text: &str, most: usize) -> Rows<KeyView> {
    let matches = |key: &ObjectKey| key.as_str().contains(text);
    let first: Vec<_> = first.iter().filter(|key| matches(key)).cloned().collect();
    let mut found = 0_usize;
    let others = queue.select(|key| {
        let is_match = matches(key);
        found += usize::from(is_match);
        is_match && found <= most
    });
    let shown = once(queue.views(&first).into_iter().chain(others), most);
    Rows { more: found.saturating_sub(shown.len()), shown }
}

fn once(views: impl Iterator<Item = KeyView>, most: usize) -> Vec<KeyView> {
    let mut known = BTreeSet::new();
    views.filter(|view| known.insert(view.key.clone())).take(most).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use kooper_runtime::Reason;
    use kooper_runtime::queue::{Lane, QueueOptions};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    fn queue() -> Arc<WorkQueue> {
        Arc::new(WorkQueue::new(QueueOptions::default()))
    }

    /// The names of keys that are shown, and the number of the others.
    fn shown(rows: &Rows<KeyView>) -> (Vec<String>, usize) {
        (rows.shown.iter().map(|view| view.key.name().to_owned()).collect(), rows.more)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_shown_in_order_each_once_and_the_others_are_counted() {
        let queue = queue();
        for name in 0..3_000 {
            queue.add(&key(&format!("k{name}")), Lane::Event, Reason::Modified);
        }
        let item = queue.get().await.expect("it is open");
        assert_eq!(item.key, key("k0"));
        queue.add_rate_limited(&item);
        let first = [key("k2999"), key("unknown"), key("k1")];
        let (names, more) = shown(&next(&queue, &first, 1_000));
        assert_eq!((names.len(), more), (1_000, 2_000));
        assert_eq!(names[..4], ["k2999", "k1", "k2", "k3"]);
        let all = shown(&next(&queue, &first, 5_000));
        assert_eq!(
            (all.0.len(), all.1, all.0.last().map(String::as_str)),
            (3_000, 0, Some("k0")),
            "it is retried later"
        );
        assert_eq!(shown(&next(&queue, &first, 2)), (vec!["k2999".to_owned(), "k1".to_owned()], 2_998));
        assert_eq!(shown(&next(&queue, &[], 0)), (vec![], 3_000));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_found_by_a_part_and_the_others_are_counted() {
        let queue = queue();
        for name in 0..3_000 {
            queue.add(&key(&format!("k{name}")), Lane::Event, Reason::Modified);
        }
        for (text, most, expected, more) in [
            ("ns/k12", 1_000, 111, 0),
            ("ns/k12", 11, 11, 100),
            ("ns/k12", 0, 0, 111),
            ("k2999", 10, 1, 0),
            ("ns/", 1_000, 1_000, 2_000),
            ("K1", 10, 0, 0),
            ("other/", 10, 0, 0),
        ] {
            let (names, others) = shown(&found(&queue, &[], text, most));
            assert_eq!((names.len(), others), (expected, more), "{text}");
        }
        let first = [key("k12"), key("k1"), key("unknown"), key("k129")];
        assert_eq!(shown(&found(&queue, &first, "k12", 2)), (vec!["k12".to_owned(), "k129".to_owned()], 109));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_queue_that_changes_while_it_is_read_shows_each_key_once() {
        let queue = queue();
        let changed = queue.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let changing = tokio::spawn(async move {
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                changed.add(&key(&format!("k{}", number % 2_000)), Lane::Event, Reason::Modified);
                if number % 3 == 0 {
                    let item = changed.get().await.expect("it is open");
                    changed.done(&item);
                }
            }
        });
        for _ in 0..100 {
            for rows in [next(&queue, &[key("k1")], 1_000), found(&queue, &[], "k1", 1_000)] {
                let (names, _) = shown(&rows);
                let different: BTreeSet<_> = names.iter().collect();
                assert_eq!(different.len(), names.len());
            }
        }
        stop.store(true, Ordering::Relaxed);
        changing.await.expect("no panic");
    }
}
