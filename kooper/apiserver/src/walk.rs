//! The walk of a request: identity, route, faults, permission, verb, consequences, answer.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, Request as HttpRequest, Response, StatusCode, header};

use crate::cluster::Cluster;
use crate::faults::{self, RequestAttributes};
use crate::http::accept;
use crate::http::{Answer, Body, Request};
use crate::identity::User;
use crate::route::{self, Route, Target};
use crate::status::StatusError;
use crate::verbs::{self, Call, Media};
use crate::{auth, controllers, discovery, openapi, registry};

/// Serves one request from its first to its last byte; an error resets its connection.
pub(crate) async fn serve<B>(cluster: &Arc<Cluster>, request: HttpRequest<B>) -> io::Result<Response<Body>>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let answer = match Request::read(parts, body).await {
        Ok(request) => answer(cluster, &request).await?,
        Err(refusal) => refusal.into(),
    };
    Ok(answer.negotiated(&accept).into_response())
}

/// Boxed in this crate: an async function is otherwise compiled again, and all that it awaits, wherever it is polled.
fn answer<'a>(cluster: &'a Arc<Cluster>, request: &'a Request) -> BoxFuture<'a, io::Result<Answer>> {
    Box::pin(async move {
        let user = match auth::user(cluster, request) {
            Ok(user) => user,
            Err(refusal) => return Ok(refusal.into()),
        };
        let route = Route::of(&request.path);
        let faults = &cluster.faults;
        let attributes = RequestAttributes::of(request, &user, &route, faults.is_armed());
        faults::serve(faults, attributes, walk(cluster, request, &user, route)).await
    })
}

async fn walk(cluster: &Arc<Cluster>, request: &Request, user: &User, route: Route) -> Answer {
    let user = match authorize(cluster, user, request, &route) {
        Ok(user) => user,
        Err(refusal) => return refusal.into(),
    };
    if let Route::Resource(target) = route {
        return resource(cluster, request, &user, target).await.unwrap_or_else(Answer::from);
    }
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return match route {
            Route::Unknown => Answer::no_page(),
            Route::Health => Answer::text(StatusCode::OK, "ok"),
            _ => StatusError::method_not_allowed().into(),
        };
    }
    let json = ["application/json".to_owned()];
    let answer = match route {
        Route::Health => Ok(Answer::text(StatusCode::OK, "ok")),
        Route::Version if !accept::names_any(request.accept(), &json) => Err(StatusError::not_producible(&json)),
        Route::Version => Ok(Answer::json(StatusCode::OK, &discovery::version())),
        Route::Core => discovery::core(cluster, request),
        Route::Groups => discovery::groups(cluster, request),
        Route::Group(group) => discovery::group(cluster, request, &group),
        Route::Resources { group, version } => discovery::resources(cluster, request, &group, &version),
        Route::OpenApiV2 => Ok(openapi::v2::answer(cluster, request.accept())),
        Route::OpenApi(path) => Ok(openapi::answer(cluster, path.as_deref())),
        Route::Resource(_) | Route::Unknown => Ok(Answer::no_page()),
    };
    answer.unwrap_or_else(Answer::from)
}

/// The user that the request acts as, if it may do this.
fn authorize(cluster: &Arc<Cluster>, user: &User, request: &Request, route: &Route) -> Result<User, StatusError> {
    let user = auth::impersonated(cluster, user, request, route)?;
    match route {
        Route::Resource(target) => {
            let verb = route::verb(request, target);
            let selected = route::selected_name(request, target);
            let selected = selected.map(|name| Target { name: Some(name), ..target.clone() });
            auth::check_resource(cluster, &user, verb, selected.as_ref().unwrap_or(target))?;
        }
        _ => {
            let verb = request.method.as_str().to_lowercase();
            auth::check_path(cluster, &user, &verb, &request.path)?;
        }
    }
    Ok(user)
}

async fn resource(
    cluster: &Arc<Cluster>,
    request: &Request,
    user: &User,
    target: Target,
) -> Result<Answer, StatusError> {
    let kinds = cluster.kinds();
    if !kinds.serves_group_version(&target.group, &target.version) {
        let builtin = kinds.iter().any(|kind| kind.group == target.group && kind.custom.is_none());
        let known = target.group.is_empty() || builtin;
        return if known { Err(StatusError::unknown_resource()) } else { Ok(Answer::no_page()) };
    }
    let Some(kind) = kinds.get(&target.group, &target.version, &target.resource) else {
        // An undefined resource of a custom group has no page.
        let custom = kinds.iter().any(|kind| kind.group == target.group && kind.custom.is_some());
        return if custom { Ok(Answer::no_page()) } else { Err(StatusError::unknown_resource()) };
    };
    // Requests for all namespaces have neither namespace nor name.
    let misplaced = if kind.namespaced {
        target.namespace.is_none() && (target.name.is_some() || request.method == Method::POST)
    } else {
        target.namespace.is_some() && kind.resource != "namespaces"
    };
    if misplaced {
        if kind.custom.is_some() {
            return Ok(Answer::no_page());
        }
        let all = kind.namespaced && target.name.is_none();
        return Err(if all { StatusError::method_not_allowed() } else { StatusError::unknown_resource() });
    }
    let verb = route::verb(request, &target);
    if kind.custom.is_none() {
        Media::check_named(request, matches!(verb, "list" | "watch"))?;
    }
    // The scale of a custom resource is of a built-in kind.
    let json_only = kind.custom.is_some() && target.subresource.as_deref() != Some("scale");
    let media = Media::of(request, json_only, verb == "watch")?;
    let call = Call { cluster, request, user, kind: Arc::clone(kind), target, media };
    let answer = verbs::serve(call).await;
    if !matches!(request.method, Method::GET | Method::HEAD) {
        // The follow-up work of a write is done before the write is answered.
        controllers::run(cluster);
    }
    let deprecated = match &kind.custom {
        Some(definition) => definition.deprecation.as_deref(),
        None => registry::of(kind).deprecation(),
    };
    if let Some(deprecated) = deprecated {
        return Ok(answer.unwrap_or_else(Answer::from).with_warnings(&[deprecated.to_owned()]));
    }
    answer
}
