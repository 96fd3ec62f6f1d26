//! Authentication and authorization of clients, as Kubernetes' own components do it:
//! the API server reviews a client's token, and whether its user may read the path.

#[cfg(test)]
mod tests;
mod verdicts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::pages::{Page, text_response};
use crate::error::chain;
use verdicts::{Question, Verdict, Verdicts};

/// How long the API server may take to answer both reviews.
const REVIEW: Duration = Duration::from_secs(5);

/// How many clients are reviewed at the same time.
const REVIEWS: usize = 8;

/// How long the review of an unknown client keeps others from being reviewed, at least: there are twenty a second.
const PACE: Duration = Duration::from_millis(400);

/// How often an error of reviews is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Reviews clients by their tokens, and remembers the verdicts for a while.
pub(crate) struct Guard {
    client: Client,
    verdicts: Mutex<Verdicts>,
    /// For clients that are not known: anyone can send any number of tokens.
    reviews: Arc<Semaphore>,
    /// For clients that were allowed before.
    renewals: Arc<Semaphore>,
    logged: Mutex<Option<Instant>>,
}

/// Why a client gets no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
    /// Whether a browser may ask its user for the token.
    pub(super) asks: bool,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("{what} cannot be created: {}", chain(error))]
    Request { what: &'static str, error: kube::Error },
    #[error("the API server did not respond within {} s", REVIEW.as_secs())]
    Timeout,
}

impl Guard {
    pub(crate) fn new(client: Client) -> Self {
        let limit = || Arc::new(Semaphore::new(REVIEWS));
        Self { client, verdicts: Mutex::default(), reviews: limit(), renewals: limit(), logged: Mutex::default() }
    }

    /// Whether a client may read a page.
    pub(super) async fn check(&self, method: &Method, page: Page, headers: &HeaderMap) -> Result<(), Refusal> {
        let asks = page.is_for_people();
        let Some(token) = token(headers, asks) else {
            let password = if asks { ", or as the password of any user name" } else { "" };
            let text =
                format!("write a token of the cluster into the header `Authorization: Bearer TOKEN`{password}\n");
            return Err(Refusal { status: StatusCode::UNAUTHORIZED, text, asks });
        };
        let question = Question { token, verb: method.as_str().to_lowercase(), path: page.permission().to_owned() };
        match self.verdict(&question).await {
            Ok(verdict) => verdict.answer(&question, asks),
            Err(error) => {
                self.log(&error);
                let text = "the API server cannot review the token at present: try again later\n".to_owned();
                Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, text, asks })
            }
        }
    }

    async fn verdict(&self, question: &Question) -> Result<Verdict, ReviewError> {
        if let Some(known) = self.known(question) {
            return Ok(known);
        }
        let renews = self.verdicts().was_allowed(question);
        let review = async {
            // It is never closed.
            let permit =
                Arc::new(Arc::clone(if renews { &self.renewals } else { &self.reviews }).acquire_owned().await);
            // A client that waits may learn of the verdict for another request.
            if let Some(known) = self.known(question) {
                return Ok(known);
            }
            if !renews {
                // It is held even if the client is gone.
                let held = Arc::clone(&permit);
                tokio::spawn(async move {
                    sleep(PACE).await;
                    drop(held);
                });
            }
            self.review(question).await
        };
        let verdict = timeout(REVIEW, review).await.map_err(|_| ReviewError::Timeout)??;
        self.verdicts().remember(question.clone(), verdict.clone(), Instant::now());
        Ok(verdict)
    }

    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, question: &Question) -> Option<Verdict> {
        self.verdicts().find(question, Instant::now())
    }

    async fn review(&self, question: &Question) -> Result<Verdict, ReviewError> {
        let spec = TokenReviewSpec { token: question.token.clone(), ..Default::default() };
        let review = TokenReview { spec, ..Default::default() };
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let failed = |what| move |error| ReviewError::Request { what, error };
        let reviewed = tokens.create(&PostParams::default(), &review).await.map_err(failed("a TokenReview"))?;
        let status = reviewed.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let Some(user) = user else { return Ok(Verdict::Unknown) };
        let name = user.username.clone().unwrap_or_default();

        let review = SubjectAccessReview { spec: access(question, user), ..Default::default() };
        let accesses: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let failed = failed("a SubjectAccessReview");
        let reviewed = accesses.create(&PostParams::default(), &review).await.map_err(failed)?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden { user: name } })
    }

    /// Logs an error, unless one was logged a short time ago: every scrape has it.
    fn log(&self, error: &ReviewError) {
        let now = Instant::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_some_and(|last| now.saturating_duration_since(last) < LOG_EVERY) {
            return;
        }
        *logged = Some(now);
        drop(logged);
        match error {
            ReviewError::Request { error: kube::Error::Api(status), .. } if status.code == 403 => tracing::warn!(
                "the tokens of clients cannot be reviewed: {error}; apply the roles that `rbac --metrics-auth token` prints"
            ),
            _ => tracing::warn!("the tokens of clients cannot be reviewed: {error}"),
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Refusal {
    pub(super) fn response(self) -> Response<Full<Bytes>> {
        let mut response = text_response(self.status, self.text);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            if self.asks {
                let basic = HeaderValue::from_static("Basic realm=\"a token of the cluster as the password\"");
                response.headers_mut().append(WWW_AUTHENTICATE, basic);
            }
        }
        response
    }
}

impl Verdict {
    fn answer(self, question: &Question, asks: bool) -> Result<(), Refusal> {
        match self {
            Self::Allowed => Ok(()),
            Self::Unknown => Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                text: "the API server does not know this token, or it has expired\n".to_owned(),
                asks,
            }),
            Self::Forbidden { user } => {
                let Question { verb, path, .. } = question;
                let text = format!(
                    "the user `{user}` may not {verb} {path}: bind it to a ClusterRole with `{verb}` for the \
                     nonResourceURL {path}\n"
                );
                Err(Refusal { status: StatusCode::FORBIDDEN, text, asks })
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

fn access(question: &Question, user: UserInfo) -> SubjectAccessReviewSpec {
    let what = NonResourceAttributes { path: Some(question.path.clone()), verb: Some(question.verb.clone()) };
    SubjectAccessReviewSpec {
        user: user.username,
        groups: user.groups,
        uid: user.uid,
        extra: user.extra,
        non_resource_attributes: Some(what),
        ..Default::default()
    }
}
