//! The target of a request, and the format of its response.

use std::fmt;

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Method, Uri};
use kooper_grammar::selector::{FieldSelector, Selector};
use serde_json::Value;

use kooper_runtime::internal::object::segment::{escape, unescape};
use kooper_runtime::internal::watch::selected::Selected;

/// An object, in all versions of its API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// The API group; the core group is empty.
    pub(crate) group: String,
    /// The resource in URLs, such as `deployments`.
    pub(crate) plural: String,
    /// The namespace; `None` for a cluster-scoped object.
    pub(crate) namespace: Option<String>,
    /// `metadata.name` of the object.
    pub(crate) name: String,
}

/// The object, collection or subresource that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

/// The form in which a client takes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// Another one, such as a table: such a response is not changed.
    Other,
}

/// Subresources that act on a running container or server, and not on the object. They have no dry
/// run.
const ACTIONS: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

impl Target {
    /// Parses a path. Returns `None` if it does not name a resource.
    pub(super) fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest[..] {
            ["namespaces", namespace, resource, ..] if !["status", "finalize"].contains(&resource) => {
                (Some(namespace), &rest[2..])
            }
            _ => (None, &rest[..]),
        };
        let (plural, rest) = rest.split_first()?;
        let subresource = rest.get(1..).filter(|rest| !rest.is_empty()).map(|rest| rest.join("/"));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: (*plural).to_owned(),
            namespace: namespace.map(str::to_owned),
            name: rest.first().map(|name| unescape(name).into_owned()),
            subresource,
        })
    }

    /// Returns `true` if the subresource is one of `ACTIONS`.
    pub(super) fn is_action(&self) -> bool {
        let first = self.subresource.as_deref().and_then(|all| all.split('/').next());
        first.is_some_and(|first| ACTIONS.contains(&first))
    }

    /// Returns `true` for an object itself, or its status.
    pub(super) fn is_object(&self) -> bool {
        matches!(self.subresource.as_deref(), None | Some("status"))
    }

    pub(super) fn is_status(&self) -> bool {
        self.subresource.as_deref() == Some("status")
    }

    /// Returns `true` for Kubernetes Events, of either API.
    pub(super) fn is_event(&self) -> bool {
        self.plural == "events" && ["", "events.k8s.io"].contains(&&*self.group)
    }

    /// Returns `true` for reviews, such as a TokenReview, which the API server does not store.
    pub(super) fn is_review(&self) -> bool {
        ["authorization.k8s.io", "authentication.k8s.io"].contains(&&*self.group)
    }

    /// Returns `true` if later reads do not need the result of a write: reviews are not stored, and
    /// a CRD that is not installed serves no objects.
    pub(super) fn is_opaque(&self) -> bool {
        self.is_review() || self.group == "apiextensions.k8s.io"
    }

    pub(super) fn id(&self, name: &str) -> Id {
        let (group, plural) = (self.group.clone(), self.plural.clone());
        Id { group, plural, namespace: self.namespace.clone(), name: name.to_owned() }
    }

    /// The path of an object.
    pub(super) fn path_of(&self, name: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace = self.namespace.as_ref().map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
        let name = name.map_or(String::new(), |name| format!("/{}", escape(name)));
        format!("{root}/{}{namespace}/{}{name}", self.version, self.plural)
    }
}

impl Id {
    /// `plural` or `plural.group`, as kubectl takes it.
    #[must_use]
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource())?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id(self.name.as_deref().unwrap_or("(all)")))?;
        self.subresource.as_ref().map_or(Ok(()), |subresource| write!(f, ", {subresource}"))
    }
}

impl Form {
    /// The form that a request accepts. Afterwards it accepts the same in JSON only:
    /// responses in protobuf could not be changed.
    pub(super) fn accept_json(headers: &mut HeaderMap) -> Self {
        const JSON: &str = "application/json";
        let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
        let parts: Vec<_> = accepted.split(',').map(str::trim).filter(|part| part.starts_with(JSON)).collect();
        let form = match parts.first() {
            Some(part) if part.contains("as=PartialObjectMetadata") => Self::Metadata,
            Some(part) if part.contains("as=") => Self::Other,
            _ => Self::Whole,
        };
        let json = if parts.is_empty() { JSON.to_owned() } else { parts.join(",") };
        if let Ok(json) = HeaderValue::try_from(json) {
            headers.insert(ACCEPT, json);
        }
        form
    }
}

/// Returns `true` if an object of the API server matches selectors, as parameters have them.
pub(super) fn selects(labels: Option<&str>, fields: Option<&str>, object: &Value) -> bool {
    // The API server has accepted them.
    let labels = labels.and_then(|labels| Selector::parse(labels).ok()).unwrap_or_default();
    let fields = fields.and_then(|fields| FieldSelector::parse(fields).ok()).unwrap_or_default();
    Selected { labels, fields, ..Selected::default() }.first_miss(object, true).is_none()
}

/// The value of a parameter of a URI, decoded.
pub(super) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let parameters = uri.query()?.split('&').filter_map(|part| part.split_once('='));
    let (_, value) = parameters.into_iter().find(|(known, _)| *known == name)?;
    Some(unescape(&value.replace('+', " ")).into_owned())
}

/// The same URI with `dryRun=All`.
pub(super) fn dry(uri: &Uri) -> Result<Uri, http::uri::InvalidUri> {
    let kept = uri.query().into_iter().flat_map(|query| query.split('&'));
    let kept = kept.filter(|part| !part.is_empty() && part.split('=').next() != Some("dryRun"));
    let query: Vec<_> = kept.chain(["dryRun=All"]).collect();
    format!("{}?{}", uri.path(), query.join("&")).parse()
}

/// The verb of a request, for people.
pub(super) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "send",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        Target::of(path).map_or("none".to_owned(), |target| target.to_string())
    }

    #[test]
    fn a_path_names_an_object() {
        assert_eq!(shown("/api/v1/namespaces/shop/pods/web/exec"), "pods shop/web, exec");
        assert_eq!(shown("/apis/apps/v1/namespaces/shop/deployments/web"), "deployments.apps shop/web");
        assert_eq!(shown("/api/v1/namespaces/shop"), "namespaces shop");
        assert_eq!(shown("/api/v1/namespaces/shop/finalize"), "namespaces shop, finalize");
        assert_eq!(shown("/api/v1/namespaces/shop/pods"), "pods shop/(all)");
        assert_eq!(shown("/api/v1/nodes/a/proxy/metrics"), "nodes a, proxy/metrics");
        assert_eq!(shown("/version"), "none");
        assert_eq!(shown("/apis/apps/v1"), "none");
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20role";
        assert_eq!(shown(role), "clusterroles.rbac.authorization.k8s.io a role");
        for path in ["/api/v1/namespaces/shop/pods/web", "/apis/apps/v1/deployments", "/api/v1/nodes/a", role] {
            let target = Target::of(path).unwrap();
            assert_eq!(target.path_of(target.name.as_deref()), path);
        }
        assert!(Target::of("/api/v1/nodes/a/proxy/metrics").unwrap().is_action());
        assert!(!Target::of("/api/v1/nodes/proxy").unwrap().is_action());
    }

    #[test]
    fn only_the_groups_of_reviews_store_nothing() {
        let review = |path: &str| Target::of(path).unwrap().is_review();
        assert!(review("/apis/authorization.k8s.io/v1/subjectaccessreviews"));
        assert!(review("/apis/authentication.k8s.io/v1/tokenreviews"));
        assert!(!review("/apis/authors.example.com/v1/namespaces/library/books/emma"));
        assert!(!review("/apis/rbac.authorization.k8s.io/v1/clusterroles/a"));
    }

    #[test]
    fn every_write_gets_the_parameter_once() {
        let dry = |uri: &str| dry(&uri.parse().unwrap()).unwrap().to_string();
        assert_eq!(dry("/api/v1/nodes/a"), "/api/v1/nodes/a?dryRun=All");
        assert_eq!(dry("/api/v1/nodes/a?dryRun=None&force=true&dryRun="), "/api/v1/nodes/a?force=true&dryRun=All");
        assert_eq!(dry("/api/v1/nodes/a?"), "/api/v1/nodes/a?dryRun=All");
        let uri: Uri = "/api/v1/pods?labelSelector=a%3Db%2Cc&limit=5".parse().unwrap();
        assert_eq!(parameter(&uri, "labelSelector").as_deref(), Some("a=b,c"));
        assert_eq!(parameter(&uri, "continue"), None);
    }

    #[test]
    fn protobuf_is_not_accepted() {
        let form = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            (Form::accept_json(&mut headers), headers[ACCEPT].to_str().unwrap().to_owned())
        };
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(form("application/json"), (Form::Whole, "application/json".to_owned()));
        assert_eq!(form(metadata), (Form::Metadata, metadata.to_owned()));
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json").1, "application/json");
        assert_eq!(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").0, Form::Other);
    }
}
