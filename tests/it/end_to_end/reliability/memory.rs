//! Memory over an hour of changes, in a process of its own.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::retriever::channel;

use super::{number, paused};
use crate::fixture::{Start, config, eventually, run_tests};
use crate::program::status_page::Page;

const TEST: &str = "end_to_end::reliability::memory::memory_depends_on_the_objects_that_exist_and_not_on_what_happened";

/// Set in the process that is measured.
const ALONE: &str = "KOOPER_TEST_ALONE";

/// The memory of this process, in KiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns the number of keys that the queue knows, as shown on the status page.
fn known(page: &Page) -> usize {
    let html = page.get("");
    let shown = html.split("<dt>known keys</dt><dd>").nth(1).and_then(|rest| rest.split('<').next());
    shown.unwrap().chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// An hour with changes of objects, of which so many exist at a time.
async fn hour(live: u64, changes: u64) {
    let (retriever, events) = channel::<ConfigMap>([]).unwrap();
    async fn handle(config: Arc<ConfigMap>) -> Result<()> {
        // Some fail for a while.
        if config.name_any().ends_with('7') { Err("not yet".into()) } else { Ok(()) }
    }
    let running = ConfigMap::controller("changes").retriever(retriever).handler(handle).start();
    let page = Page::serve(&running.health).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut there: VecDeque<u64> = VecDeque::new();
    let mut next = 0;
    let object = |number: u64, value: u64| config(&format!("c{number}"), &format!("{value:0>500}"));
    let steps = 100;
    let mut before = 0.0;
    for step in 0..steps {
        for change in 0..changes / steps {
            match random.u8(0..10) {
                // A name is never used again.
                _ if (there.len() as u64) < live => {
                    events.add(&object(next, change)).unwrap();
                    there.push_back(next);
                    next += 1;
                }
                0..3 => events.delete(&object(there.pop_front().unwrap(), 0)).unwrap(),
                _ => events.modify(&object(there[random.usize(..there.len())], change)).unwrap(),
            }
        }
        tokio::time::sleep(Duration::from_secs(3600 / steps)).await;
        if step == steps / 4 {
            // The code of the page is read into memory, too.
            known(&page);
            before = resident();
        }
    }
    // The store, the queue and what is kept of failed calls: no more than what exists.
    let are_known = |exist: &VecDeque<u64>| {
        let fail = exist.iter().filter(|number| *number % 10 == 7).count();
        let metric = |name: &str| running.metric(&format!("{name}{{controller=\"changes\"}}"));
        let stored = [metric("kooper_store_objects"), metric("kooper_failing_keys")];
        stored == [exist.len(), fail].map(|count| Some(count as f64)) && known(&page) == exist.len()
    };
    eventually("the objects that exist are known, and no others", || are_known(&there)).await;
    let after = resident();
    println!("{live} objects, {changes} changes: {before} KiB after a quarter, {after} KiB at the end");
    assert!(after <= before * 1.1, "{before} KiB after a quarter, {after} KiB at the end");
    for number in there.drain(..) {
        events.delete(&object(number, 0)).unwrap();
    }
    eventually("nothing is known of objects that were deleted", || are_known(&there)).await;
    running.stop().await.unwrap();
}

#[test]
fn memory_depends_on_the_objects_that_exist_and_not_on_what_happened() {
    if std::env::var_os(ALONE).is_some() {
        return paused(hour(super::objects(1_000), number("KOOPER_CHANGES", 50_000)));
    }
    let (passed, text) = run_tests(&[TEST], &["--nocapture"], &[(ALONE, "1")]);
    assert!(passed, "{text}");
    println!("{text}");
}
