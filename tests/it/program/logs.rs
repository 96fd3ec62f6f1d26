//! Log lines about problems: what happened, to which object, and what to do.

use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Changed;
use kooper::Controller;
use kooper::children::{declare, wait};
use kooper::prelude::*;
use kooper::retriever::{Page, RetrieveError, channel, fixed, from_fns};
use kooper::testing::Cluster;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::fixture::{Log, Start, builder, config, eventually, run};

/// The log lines of the controllers whose names begin with `log-`.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One line at a time; those of other tests are ignored.
        if bytes.windows(4).any(|part| part == b"log-") {
            self.0.lock().extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    /// Starts to collect lines.
    fn listen() -> Self {
        static SAID: OnceLock<LogLines> = OnceLock::new();
        let listen = || {
            let lines = Self::default();
            let writer = lines.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_span_events(FmtSpan::CLOSE)
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
            lines
        };
        SAID.get_or_init(listen).clone()
    }

    /// Returns whether a line contains all of these.
    fn has(&self, parts: &[&str]) -> bool {
        self.count(parts) > 0
    }

    /// The number of lines that contain all of these.
    fn count(&self, parts: &[&str]) -> usize {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    async fn wait_for(&self, parts: &[&str]) {
        eventually(&format!("a line with {parts:?}"), || self.has(parts)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_an_error_and_a_timeout_are_logged_with_the_object_and_the_next_run() {
    let lines = LogLines::listen();
    let handler = |object: Arc<ConfigMap>| async move {
        match &*object.name_any() {
            "panics" => panic!("out of milk"),
            "hangs" => std::future::pending().await,
            "gives-up" => Err(HandlerError::permanent("no such shop").into()),
            "fails" => Err(kooper::BoxError::from("the shop is shut")),
            _ => Ok(()),
        }
    };
    let objects = ["panics", "hangs", "gives-up", "fails", "works"].map(|name| config(name, "1"));
    let controller = builder("log-calls").timeout(Duration::from_secs(10)).retriever(fixed(objects).unwrap());
    let running = controller.handler(handler).start();
    let call = |name: &str| format!("call{{controller=log-calls key=test/{name} attempt=1 reasons=initial}}");
    for (name, level, message) in [
        ("panics", "ERROR", "the handler panicked: out of milk; it is retried in 5ms"),
        (
            "hangs",
            "WARN",
            "the handler took longer than its timeout of 10s (do less in a call, or raise `timeout`); it is retried in 5ms",
        ),
        ("gives-up", "WARN", "the handler failed: no such shop; it waits for a change"),
        ("fails", "WARN", "the handler failed: the shop is shut; it is retried in 5ms"),
    ] {
        lines.wait_for(&[level, &call(name), message]).await;
        // The span of a call that failed is marked.
        lines.wait_for(&["close", "log-calls", &format!("test/{name} "), "otel.status_code=\"ERROR\""]).await;
    }
    lines.wait_for(&["close", "log-calls", "test/works "]).await;
    assert!(!lines.has(&["close", "log-calls", "test/works ", "ERROR"]));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_and_its_recovery_are_logged_once() {
    let lines = LogLines::listen();
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let running = Controller::builder::<ConfigMap>("log-recovers")
        .resync(Duration::from_secs(60))
        .backoff(Duration::from_millis(10), Duration::from_secs(3))
        .retriever(retriever)
        .handler(move || {
            let failed = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match failed {
                    0..9 => Err(kooper::BoxError::from("the shop is shut")),
                    9 => Err(HandlerError::permanent("the shop has moved").into()),
                    _ => Ok(()),
                }
            }
        })
        .start();
    lines.wait_for(&["WARN", "log-recovers", " attempt=1 ", "the shop is shut; it is retried in 10ms"]).await;
    lines.wait_for(&["log-recovers", "the shop has moved; it waits for a change or its resync in 5"]).await;
    // The same error is logged once, as it is over within 30 seconds.
    assert_eq!(lines.count(&["WARN", "log-recovers", "the shop is shut"]), 1);
    events.modify(&config("a", "2")).unwrap();
    lines.wait_for(&["INFO", "log-recovers", "key=test/a", "it succeeds again after 10 failed calls"]).await;
    events.modify(&config("a", "3")).unwrap();
    eventually("more calls", || tries.load(Ordering::SeqCst) > 12).await;
    assert_eq!(lines.count(&["log-recovers", "it succeeds again"]), 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_that_stays_is_logged_from_time_to_time_with_a_count() {
    let lines = LogLines::listen();
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let controller = builder("log-stays")
        .backoff(Duration::from_secs(1), Duration::from_secs(10))
        .retries(7)
        .retriever(retriever)
        .handler(async || Err::<(), _>(kooper::BoxError::from("the shop is shut")));
    let running = controller.start();
    // 1 s, 2 s, 4 s, 8 s, then every 10 s.
    for line in [
        "attempt=1 reasons=initial}: kooper_runtime::call::observer::reporter: the handler failed: the shop is shut; it is retried in 1s",
        "the shop is shut (7 times in 35s); it is retried in 10s",
        "the shop is shut (8 times in 45s); it waits for a change",
    ] {
        lines.wait_for(&["WARN", "log-stays", line]).await;
    }
    assert_eq!(lines.count(&["log-stays", "the shop is shut"]), 3);
    // Another object has a count of its own, and so has a change of the state.
    events.add(&config("b", "1")).unwrap();
    lines.wait_for(&["WARN", "log-stays", "test/b attempt=1", "the shop is shut; it is retried in 1s"]).await;
    running.stop().await.unwrap();
}

#[test]
fn a_call_that_blocks_its_thread_is_logged_with_what_to_do() {
    let lines = LogLines::listen();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let release = Arc::new(std::sync::Barrier::new(2));
    let barrier = release.clone();
    runtime.block_on(async {
        let controller = builder("log-stuck")
            .retries(0)
            .timeout(Duration::from_secs(1))
            .stuck_after(Duration::from_millis(10))
            .retriever(fixed([config("a", "1")]).unwrap())
            .handler(move || {
                let barrier = barrier.clone();
                async move { _ = barrier.wait() }
            });
        let running = controller.start();
        lines.wait_for(&["ERROR", "log-stuck", "key=test/a", "the handler has not ended", "spawn_blocking"]).await;
        release.wait();
        running.stop().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_reported_until_it_does() {
    let lines = LogLines::listen();
    let (retriever, events) = channel::<ConfigMap>([config("good", "1")]).unwrap();
    events.add(&serde_json::json!({"metadata": {"name": "poison", "namespace": "test"}, "data": 7})).unwrap();
    let running = builder("log-unfit").retriever(retriever).handler(async || {}).start();
    lines
        .wait_for(&["ERROR", "log-unfit", "key=test/poison", "the object does not match the type of the controller"])
        .await;
    let remark = "log-unfit: the object test/poison does not decode as the controller's type and is not handled";
    assert!(running.health.ready().is_ok_and(|text| text.contains(remark)));
    events.modify(&config("poison", "healed")).unwrap();
    eventually("it is handled", || running.health.ready().is_ok_and(|text| !text.contains("poison"))).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_corrected_by_a_filtered_change_is_handled_or_forgotten() {
    let label = |value: &str| {
        let mut object = config("poison", value);
        object.metadata.labels = Some([("app".to_owned(), value.to_owned())].into());
        object
    };
    let poison = serde_json::json!({"metadata": {"name": "poison", "namespace": "test"}, "data": 7});
    let log = Log::default();

    // A change that the filters ignore may still make the object decode.
    let (retriever, events) = channel::<ConfigMap>([config("good", "1")]).unwrap();
    let changed = builder("changed").changed([Changed::Labels]).retriever(retriever);
    let changed = changed.handler(log.noting(|call: Call| call.key().name().to_owned()));
    let running = changed.start();
    events.add(&poison).unwrap();
    eventually("it is reported", || running.health.ready().is_ok_and(|text| text.contains("test/poison"))).await;
    events.modify(&config("poison", "healed")).unwrap();
    eventually("it is handled", || log.lines().iter().any(|name| name == "poison")).await;
    assert_eq!(running.health.ready().as_deref(), Ok("ok\n"));
    running.stop().await.unwrap();

    // An object that decodes now and does not pass the filter is not handled.
    let (retriever, events) = channel::<ConfigMap>([config("good", "1")]).unwrap();
    let filtered = builder("filtered").when(|object| object.metadata.labels.is_none()).retriever(retriever);
    let running = filtered.handler(async || {}).start();
    events.add(&poison).unwrap();
    eventually("it is reported", || running.health.ready().is_ok_and(|text| text.contains("test/poison"))).await;
    events.modify(&label("healed")).unwrap();
    eventually("it is forgotten", || running.health.ready().as_deref() == Ok("ok\n")).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unreadable_objects_are_forgotten_after_a_readable_list() {
    let lists = Arc::new(AtomicUsize::new(0));
    let (listed, seen) = (lists.clone(), lists.clone());
    let expire = Arc::new(tokio::sync::Notify::new());
    let waits = expire.clone();
    let broken = from_fns::<ConfigMap, _, _, _, _, _>(
        move |_| {
            let first = listed.fetch_add(1, Ordering::SeqCst) == 0;
            let objects = if first { vec![kooper::object::Object::parse(b"{}")] } else { Vec::new() };
            async move { Ok(Page { objects, version: "1".to_owned(), continue_token: None }) }
        },
        move |_| {
            let (first, waits) = (seen.load(Ordering::SeqCst) == 1, waits.clone());
            async move {
                if first {
                    waits.notified().await;
                    return Err(RetrieveError::Expired("too old".to_owned()));
                }
                Ok(stream::pending())
            }
        },
    );
    let running = builder("mended").retriever(broken).handler(async || {}).start();
    let remark = "mended: configmaps: 1 unreadable objects were skipped";
    eventually("it is reported", || running.health.ready().is_ok_and(|text| text.contains(remark))).await;
    expire.notify_one();
    eventually("it is forgotten", || running.health.ready().as_deref() == Ok("ok\n")).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_and_empty_lists_are_logged_with_their_watch() {
    let lines = LogLines::listen();
    let refused = from_fns::<ConfigMap, _, _, _, _, _>(
        |_| async { Err(RetrieveError::Forbidden("configmaps is forbidden".to_owned())) },
        |_| async { Ok(stream::pending()) },
    );
    let log = Log::default();
    let (seen, noted) = (log.clone(), log.clone());
    let empty = from_fns::<ConfigMap, _, _, _, _, _>(
        |_| async { Ok(Page { objects: Vec::new(), version: "1".to_owned(), continue_token: None }) },
        move |_| {
            noted.note("watched");
            let old = log.count() == 1;
            async move { if old { Err(RetrieveError::Expired("too old".to_owned())) } else { Ok(stream::pending()) } }
        },
    );
    let controllers = [
        builder("log-refused").retriever(refused).handler(async || {}).build().unwrap(),
        builder("log-empty").retriever(empty).handler(async || {}).build().unwrap(),
    ];
    let running = run(controllers);
    lines.wait_for(&["WARN", "log-refused: configmaps", "not allowed: configmaps is forbidden", "retry_in="]).await;
    lines.wait_for(&["INFO", "log-empty: configmaps", "there are no objects yet"]).await;
    eventually("two watches", || seen.count() == 2).await;
    lines.wait_for(&["log-empty: configmaps", "listing again"]).await;
    let refusals = "kooper_watch_errors_total{controller=\"log-refused\",reason=\"forbidden\"}";
    assert!(running.metric(refusals) >= Some(1.0));
    assert_eq!(running.metric("kooper_watch_errors_total{controller=\"log-empty\",reason=\"forbidden\"}"), Some(0.0));
    running.stop().await.unwrap();
}

fn held(_: &ConfigMap) -> Result<Secret> {
    Err(wait("there is no key yet"))
}

#[kooper::test(start_paused = true)]
async fn a_slot_that_waits_is_logged_with_its_name_and_the_reason(cluster: Cluster) -> Result<()> {
    let lines = LogLines::listen();
    let children = declare().child(held).build()?;
    let running = cluster.run([builder("log-slots").handler(children.handler(async || {})).build()?]).await?;
    let mut config = config("a", "1");
    config.metadata.namespace = None;
    cluster.create(&config).await?;
    let parts = ["INFO", "log-slots", "there is no key yet", "slot=\"held\"", "state=\"held\""];
    lines.wait_for(&parts).await;
    running.stop().await
}
