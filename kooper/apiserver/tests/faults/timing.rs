//! When a fault is injected: by number, and by chance.

use kooper_apiserver::ApiServer;
use kooper_apiserver::faults::{Fault, Faults, Requests, Verb, WatchEvent};

use super::{create, maps, server, watch};

/// Gets an object five times, and returns when it was served.
async fn served(server: &ApiServer) -> Vec<bool> {
    let mut served = Vec::new();
    for _ in 0..5 {
        served.push(maps(server).get("a").await.is_ok());
    }
    served
}

#[tokio::test]
async fn first_and_after_count_from_when_the_fault_is_added() {
    let server = server().await;
    create(&server, "a").await;
    maps(&server).get("a").await.expect("it is served");
    let fault = server.faults().on(Verb::Get.of("configmaps")).after(1).first(2).reply(500);
    assert_eq!((served(&server).await, fault.times()), (vec![true, false, false, true, true], 2));
    fault.injected(2).await;
}

#[tokio::test]
async fn nth_counts_from_the_times_of_after() {
    let server = server().await;
    create(&server, "a").await;
    let fault = server.faults().on(Verb::Get.of("configmaps")).after(2).nth(2).reply(500);
    assert_eq!((served(&server).await, fault.times()), (vec![true, true, true, false, true], 1));
}

#[tokio::test]
#[should_panic(expected = "a probability is from 0 to 1: 10")]
async fn a_percentage_is_no_probability() {
    let _ = server().await.faults().on(Requests::all()).with_probability(10.0);
}

/// Gets twenty objects, each ten times, and returns which were served.
async fn draw(server: &ApiServer) -> Vec<bool> {
    let mut served = Vec::new();
    for round in 0..10 {
        for name in 0..20 {
            // Another order must not change what an object meets.
            let name = if round % 2 == 0 { name } else { 19 - name };
            served.push((name, round, maps(server).get_opt(&format!("m{name}")).await.is_ok()));
        }
    }
    served.sort_unstable();
    served.into_iter().map(|(_, _, served)| served).collect()
}

fn unlucky(faults: &Faults) -> Fault {
    faults.on(Verb::Get.of("configmaps")).with_probability(0.3).reply(500)
}

#[tokio::test]
async fn a_seed_decides_what_is_left_to_chance() {
    let mut drawn = Vec::new();
    for seed in [1, 1, 2] {
        let server = server().await;
        server.faults().set_seed(seed);
        unlucky(&server.faults());
        drawn.push(draw(&server).await);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
    let refused = drawn[0].iter().filter(|served| !**served).count();
    assert!((30..=90).contains(&refused), "{refused} of 200");
}

#[tokio::test]
async fn what_was_injected_is_replayed_alone() {
    let first = server().await;
    let unlucky_first = unlucky(&first.faults());
    first.faults().on_event(WatchEvent::Added.of("configmaps")).nth(1).close();
    create(&first, "a").await;
    assert!(watch(&first, "").await.is_empty());
    let drawn = draw(&first).await;
    let injected = first.faults().injected();

    let second = server().await;
    second.faults().replay(&injected).expect("it was written so");
    second.faults().on(Requests::all()).reply(503);
    let unlucky_again = unlucky(&second.faults());
    create(&second, "a").await;
    assert!(watch(&second, "").await.is_empty());
    assert_eq!(draw(&second).await, drawn);
    assert_eq!(second.faults().injected(), injected);
    assert!(unlucky_first.times() > 0);
    assert_eq!(unlucky_again.times(), unlucky_first.times());
    assert_eq!(second.faults().seed(), first.faults().seed());
}
