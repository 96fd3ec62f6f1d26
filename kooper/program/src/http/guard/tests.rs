use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server that knows the tokens `reader`, `person` and `other`. It lets the first one read `/metrics`, and the
/// second one `/status`.
#[derive(Clone, Default)]
struct Server {
    /// The requests so far.
    requests: Arc<AtomicUsize>,
    down: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
    running: Arc<AtomicUsize>,
    /// The most requests that were running at the same time.
    most: Arc<AtomicUsize>,
}

/// A request that is running.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    fn guard(&self) -> Arc<Guard> {
        self.guard_for(None)
    }

    fn guard_for(&self, audience: Option<&str>) -> Arc<Guard> {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Arc::new(Guard::new(Client::new(service, "default"), audience.map(str::to_owned)))
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(before + 1, Ordering::Relaxed);
        let _running = Running(self.running.clone());
        if self.silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.down.load(Ordering::Relaxed) {
            return Err("connection refused".into());
        }
        let path = request.uri().path().to_owned();
        let mut review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
        review["status"] = match path.rsplit('/').next() {
            Some("tokenreviews") => {
                let token = review["spec"]["token"].as_str().unwrap_or_default();
                let known = ["reader", "person", "other"].contains(&token);
                let user = json!({"username": token, "groups": ["system:authenticated"], "extra": {"pod": ["a"]}});
                let audiences = match token {
                    "person" => review["spec"]["audiences"].clone(),
                    _ => json!(["the server"]),
                };
                json!({"authenticated": known, "user": if known { user } else { json!({}) }, "audiences": audiences})
            }
            _ => {
                let spec = &review["spec"];
                assert_eq!(spec["groups"], json!(["system:authenticated"]));
                assert_eq!(spec["extra"], json!({"pod": ["a"]}));
                let what = |path: &str| json!({"path": path, "verb": "get"});
                let allowed = match spec["user"].as_str() {
                    Some("reader") => what("/metrics"),
                    Some("person") => what("/status"),
                    _ => Value::Null,
                };
                json!({"allowed": spec["nonResourceAttributes"] == allowed})
            }
        };
        Ok(Response::new(Body::from(review.to_string().into_bytes())))
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// One of some sources.
fn source(at: u8) -> Source {
    Source::of([10, 0, 0, at].into())
}

/// The status for a client with this header.
async fn status(guard: &Arc<Guard>, header: Option<&str>) -> u16 {
    status_of(guard, header, source(0)).await
}

async fn status_of(guard: &Arc<Guard>, header: Option<&str>, source: Source) -> u16 {
    let mut headers = HeaderMap::new();
    if let Some(header) = header {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(header).expect("a header"));
    }
    let checked = guard.check(&Method::GET, Page::Metrics, &headers, source).await;
    checked.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
}

#[tokio::test(start_paused = true)]
async fn only_a_client_with_a_valid_token_and_the_permission_is_served() {
    let guard = Server::default().guard();
    for (header, expected) in [
        (None, 401),
        (Some(""), 401),
        (Some("Bearer"), 401),
        (Some("Bearer "), 401),
        (Some("Basic cmVhZGVy"), 401),
        (Some("reader"), 401),
        (Some("Bearer nonsense"), 401),
        (Some("Bearer other"), 403),
        (Some("Bearer reader"), 200),
        (Some("bearer   reader "), 200),
    ] {
        assert_eq!(status(&guard, header).await, expected, "{header:?}");
    }
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer reader"))]);
    let refused = guard.check(&Method::HEAD, Page::Metrics, &headers, source(0)).await.expect_err("another verb");
    assert_eq!(
        refused.text,
        "the user `reader` may not head /metrics: bind it to a ClusterRole with `head` for the nonResourceURL /metrics\n"
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_page_has_a_permission_of_its_own_and_takes_the_token_as_a_password() {
    let server = Server::default();
    let guard = server.guard();
    let encoded = |pair: &str| serde_json::to_value(ByteString(pair.as_bytes().to_vec())).expect("a value");
    let basic = |pair: &str| format!("Basic {}", encoded(pair).as_str().expect("a string"));
    for (header, expected) in [
        ("Bearer person".to_owned(), 200),
        (basic("any:person"), 200),
        (basic(":person"), 200),
        (basic("any:reader"), 403),
        (basic("any:nonsense"), 401),
        (basic("person:"), 401),
        (basic("person"), 401),
        ("Basic person".to_owned(), 401),
        ("Basic ####".to_owned(), 401),
        ("Basic /w==".to_owned(), 401),
    ] {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&header).expect("a header"))]);
        for page in [Page::Status, Page::StatusStyle, Page::StatusScript] {
            let checked = guard.check(&Method::GET, page, &headers, source(0)).await;
            assert_eq!(checked.as_ref().map_or_else(|refusal| refusal.status.as_u16(), |()| 200), expected, "{header}");
            let response = checked.err().filter(|refusal| refusal.status == 401).map(AuthError::response);
            let asked = |response: Response<Full<Bytes>>| response.headers().get_all(WWW_AUTHENTICATE).iter().count();
            assert!(response.is_none_or(|response| asked(response) == 2), "a browser asks for the password");
        }
        let other = guard.check(&Method::GET, Page::Metrics, &headers, source(0)).await;
        assert!(other.is_err_and(|refusal| refusal.status != 401 || !refusal.asks), "{header}");
    }
    assert_eq!(server.requests(), 7, "the three paths have one permission");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_reviewed_again_when_its_verdict_has_expired() {
    let server = Server::default();
    let guard = server.guard();
    for _ in 0..3 {
        assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    }
    assert_eq!(server.requests(), 2, "a token and its access are reviewed once");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    assert_eq!(server.requests(), 4);
    for _ in 0..3 {
        assert_eq!(status(&guard, Some("Bearer nonsense")).await, 401);
    }
    assert_eq!(server.requests(), 5);
    assert_eq!(status(&guard, None).await, 401);
    assert_eq!(server.requests(), 5, "there is nothing to review");
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_verdicts_are_valid_until_they_expire() {
    let server = Server::default();
    let guard = server.guard();
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    server.down.store(true, Ordering::Relaxed);
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    assert_eq!(status(&guard, Some("Bearer other")).await, 503);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(status(&guard, Some("Bearer reader")).await, 503, "it is not served forever");
    server.down.store(false, Ordering::Relaxed);
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200, "an error is not remembered");
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_holds_up_some_clients_for_five_seconds_and_the_others_not_at_all() {
    let server = Server::default();
    let guard = server.guard();
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    tokio::time::advance(PACE).await;
    server.silent.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let many = (0..10 * REVIEWS).map(|n| {
        let guard = guard.clone();
        tokio::spawn(async move {
            let from = source(u8::try_from(n).expect("a few"));
            (status_of(&guard, Some(&format!("Bearer {n}")), from).await, began.elapsed())
        })
    });
    let mut waited = 0;
    for waiting in many.collect::<Vec<_>>() {
        let (status, after) = waiting.await.expect("no panic");
        assert_eq!(status, 503);
        waited += usize::from(!after.is_zero());
    }
    assert_eq!(began.elapsed(), REVIEW);
    assert_eq!((waited, server.most.load(Ordering::Relaxed)), (REVIEWS, REVIEWS), "the number of requests is limited");
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200, "known clients do not wait");
}

#[tokio::test(start_paused = true)]
async fn simultaneous_requests_of_one_client_are_reviewed_once() {
    let server = Server::default();
    let guard = server.guard();
    let many: Vec<_> = (0..100)
        .map(|_| {
            let guard = guard.clone();
            tokio::spawn(async move { status(&guard, Some("Bearer reader")).await })
        })
        .collect();
    for one in many {
        assert_eq!(one.await.expect("no panic"), 200);
    }
    assert_eq!(server.requests(), 2, "a TokenReview and a SubjectAccessReview");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_tokens_of_one_source_is_refused_at_once_and_delays_no_other() {
    let server = Server::default();
    let guard = server.guard();
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200);
    tokio::time::advance(Duration::from_secs(61)).await;
    let (began, before) = (Instant::now(), server.requests());
    // Each of these clients is gone at once.
    let mut refused = 0;
    for n in 0..1000 {
        let answer =
            timeout(Duration::from_millis(1), status_of(&guard, Some(&format!("Bearer {n}")), source(9))).await;
        refused += usize::from(answer == Ok(429));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert!(refused > 900, "{refused}");
    let waiting = Instant::now();
    assert_eq!(status_of(&guard, Some("Bearer other"), source(1)).await, 403, "a new client is reviewed");
    assert_eq!(status(&guard, Some("Bearer reader")).await, 200, "its verdict had expired, and it does not wait");
    assert_eq!(waiting.elapsed(), Duration::ZERO);
    let (reviews, seconds) = (server.requests() - before, began.elapsed().as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    let rate = (reviews - 2 - 2 * REVIEWS_OF_SOURCE) as f64 / seconds;
    assert!(rate < 11.0, "{reviews} in {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_many_sources_reviews_twenty_tokens_a_second() {
    let server = Server::default();
    let guard = server.guard();
    for n in 0..4000_u16 {
        let answer = status_of(&guard, Some(&format!("Bearer {n}")), source(n.to_le_bytes()[0])).await;
        assert!([401, 503].contains(&answer), "{answer}");
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert!((60..=88).contains(&server.requests()), "{} in 4 s", server.requests());
}

#[tokio::test(start_paused = true)]
async fn a_token_for_another_audience_is_not_known() {
    let guard = Server::default().guard_for(Some("metrics"));
    let get = async |token: &'static str, page| {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(token))]);
        guard.check(&Method::GET, page, &headers, source(0)).await.map_err(|refusal| refusal.status.as_u16())
    };
    assert_eq!(get("Bearer person", Page::Status).await, Ok(()), "the server names the audience");
    assert_eq!(get("Bearer reader", Page::Metrics).await, Err(401), "the server names another one");
}
