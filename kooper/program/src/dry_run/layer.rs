//! The layer of a dry run's client.

use std::sync::Arc;

use http::header::UPGRADE;
use http::{Method, Request, Response};
use kube::client::Body;
use tower::{BoxError, ServiceExt};

use super::DryRun;
use super::answer::Answer;
use super::request::{Form, Target, parameter};
use kooper_runtime::internal::client::{Next, RequestLayer, ResponseBody, from_fn};

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsentError {
    #[error("{method} {path} was not sent: this is a dry run, and the API server supports none for this request")]
    Action { method: Method, path: String },
    #[error("{method} {path} was not sent: this is a dry run, and its body is neither JSON nor empty")]
    Body { method: Method, path: String },
}

impl DryRun {
    /// A layer through which nothing is changed.
    pub(crate) fn layer(self: &Arc<Self>) -> RequestLayer {
        let dry_run = self.clone();
        from_fn(move |request, next| {
            let dry_run = dry_run.clone();
            async move { dry_run.answer(&next, request).await }
        })
    }

    async fn answer(&self, next: &Next, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let target = Target::of(&path);
        if request.headers().contains_key(UPGRADE) || target.as_ref().is_some_and(Target::is_action) {
            return Err(UnsentError::Action { method, path }.into());
        }
        match (method.as_str(), target) {
            ("GET" | "HEAD", Some(target)) if target.is_object() => {
                let form = Form::accept_json(request.headers_mut());
                let watches = ["1", "true"].map(str::to_owned).map(Some);
                let changes_nothing = watches.contains(&parameter(request.uri(), "watch"));
                if changes_nothing || form == Form::Other {
                    return next.clone().oneshot(request).await;
                }
                self.read(next, request, &target, form).await
            }
            ("GET" | "HEAD" | "OPTIONS", _) => next.clone().oneshot(request).await,
            ("POST" | "PUT" | "PATCH" | "DELETE", Some(target)) => self.write(next, request, target).await,
            _ => Err(UnsentError::Action { method, path }.into()),
        }
    }

    async fn read(
        &self,
        next: &Next,
        request: Request<Body>,
        target: &Target,
        form: Form,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let uri = request.uri().clone();
        let response = next.clone().oneshot(request).await?;
        let code = response.status().as_u16();
        if !(response.status().is_success() || code == 404) {
            return Ok(response);
        }
        let Some(name) = &target.name else {
            if !self.concerns(target) {
                return Ok(response);
            }
            return Ok(self.read_list(target, &uri, form, Answer::read(response).await?).into_response());
        };
        if self.entry(&target.id(name)).is_none() {
            return Ok(response);
        }
        Ok(self.read_one(target, form, Answer::read(response).await?).into_response())
    }
}
