//! A client that is rebuilt before its credentials expire, or when the server rejects
//! them: kube reads the files of a client certificate once.
//!
//! kube runs an exec plugin again for a new token, but keeps the first client
//! certificate: a connection uses the certificate that its client was built with.
//! It runs the plugin within a request, and discards the token of one that takes
//! longer than the request.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::{Request, Response, StatusCode, Uri};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tower::Service;

use super::ConnectError;
use kooper_runtime::BoxError;

/// New credentials are requested this long before the old ones expire, or when a
/// quarter of their lifetime is left if that is less.
const EARLY: Duration = Duration::from_secs(60);

/// The delay between two attempts, and between two reads of the clock, which may be
/// adjusted.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest time of a request for a new token.
const LONG: Duration = Duration::from_secs(60);

/// An exec plugin that runs for this long is reported, and again after the same time.
const REPORTED: Duration = Duration::from_secs(15);

/// The delay between two requests for a new token.
const PACE: Duration = Duration::from_secs(1);

/// Builds a client with new credentials.
type Build = dyn Fn() -> Result<Client, ConnectError> + Send + Sync;

/// A client that can be replaced while requests are in flight: each request is sent
/// by the client that is current when it begins.
pub(super) struct Renewal {
    current: Arc<Current>,
    /// They are aborted when the client is dropped.
    _tasks: Vec<AbortOnDropHandle<()>>,
}

struct Current {
    client: Mutex<Client>,
    /// The server rejected the credentials.
    rejected: Notify,
    /// A request was cancelled before it had a response.
    cancelled: Notify,
}

/// Notifies when a request is dropped that has no response yet.
struct Unanswered<'a>(Option<&'a Notify>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(cancelled) = self.0 {
            cancelled.notify_one();
        }
    }
}

impl Renewal {
    /// A client that is renewed as long as it is used.
    pub(super) fn client(
        build: impl Fn() -> Result<Client, ConnectError> + Send + Sync + 'static,
        has_plugin: bool,
    ) -> Result<Client, ConnectError> {
        let client = if has_plugin { reporting(REPORTED, report, &build)? } else { build()? };
        let namespace = client.default_namespace().to_owned();
        let (client, rejected, cancelled) = (Mutex::new(client), Notify::new(), Notify::new());
        let current = Arc::new(Current { client, rejected, cancelled });
        let renewing = renew(Arc::clone(&current), Arc::new(build));
        let mut tasks = vec![AbortOnDropHandle::new(tokio::spawn(renewing.boxed()))];
        if has_plugin {
            tasks.push(AbortOnDropHandle::new(tokio::spawn(authorize(Arc::clone(&current)).boxed())));
        }
        Ok(Client::new(Self { current, _tasks: tasks }, namespace))
    }
}

impl Current {
    fn client(&self) -> Client {
        self.client.lock().clone()
    }
}

impl Service<Request<Body>> for Renewal {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let current = Arc::clone(&self.current);
        Box::pin(async move {
            let mut unanswered = Unanswered(Some(&current.cancelled));
            let answer = current.client().send(request).await;
            unanswered.0 = None;
            let answer = answer?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                current.rejected.notify_one();
            }
            Ok(answer)
        })
    }
}

/// Sends a request that may take long after another was cancelled. The elector cancels
/// its requests after seconds: with a plugin that takes longer, none of them would ever
/// have a new token.
async fn authorize(current: Arc<Current>) {
    loop {
        current.cancelled.notified().await;
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_static("/version");
        drop(timeout(LONG, current.client().send(request)).await);
        sleep(PACE).await;
    }
}

/// Replaces the client when its credentials are about to expire or are rejected.
async fn renew(current: Arc<Current>, build: Arc<Build>) {
    let mut built = Timestamp::now();
    loop {
        let until = *current.client().valid_until();
        let due = until.is_some_and(|until| is_due(built, until, Timestamp::now()));
        if !due && timeout(PAUSE, current.rejected.notified()).await.is_err() {
            continue;
        }
        let again = Arc::clone(&build);
        // A plugin may run for a long time. Another attempt would start another process, which would hang as well.
        match tokio::task::spawn_blocking(move || reporting(REPORTED, report, || again())).await {
            Ok(Ok(client)) => {
                *current.client.lock() = client;
                built = Timestamp::now();
                tracing::info!("the credentials of the kubeconfig have been loaded again");
            }
            Ok(Err(error)) => tracing::warn!("the credentials of the kubeconfig could not be loaded again: {error}"),
            Err(error) => tracing::warn!("the credentials of the kubeconfig could not be loaded again: {error}"),
        }
        sleep(PAUSE).await;
    }
}

/// Builds something on this thread, and reports at this interval that it has not ended.
fn reporting<T>(every: Duration, report: impl Fn(Duration) + Send + 'static, build: impl FnOnce() -> T) -> T {
    let (running, ended) = mpsc::channel::<()>();
    let started = Instant::now();
    let reports = move || {
        while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            report(started.elapsed());
        }
    };
    // Without a thread, there is no report.
    drop(thread::Builder::new().name("kooper-plugin".into()).spawn(reports));
    let built = build();
    drop(running);
    built
}

fn report(lasts: Duration) {
    tracing::warn!(
        "the credentials of the kubeconfig have been loading for {} s: end the exec plugin if it hangs",
        lasts.as_secs()
    );
}

/// Returns `true` if credentials that were created at `built` and expire at `until` are
/// due for renewal.
fn is_due(built: Timestamp, until: Timestamp, now: Timestamp) -> bool {
    let span = |from: Timestamp, to: Timestamp| Duration::try_from(to.duration_since(from)).unwrap_or_default();
    span(now, until) <= EARLY.min(span(built, until) / 4)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Builds clients that respond with this code, and counts them.
    fn builder(
        code: impl Fn(usize) -> StatusCode + Send + Sync + 'static,
        until: impl Fn(usize) -> Option<Timestamp> + Send + Sync + 'static,
    ) -> (Arc<AtomicUsize>, impl Fn() -> Result<Client, ConnectError> + Send + Sync + 'static) {
        let built = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&built);
        let build = move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let code = code(number);
            let answer = tower::service_fn(move |_: Request<Body>| async move {
                let answer = Response::builder().status(code).body(Body::from(b"{}".to_vec()));
                answer.map_err(BoxError::from)
            });
            Ok(Client::new(answer, "here").with_valid_until(until(number)))
        };
        (built, build)
    }

    async fn code(client: &Client) -> StatusCode {
        let request = Request::get("http://localhost/").body(Body::from(Vec::new())).unwrap();
        client.send(request).await.unwrap().status()
    }

    async fn eventually(what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(3600), wait).await.expect(what);
    }

    #[test]
    fn credentials_are_renewed_a_minute_before_they_expire_and_short_ones_after_three_quarters() {
        for (until, now, due) in
            [(3600, 3539, false), (3600, 3540, true), (3600, 4000, true), (80, 59, false), (80, 60, true)]
        {
            assert_eq!(is_due(at(0), at(until), at(now)), due, "{until} at {now}");
        }
    }

    #[test]
    fn a_plugin_is_reported_while_it_runs() {
        let (reports, reported) = mpsc::channel();
        let report = move |lasts: Duration| {
            let _ = reports.send(lasts);
        };
        let every = Duration::from_millis(1);
        // It runs until it is reported.
        let lasts = reporting(every, report, || reported.recv()).expect("a report");
        assert!(lasts >= every, "{lasts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_replaced_before_its_credentials_expire() {
        let (built, build) = builder(
            |number| if number == 0 { StatusCode::OK } else { StatusCode::ACCEPTED },
            |number| (number == 0).then(Timestamp::now),
        );
        let client = Renewal::client(build, true).unwrap();
        assert_eq!(client.default_namespace(), "here");
        eventually("it is rebuilt", || built.load(Ordering::Relaxed) == 2).await;
        sleep(PAUSE).await;
        assert_eq!(code(&client).await, StatusCode::ACCEPTED);
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(built.load(Ordering::Relaxed), 2, "credentials that do not expire are kept");
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_the_server_rejects_are_renewed() {
        let (built, build) =
            builder(|number| if number == 0 { StatusCode::UNAUTHORIZED } else { StatusCode::OK }, |_| None);
        let client = Renewal::client(build, true).unwrap();
        assert_eq!(code(&client).await, StatusCode::UNAUTHORIZED);
        eventually("it is rebuilt", || built.load(Ordering::Relaxed) == 2).await;
        sleep(PAUSE).await;
        assert_eq!(code(&client).await, StatusCode::OK);
    }

    /// A client as that of kube, whose exec plugin takes six seconds.
    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_takes_longer_than_requests_may_take_renews_the_token() {
        let renewed = Arc::new(tokio::sync::Mutex::new(false));
        let build = move || {
            let renewed = Arc::clone(&renewed);
            let answer = tower::service_fn(move |_: Request<Body>| {
                let renewed = Arc::clone(&renewed);
                async move {
                    let mut renewed = renewed.lock().await;
                    if !*renewed {
                        sleep(Duration::from_secs(6)).await;
                        *renewed = true;
                    }
                    Ok::<_, BoxError>(Response::new(Body::empty()))
                }
            });
            Ok(Client::new(answer, "here"))
        };
        let client = Renewal::client(build, true).unwrap();
        let mut cancelled = 0;
        while timeout(Duration::from_secs(5), code(&client)).await.is_err() {
            cancelled += 1;
            assert!(cancelled < 5, "the token is not renewed");
        }
        assert!(cancelled > 0, "the plugin takes longer than a request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_fails_is_retried_as_long_as_the_client_is_used() {
        let tries = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tries);
        let (_, first) = builder(|_| StatusCode::OK, |_| Some(Timestamp::now()));
        let build = move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => first(),
            _ => Err(ConnectError::ContextInPod),
        };
        let client = Renewal::client(build, true).unwrap();
        eventually("it is retried", || tries.load(Ordering::Relaxed) > 3).await;
        assert_eq!(code(&client).await, StatusCode::OK, "the last client stays in use");
        drop(client);
        sleep(PAUSE * 3).await;
        let tried = tries.load(Ordering::Relaxed);
        sleep(PAUSE * 10).await;
        assert_eq!(tries.load(Ordering::Relaxed), tried);
    }
}
