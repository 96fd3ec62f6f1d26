//! The client of a dry run.

use std::sync::Arc;

use http::header::UPGRADE;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::Rehearsal;
use super::answer::Answer;
use super::request::{Form, Target, parameter};

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnsentError {
    #[error("{method} {path} was not sent: this is a dry run, and what it does cannot be tried without doing it")]
    Action { method: Method, path: String },
    #[error("{method} {path} was not sent: this is a dry run, and its body is neither JSON nor empty")]
    Body { method: Method, path: String },
}

/// A client through which nothing is changed.
pub(super) fn client(client: Client, rehearsal: Arc<Rehearsal>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, rehearsal) = (client.clone(), rehearsal.clone());
        async move { rehearsal.answer(&client, request).await }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

impl Rehearsal {
    async fn answer(&self, client: &Client, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
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
                    return Ok(client.send(request).await?);
                }
                self.read(client, request, &target, form).await
            }
            ("GET" | "HEAD" | "OPTIONS", _) => Ok(client.send(request).await?),
            ("POST" | "PUT" | "PATCH" | "DELETE", Some(target)) => self.write(client, request, target).await,
            _ => Err(UnsentError::Action { method, path }.into()),
        }
    }

    async fn read(
        &self,
        client: &Client,
        request: Request<Body>,
        target: &Target,
        form: Form,
    ) -> Result<Response<Body>, BoxError> {
        let uri = request.uri().clone();
        let response = client.send(request).await?;
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
