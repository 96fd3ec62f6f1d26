//! Authentication and authorization of clients, as Kubernetes' own components do it:
//! the API server reviews a client's token, and whether its user may read the path.

#[cfg(test)]
mod tests;
mod verdicts;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Client;
use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until, timeout};

use super::pages::{Page, later, text_response};
use kooper_runtime::internal::controller::review::review;
use kooper_runtime::internal::error::chain;
use kooper_serving::{Limits, Source};
use verdicts::{AccessRequest, Digest, Key, Verdict, Verdicts};

/// Maximum time for the API server to respond to both reviews.
const REVIEW: Duration = Duration::from_secs(5);

/// Maximum number of clients that are reviewed at the same time, in total and of one source.
const REVIEWS: usize = 8;
const REVIEWS_OF_SOURCE: usize = 4;

/// Minimum time that the review of an unknown client counts toward these limits, which allows
/// twenty a second, and ten of one source.
const PACE: Duration = Duration::from_millis(400);

/// Minimum time between two log lines about failed reviews.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Reviews clients by their tokens, and remembers the verdicts for a while.
pub(crate) struct Guard {
    client: Client,
    /// For whom a token has to be made; `None` for the API server.
    audience: Option<String>,
    key: Key,
    verdicts: Mutex<Verdicts>,
    /// The reviews that run: requests with the same token wait for the same one.
    running: Mutex<HashMap<Digest, Review>>,
    /// For clients that are not known: anyone can send any number of tokens. Who is over a limit is refused at once.
    reviews: Arc<Semaphore>,
    sources: Arc<Limits>,
    /// For clients that were allowed before: they wait.
    renewals: Arc<Semaphore>,
    logged: Mutex<Option<Instant>>,
}

/// A review that runs by itself, whether or not someone waits for it.
type Review = Shared<BoxFuture<'static, Result<Verdict, Arc<ReviewError>>>>;

/// Why a client gets no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthError {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// `true` if a browser may ask its user for the token.
    pub(super) asks: bool,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("{what} cannot be created: {}", chain(error))]
    Request { what: &'static str, error: kube::Error },
    #[error("the API server did not respond within {} s", REVIEW.as_secs())]
    Timeout,
    #[error("the review panicked: {0}")]
    Panicked(JoinError),
    #[error("too many unknown tokens are being reviewed")]
    TooMany,
    #[error("too many unknown tokens from this address are being reviewed")]
    TooManyOfSource,
}

impl Guard {
    pub(crate) fn new(client: Client, audience: Option<String>) -> Self {
        let limit = || Arc::new(Semaphore::new(REVIEWS));
        Self {
            client,
            audience,
            key: Key::default(),
            verdicts: Mutex::default(),
            running: Mutex::default(),
            reviews: limit(),
            sources: Limits::new(REVIEWS_OF_SOURCE),
            renewals: limit(),
            logged: Mutex::default(),
        }
    }

    /// Returns an error unless the client may read the page.
    pub(super) async fn check(
        self: &Arc<Self>,
        method: &Method,
        page: Page,
        headers: &HeaderMap,
        source: Source,
    ) -> Result<(), AuthError> {
        let asks = page.is_for_people();
        let Some(token) = token(headers, asks) else {
            let password = if asks { ", or as the password of any user name" } else { "" };
            let text = format!("send a token of the cluster in the header `Authorization: Bearer TOKEN`{password}\n");
            return Err(AuthError { status: StatusCode::UNAUTHORIZED, text, asks });
        };
        let question =
            AccessRequest { token, verb: method.as_str().to_lowercase(), path: page.permission().to_owned() };
        let (verb, path) = (question.verb.clone(), question.path.clone());
        match self.verdict(question, source).await {
            Ok(verdict) => verdict.answer(&verb, &path, asks),
            Err(error) => {
                let (status, text) = match &*error {
                    ReviewError::TooMany => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}: try again later\n")),
                    ReviewError::TooManyOfSource => {
                        (StatusCode::TOO_MANY_REQUESTS, format!("{error}: try again later\n"))
                    }
                    ReviewError::Request { .. } | ReviewError::Timeout | ReviewError::Panicked(_) => {
                        self.log(&error);
                        let text = "the API server cannot review the token at present: try again later\n".to_owned();
                        (StatusCode::SERVICE_UNAVAILABLE, text)
                    }
                };
                Err(AuthError { status, text, asks })
            }
        }
    }

    async fn verdict(self: &Arc<Self>, question: AccessRequest, source: Source) -> Result<Verdict, Arc<ReviewError>> {
        let digest = self.key.digest(&question);
        let review = {
            let mut running = self.running.lock();
            if let Some(known) = self.verdicts().find(digest, Instant::now()) {
                return Ok(known);
            }
            match running.get(&digest) {
                Some(review) => review.clone(),
                None => {
                    let review = self.begin(question, digest, source)?;
                    running.insert(digest, review.clone());
                    review
                }
            }
        };
        review.await
    }

    /// Begins a review, which ends even if the client is gone.
    fn begin(self: &Arc<Self>, question: AccessRequest, digest: Digest, source: Source) -> Result<Review, ReviewError> {
        let permits = if self.verdicts().was_allowed(digest) {
            None
        } else {
            let of_source = self.sources.begin(source).ok_or(ReviewError::TooManyOfSource)?;
            let of_all = Arc::clone(&self.reviews).try_acquire_owned().map_err(|_| ReviewError::TooMany)?;
            Some((of_source, of_all))
        };
        let (guard, began) = (Arc::clone(self), Instant::now());
        let review = tokio::spawn(async move {
            let review = async {
                // It is never closed.
                let _permit = if permits.is_none() { guard.renewals.acquire().await.ok() } else { None };
                guard.review(&question).await
            };
            let reviewed = timeout(REVIEW, review).await.unwrap_or(Err(ReviewError::Timeout));
            if let Ok(verdict) = &reviewed {
                guard.verdicts().remember(digest, verdict.clone(), Instant::now());
            }
            guard.running.lock().remove(&digest);
            if let Some(permits) = permits {
                let paced = async move {
                    sleep_until(began + PACE).await;
                    drop(permits);
                };
                tokio::spawn(paced.boxed());
            }
            reviewed.map_err(Arc::new)
        });
        Ok(review
            .map(|ended| ended.unwrap_or_else(|error| Err(Arc::new(ReviewError::Panicked(error)))))
            .boxed()
            .shared())
    }

    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        self.verdicts.lock()
    }

    async fn review(&self, question: &AccessRequest) -> Result<Verdict, ReviewError> {
        let mut spec = json!({"token": question.token});
        if let Some(audience) = &self.audience {
            spec["audiences"] = json!([audience]);
        }
        let failed = |what| move |error| ReviewError::Request { what, error };
        let kind = ApiResource::erase::<TokenReview>(&());
        let reviewed = review(&self.client, &kind, json!({"spec": spec})).await;
        let status = reviewed.map_err(failed("a TokenReview"))?;
        // An API server that does not name the audience does not know of audiences.
        let is_meant = self.audience.as_ref().is_none_or(|audience| {
            status["audiences"].as_array().is_some_and(|known| known.contains(&json!(audience)))
        });
        let user = status["user"].as_object().filter(|_| status["authenticated"] == true && is_meant);
        let Some(user) = user else { return Ok(Verdict::Unknown) };

        let kind = ApiResource::erase::<SubjectAccessReview>(&());
        let reviewed = review(&self.client, &kind, json!({"spec": access(question, user)})).await;
        let status = reviewed.map_err(failed("a SubjectAccessReview"))?;
        if status["allowed"] == true && status["denied"] != true {
            return Ok(Verdict::Allowed);
        }
        let name = user.get("username").and_then(Value::as_str).unwrap_or_default();
        Ok(Verdict::Forbidden { user: name.to_owned() })
    }

    /// Logs an error, unless one was logged a short time ago: every scrape has it.
    fn log(&self, error: &ReviewError) {
        let now = Instant::now();
        let mut logged = self.logged.lock();
        if logged.is_some_and(|last| now.saturating_duration_since(last) < LOG_EVERY) {
            return;
        }
        *logged = Some(now);
        drop(logged);
        match error {
            ReviewError::Request { error: kube::Error::Api(status), .. } if status.code == 403 => tracing::warn!(
                "the tokens of clients cannot be reviewed: {error}; apply the roles that `rbac --metrics-auth token` prints, \
                 or start with `--metrics-auth none` if the program may have no ClusterRole"
            ),
            _ => tracing::warn!("the tokens of clients cannot be reviewed: {error}"),
        }
    }
}

kooper_runtime::internal::debug_fields! { Guard {} }

impl AuthError {
    pub(super) fn response(self) -> Response<Full<Bytes>> {
        let mut response = text_response(self.status, self.text);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            if self.asks {
                let basic = HeaderValue::from_static("Basic realm=\"a token of the cluster as the password\"");
                response.headers_mut().append(WWW_AUTHENTICATE, basic);
            }
        }
        let is_temporary = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&self.status);
        if is_temporary { later(response) } else { response }
    }
}

impl Verdict {
    fn answer(self, verb: &str, path: &str, asks: bool) -> Result<(), AuthError> {
        match self {
            Self::Allowed => Ok(()),
            Self::Unknown => Err(AuthError {
                status: StatusCode::UNAUTHORIZED,
                text: "the API server does not know this token, or it has expired\n".to_owned(),
                asks,
            }),
            Self::Forbidden { user } => {
                let text = format!(
                    "the user `{user}` may not {verb} {path}: bind it to a ClusterRole with `{verb}` for the \
                     nonResourceURL {path}\n"
                );
                Err(AuthError { status: StatusCode::FORBIDDEN, text, asks })
            }
        }
    }
}

/// The token of a client. A browser can only send a password.
fn token(headers: &HeaderMap, password: bool) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = match token.trim() {
        token if scheme.eq_ignore_ascii_case("bearer") => token.to_owned(),
        pair if password && scheme.eq_ignore_ascii_case("basic") => {
            let ByteString(pair) = serde_json::from_value(pair.into()).ok()?;
            String::from_utf8(pair).ok()?.split_once(':')?.1.trim().to_owned()
        }
        _ => return None,
    };
    (!token.is_empty()).then_some(token)
}

/// The fields of a SubjectAccessReview about the user of a TokenReview.
fn access(question: &AccessRequest, user: &Map<String, Value>) -> Value {
    let mut spec = json!({"nonResourceAttributes": {"path": question.path, "verb": question.verb}});
    for (field, of_user) in [("user", "username"), ("groups", "groups"), ("uid", "uid"), ("extra", "extra")] {
        if let Some(value) = user.get(of_user) {
            spec[field] = value.clone();
        }
    }
    spec
}
