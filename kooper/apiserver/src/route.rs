//! Which resource and verb a path and a method mean.

use http::Method;
use kooper_grammar::selector::FieldSelector;

use crate::http::Request;

/// Purpose of a request, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`, `/readyz`, `/livez`.
    Health,
    Version,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    Resources {
        group: String,
        version: String,
    },
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3` and below.
    OpenApi(Option<String>),
    Resource(Target),
    Unknown,
}

/// The resource or object that a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The path has the deprecated `/watch/` in it.
    pub(crate) watch: bool,
}

impl Target {
    /// The name under which the store has the object.
    pub(crate) fn key(&self) -> String {
        key(self.namespace.as_deref().unwrap_or_default(), self.name.as_deref().unwrap_or_default())
    }
}

/// The name under which the store has an object.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Route {
    pub(crate) fn of(path: &str) -> Self {
        let inner = path.strip_prefix('/').unwrap_or(path);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let parts: Vec<&str> = inner.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Self::Unknown;
        }
        match parts.as_slice() {
            ["healthz" | "readyz" | "livez"] | ["healthz" | "readyz" | "livez", "ping" | "log" | "etcd"] => {
                Self::Health
            }
            ["version"] => Self::Version,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApi(None),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(Some(rest.join("/"))),
            ["api"] => Self::Core,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::Resources { group: String::new(), version: (*version).to_owned() },
            ["apis", group, version] => Self::Resources { group: (*group).to_owned(), version: (*version).to_owned() },
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Self {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let mut target = Target { group: group.to_owned(), version: version.to_owned(), watch, ..Target::default() };
        let rest = match rest {
            ["namespaces", name] if group.is_empty() => {
                target.resource = "namespaces".to_owned();
                target.name = Some((*name).to_owned());
                return Self::Resource(target);
            }
            ["namespaces", name, part @ ("status" | "finalize")] if group.is_empty() => {
                target.resource = "namespaces".to_owned();
                target.name = Some((*name).to_owned());
                target.subresource = Some((*part).to_owned());
                return Self::Resource(target);
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                target.namespace = Some((*namespace).to_owned());
                rest
            }
            rest => rest,
        };
        match rest {
            [resource] => target.resource = (*resource).to_owned(),
            [resource, name] => {
                target.resource = (*resource).to_owned();
                target.name = Some((*name).to_owned());
            }
            [resource, name, subresource, ..] => {
                target.resource = (*resource).to_owned();
                target.name = Some((*name).to_owned());
                target.subresource = Some((*subresource).to_owned());
            }
            [] => return Self::Unknown,
        }
        Self::Resource(target)
    }
}

/// The API's verb for a request, as authorization knows it.
pub(crate) fn verb(request: &Request, target: &Target) -> &'static str {
    let watching = target.watch || request.query.flag("watch");
    match (&request.method, target.name.is_some()) {
        (&Method::GET | &Method::HEAD, true) if !target.watch => "get",
        (&Method::GET | &Method::HEAD, _) if watching => "watch",
        (&Method::GET | &Method::HEAD, _) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "",
    }
}

/// The name that a list or a watch selects: with a role for an object of this name it is allowed.
pub(crate) fn selected_name(request: &Request, target: &Target) -> Option<String> {
    if target.name.is_some() || !matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    let selector = FieldSelector::parse(request.query.get("fieldSelector")?).ok()?;
    let mut names = selector.terms().filter(|(path, equal, _)| *path == "metadata.name" && *equal);
    names.next().map(|(_, _, name)| name.to_owned()).filter(|name| !name.is_empty())
}
