use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kooper_runtime::metrics::{Counter, MetricsError, ReadGauge};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// Counts the dropped Events.
#[derive(Default)]
struct Dropped(AtomicUsize);

impl MetricsRecorder for Dropped {
    fn inc_event_queued(&self, _: &str, _: bool) {}
    fn observe_in_queue_duration(&self, _: &str, _: Duration) {}
    fn observe_processing_duration(&self, _: &str, _: bool, _: Duration) {}
    fn register_queue_length(&self, _: &str, _: ReadGauge) -> Result<(), MetricsError> {
        Ok(())
    }
    fn count(&self, _: &str, counter: Counter) {
        assert_eq!(counter, Counter::EventDropped);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server that responds with these codes, then with 200, and keeps the requests.
#[derive(Clone, Default)]
struct Server {
    codes: Arc<Mutex<Vec<u16>>>,
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    /// A webhook rejects the requests.
    denies: bool,
}

impl Server {
    fn answering(codes: &[u16]) -> Self {
        Self { codes: Arc::new(Mutex::new(codes.iter().rev().copied().collect())), ..Self::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let sent: Value = serde_json::from_slice(&body)?;
                server.asked.lock().push((head.method, head.uri.path().to_owned(), sent.clone()));
                let code = server.codes.lock().pop().unwrap_or(200);
                let message =
                    if server.denies { "admission webhook \"a.io\" denied the request: frozen" } else { "no" };
                let answer = match code {
                    200 => json!({"metadata": {"name": "event"}, "eventTime": "2026-01-01T00:00:00.000000Z"}),
                    404 => {
                        let details = json!({"name": "bank", "kind": "namespaces"});
                        json!({"kind": "Status", "code": 404, "message": message, "reason": "No", "details": details})
                    }
                    code => json!({"kind": "Status", "code": code, "message": message, "reason": "No"}),
                };
                let answer = Body::from(serde_json::to_vec(&answer)?);
                Ok::<_, kooper_runtime::BoxError>(Response::builder().status(StatusCode::from_u16(code)?).body(answer)?)
            }
        });
        Client::new(service, "default")
    }

    fn asked(&self) -> Vec<(Method, String, Value)> {
        self.asked.lock().clone()
    }
}

fn sink(server: &Server) -> (EventSink, Arc<Dropped>) {
    let dropped = Arc::new(Dropped::default());
    let sink = EventSink::start(Some(server.client()), "shop", &"web".into(), "host_1", dropped.clone());
    (sink, dropped)
}

fn note(name: &str, message: &str) -> Note {
    let text = |text: &str| Some(text.to_owned());
    let regarding = ObjectReference { name: text(name), namespace: text("bank"), ..ObjectReference::default() };
    let mut note = Note::warning(regarding, "Synced", "Sync", message);
    note.warning = false;
    note
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn equal_events_are_written_once_and_then_counted() {
    let server = Server::default();
    let (sink, _) = sink(&server);
    for _ in 0..3 {
        sink.publish(note("one", "all is well"));
    }
    sink.drain(LONG).await;
    let asked = server.asked();
    let [(Method::POST, path, event), (Method::PATCH, again, series)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/bank/events");
    assert_eq!((&event["reportingController"], &event["note"]), (&json!("shop/web"), &json!("all is well")));
    assert_eq!(*again, format!("{path}/{}", event["metadata"]["name"].as_str().unwrap()));
    assert_eq!(series["series"]["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_temporary_error_is_retried_and_a_permanent_one_drops_the_event() {
    let server = Server::answering(&[503, 429, 200, 403]);
    let (sink, dropped) = sink(&server);
    sink.publish(note("one", "first"));
    sink.drain(LONG).await;
    assert_eq!((server.asked().len(), dropped.0.load(Ordering::Relaxed)), (3, 0));
    sink.publish(note("one", "second"));
    sink.drain(LONG).await;
    assert_eq!((server.asked().len(), dropped.0.load(Ordering::Relaxed)), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_written_again() {
    let server = Server::answering(&[200, 404]);
    let (sink, dropped) = sink(&server);
    sink.publish(note("one", "first"));
    sink.drain(LONG).await;
    sink.publish(note("one", "first"));
    sink.drain(LONG).await;
    let methods: Vec<_> = server.asked().into_iter().map(|(method, ..)| method).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::POST]);
    assert_eq!(dropped.0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_by_a_webhook_drops_the_event_whatever_its_code() {
    for (codes, publishes, lasts) in
        [(&[200, 404][..], 2, false), (&[200, 404], 2, true), (&[503, 409], 1, false), (&[409], 1, true)]
    {
        let server = Server { denies: true, ..Server::answering(codes) };
        let (sink, dropped) = sink(&server);
        for _ in 0..publishes {
            let mut note = note("one", "first");
            note.warning = lasts;
            if lasts {
                sink.report(note);
            } else {
                sink.publish(note);
            }
            sink.drain(LONG).await;
        }
        assert_eq!((server.asked().len(), dropped.0.load(Ordering::Relaxed)), (codes.len(), 1), "{codes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_limit_of_an_object_are_counted_and_it_is_named() {
    let server = Server::default();
    let (sink, dropped) = sink(&server);
    for n in 0..27 {
        sink.publish(note("one", &n.to_string()));
    }
    sink.drain(LONG).await;
    assert_eq!((server.asked().len(), dropped.0.load(Ordering::Relaxed)), (25, 2));
    let mut regarding = note("one", "").regarding;
    regarding.kind = Some("Shop".to_owned());
    let text = write::too_many(&regarding);
    assert!(text.starts_with("too many Kubernetes Events on the Shop `bank/one`: at most 25 at once"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_lost_with_its_namespace_is_neither_counted_nor_logged() {
    let server = Server::answering(&[404, 403]);
    let (sink, dropped) = sink(&server);
    let logged = || sink.inner.as_ref().map(|inner| inner.drops.logged.lock().len());
    for (message, drops) in [("first", 0), ("second", 1)] {
        sink.publish(note("one", message));
        sink.drain(LONG).await;
        assert_eq!((logged(), dropped.0.load(Ordering::Relaxed)), (Some(drops), drops), "{message}");
    }
}

#[test]
fn recording_works_without_a_runtime_and_dropped_events_are_counted() {
    let server = Server::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    // Only the client is made on the runtime.
    let (sink, dropped) = runtime.block_on(async { sink(&server) });
    for n in 0..WAITING + 7 {
        sink.publish(note(&n.to_string(), "hello"));
    }
    assert_eq!(dropped.0.load(Ordering::Relaxed), 7);
    runtime.block_on(async {
        // Publishing on a runtime starts the task; this note is itself one too many.
        sink.publish(note("last", "hello"));
        sink.drain(LONG).await;
    });
    assert_eq!(server.asked().len(), WAITING);
    EventSink::default().publish(note("one", "without an API server"));
}
