//! The walk of a request: route, authorize, admit, store, answer.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use http::{Method, Request as HttpRequest, Response, StatusCode};
use serde_json::json;

use crate::auth::{Authority, User};
use crate::controllers::Controllers;
use crate::faults::{self, Sighting};
use crate::http::{Answer, Body, Request};
use crate::kinds::{Kind, Kinds};
use crate::route::{self, Route, Target};
use crate::status::Refusal;
use crate::store::Store;
use crate::verbs::{self, Call};
use crate::{bootstrap, discovery, openapi};

/// What the requests of one server share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    kinds: RwLock<Arc<Kinds>>,
    pub(crate) authority: Authority,
    pub(crate) controllers: Controllers,
    pub(crate) faults: faults::State,
}

impl Core {
    /// A server with the built-in kinds and the objects that a new cluster has; `admin` is the token of its administrator.
    pub(crate) fn new(admin: &str) -> Arc<Self> {
        let store = Store::new();
        let kinds = Kinds::builtin(&store);
        let core = Arc::new(Self {
            store,
            kinds: RwLock::new(Arc::new(kinds)),
            authority: Authority::new(admin),
            controllers: Controllers::default(),
            faults: faults::State::default(),
        });
        bootstrap::create_objects(&core);
        core
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.kinds.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves another set of kinds from now on.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut kinds));
    }

    pub(crate) fn kind(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        self.kinds().get(group, version, resource).cloned()
    }

    /// Forgets the changes of the past.
    pub(crate) fn expire_history(&self) {
        for kind in self.kinds().stored() {
            kind.table.compact();
        }
    }

    /// Serves one request from its first to its last byte; an error resets its connection.
    pub(crate) async fn serve<B>(self: &Arc<Self>, request: HttpRequest<B>) -> io::Result<Response<Body>>
    where
        B: http_body::Body,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let answer = match Request::read(parts, body).await {
            Ok(request) => self.answer(&request).await?,
            Err(refusal) => refusal.into(),
        };
        Ok(answer.into_response())
    }

    async fn answer(self: &Arc<Self>, request: &Request) -> io::Result<Answer> {
        let user = match self.authority.user(request) {
            Ok(user) => user,
            Err(refusal) => return Ok(refusal.into()),
        };
        let route = Route::of(&request.path);
        let sighting = Sighting::of(request, &user, &route, self.faults.is_armed());
        faults::serve(self, sighting, self.walk(request, &user, route)).await
    }

    async fn walk(self: &Arc<Self>, request: &Request, user: &User, route: Route) -> Answer {
        let user = match self.authorize(user, request, &route) {
            Ok(user) => user,
            Err(refusal) => return refusal.into(),
        };
        if let Route::Resource(target) = route {
            return self.resource(request, &user, target).await.unwrap_or_else(Answer::from);
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return match route {
                Route::Unknown => Answer::no_page(),
                Route::Health => Answer::text(StatusCode::OK, "ok"),
                _ => Refusal::method_not_allowed().into(),
            };
        }
        match route {
            Route::Health => Answer::text(StatusCode::OK, "ok"),
            Route::Version => Answer::json(StatusCode::OK, &discovery::version()),
            Route::Core => discovery::core(self, request),
            Route::Groups => discovery::groups(self, request),
            Route::Group(group) => discovery::group(self, &group),
            Route::Resources { group, version } => discovery::resources(self, &group, &version),
            Route::OpenApi(path) => openapi::answer(self, path.as_deref()),
            Route::Resource(_) | Route::Unknown => Answer::no_page(),
        }
    }

    /// The user that the request acts as, if it may do this.
    fn authorize(self: &Arc<Self>, user: &User, request: &Request, route: &Route) -> Result<User, Refusal> {
        let user = self.authority.impersonated(self, user, request)?;
        match route {
            Route::Resource(target) => {
                let verb = route::verb(request, target);
                self.authority.check_resource(self, &user, verb, target)?;
            }
            _ => {
                let verb = request.method.as_str().to_lowercase();
                self.authority.check_path(self, &user, &verb, &request.path)?;
            }
        }
        Ok(user)
    }

    async fn resource(self: &Arc<Self>, request: &Request, user: &User, target: Target) -> Result<Answer, Refusal> {
        let kinds = self.kinds();
        if !kinds.serves_group_version(&target.group, &target.version) {
            let known = target.group.is_empty() || kinds.serves_group(&target.group);
            return if known { Err(Refusal::unknown_resource()) } else { Ok(Answer::no_page()) };
        }
        let Some(kind) = kinds.get(&target.group, &target.version, &target.resource) else {
            // What is defined by nobody has no page, below a custom group.
            let custom = kinds.iter().any(|kind| kind.group == target.group && kind.custom.is_some());
            return if custom { Ok(Answer::no_page()) } else { Err(Refusal::unknown_resource()) };
        };
        // Requests for all namespaces have neither namespace nor name.
        let misplaced = if kind.namespaced {
            target.namespace.is_none() && (target.name.is_some() || request.method == Method::POST)
        } else {
            target.namespace.is_some() && kind.resource != "namespaces"
        };
        if misplaced {
            let all = kind.namespaced && target.name.is_none();
            return Err(if all { Refusal::method_not_allowed() } else { Refusal::unknown_resource() });
        }
        let call = Call { core: self, request, user, kind: Arc::clone(kind), target };
        verbs::serve(call).await
    }
}

/// A success without an object.
pub(crate) fn success(details: &serde_json::Value) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
