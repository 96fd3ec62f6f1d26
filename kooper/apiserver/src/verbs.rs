//! Verbs are code: what each of them does with any kind.

mod binding;
mod body;
mod create;
mod delete;
mod eviction;
mod form;
mod list;
mod media;
mod options;
mod patch;
mod review;
mod scale;
mod token;
mod update;
mod watch;
mod written_part;

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::Value;

pub(crate) use self::delete::{DeleteOptions, remove_object};
use self::form::Form;
pub(crate) use self::media::Media;
pub(crate) use self::options::{FieldValidation, WriteOptions};
pub(crate) use self::update::is_removable;
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::faults::{RequestAttributes, View};
use crate::http::{Answer, Request};
use crate::identity::User;
use crate::kinds::Kind;
use crate::route::Target;
use crate::status::StatusError;
use crate::store::{Draft, Object};
use crate::{defaults, prepare, registry};

/// One request for a resource that is served.
pub(crate) struct Call<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) request: &'a Request,
    pub(crate) user: &'a User,
    pub(crate) kind: Arc<Kind>,
    pub(crate) target: Target,
    /// Form and encoding of the response.
    pub(crate) media: Media,
}

impl Call<'_> {
    /// The name under which the store has the object, if there can be one.
    fn key(&self) -> Result<String, StatusError> {
        let name = self.target.name.as_deref().unwrap_or_default();
        match crate::form::path_segment(name).join(";") {
            wrong if wrong.is_empty() => Ok(self.target.key()),
            wrong => Err(StatusError::bad_request(format!("Name parameter invalid: {name:?}: {wrong}"))),
        }
    }

    /// The attributes of the request for admission: it writes this object with these options.
    fn attributes(&self, operation: Operation, object: &Value, dry_run: bool, options: Value) -> Attributes<'_> {
        let target = &self.target;
        let name = target.name.as_deref().unwrap_or_else(|| crate::meta::text(object, "name"));
        let namespace = target.namespace.as_deref().unwrap_or_default();
        Attributes {
            cluster: self.cluster,
            kind: &self.kind,
            user: self.user,
            operation,
            namespace: if self.kind.is_namespace() { name } else { namespace }.to_owned(),
            name: name.to_owned(),
            subresource: target.subresource.as_deref().unwrap_or_default(),
            dry_run,
            options,
        }
    }

    /// Returns the request's view of the watch cache.
    pub(crate) fn view(&self) -> View {
        self.cluster.faults.view(RequestAttributes::of_resource(self.request, self.user, &self.target))
    }
}

/// Serves a request by its method and by the part of the object that it names.
pub(crate) async fn serve(call: Call<'_>) -> Result<Answer, StatusError> {
    let encoding = call.media.encoding;
    answer(call).await?.encoded(encoding)
}

async fn answer(call: Call<'_>) -> Result<Answer, StatusError> {
    let method = &call.request.method;
    let reading = matches!(*method, Method::GET | Method::HEAD);
    if let Some(name) = call.target.subresource.clone() {
        return subresource(&call, &name).await;
    }
    // Reviews are answered and never stored.
    if review::is_review(&call.kind) {
        return if *method == Method::POST { review::review(&call) } else { Err(StatusError::method_not_allowed()) };
    }
    let verb = crate::route::verb(call.request, &call.target);
    let misplaced = match *method {
        Method::POST => call.target.name.is_some(),
        Method::PUT | Method::PATCH => call.target.name.is_none(),
        _ => false,
    };
    if !call.kind.serves(verb) || misplaced || *method == Method::HEAD {
        return Err(StatusError::method_not_allowed());
    }
    match (call.kind.group.as_str(), call.kind.resource.as_str()) {
        ("", "bindings") => return binding::bind_named(&call),
        ("", "componentstatuses") => return Err(StatusError::not_implemented(&call.kind.resource)),
        // A policy that is bound and not evaluated would let everything pass.
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings")
            if matches!(verb, "create" | "update" | "patch") =>
        {
            let what = format!("writes of {}: it evaluates no policies of admission", call.kind.resource);
            return Err(StatusError::not_implemented(what));
        }
        _ => {}
    }
    match verb {
        "get" => {
            list::wait_for_named(&call).await?;
            get(&call)
        }
        "watch" => watch::watch(&call).await,
        "list" if reading => list::list(&call).await,
        "create" => create::create(&call).await,
        "update" => update::replace(&call).await,
        "patch" => patch::patch(&call).await,
        "delete" => delete::delete(&call).await,
        "deletecollection" => delete::delete_collection(&call).await,
        _ => Err(StatusError::method_not_allowed()),
    }
}

async fn subresource(call: &Call<'_>, name: &str) -> Result<Answer, StatusError> {
    let Some(subresource) = call.kind.subresource(name) else {
        // A custom kind answers for all of its paths.
        let object = call.target.name.as_deref().unwrap_or_default();
        let custom = call.kind.custom.is_some();
        return Err(if custom { StatusError::not_found(&call.kind, object) } else { StatusError::unknown_resource() });
    };
    let verb = crate::route::verb(call.request, &call.target);
    if !subresource.verbs.iter().any(|other| other == verb) {
        return Err(StatusError::method_not_allowed());
    }
    match (name, verb) {
        ("status" | "ephemeralcontainers" | "resize" | "approval" | "finalize", verb) => match verb {
            "get" => get(call),
            "patch" => patch::patch(call).await,
            _ => update::replace(call).await,
        },
        ("scale", "get") => scale::get(call),
        ("scale", "update") => scale::replace(call).await,
        ("scale", "patch") => scale::patch(call).await,
        ("eviction", _) => eviction::evict(call),
        ("binding", _) => binding::bind(call),
        ("token", _) => token::request(call),
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => {
            present(call)?;
            Err(StatusError::bad_request(format!(
                "the embedded API server runs no containers: there is nothing to serve for \"{}/{name}\"",
                call.kind.resource
            )))
        }
        _ => Err(StatusError::not_implemented(format!("the subresource \"{}/{name}\"", call.kind.resource))),
    }
}

fn get(call: &Call<'_>) -> Result<Answer, StatusError> {
    let object = present(call)?;
    Ok(answer_object(call, StatusCode::OK, &object))
}

/// The object that the request names.
pub(super) fn present(call: &Call<'_>) -> Result<Arc<Object>, StatusError> {
    let name = call.target.name.as_deref().unwrap_or_default();
    call.kind.table.get(&call.key()?).ok_or_else(|| StatusError::not_found(&call.kind, name))
}

/// Answers an object of the store in the form that the client accepts.
pub(super) fn answer_object(call: &Call<'_>, status: StatusCode, object: &Object) -> Answer {
    match call.media.form {
        Form::Whole => Answer::bytes(status, form::whole(&call.kind, object)),
        _ => answer_value(call, status, &served(&call.kind, object)),
    }
}

/// Answers an object that the store does not have in this state.
pub(super) fn answer_value(call: &Call<'_>, status: StatusCode, object: &Value) -> Answer {
    match call.media.form.one(&call.kind, object) {
        Ok(answer) => Answer::json(status, &answer),
        Err(refusal) => Answer::from(refusal),
    }
}

/// The answer to a body that was decoded with warnings: what is refused has them, too.
pub(super) fn warned(answer: Result<Answer, StatusError>, warnings: &[String]) -> Answer {
    answer.unwrap_or_else(Answer::from).with_warnings(warnings)
}

/// An object of the store as this version serves it.
pub(super) fn served(kind: &Kind, object: &Object) -> Value {
    serde_json::from_slice(&form::whole(kind, object)).unwrap_or_default()
}

/// An object as the store keeps it.
pub(crate) fn draft(kind: &Kind, object: &Value) -> Draft {
    if let Some((info, conversion)) = &kind.stored {
        let mut stored = object.clone();
        conversion.store(&mut stored);
        defaults::fill(info, &mut stored);
        return Draft::new(&stored, registry::builtin_traits(info, &stored));
    }
    match &kind.custom {
        Some(definition) if definition.storage_version != kind.version => {
            Draft::new(&form::stored(kind, object), registry::traits(kind, object))
        }
        _ => Draft::new(&prepare::shown(kind, object), registry::traits(kind, object)),
    }
}
