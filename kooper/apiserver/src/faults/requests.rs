//! Which requests a fault is for.

use super::RequestAttributes;

/// A verb of the API, as roles name it. A read of one object is `get`, of several `list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the verb of its name")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    /// Every kind of patch, server-side apply included.
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The requests with this verb for a resource, see [`Requests::of`].
    pub fn of(self, resource: &str) -> Requests {
        Requests::from(self).of(resource)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// Requests that have something in common: a verb, a resource, an object, a user.
///
/// ```
/// use kooper_apiserver::faults::{Requests, Verb};
///
/// let all = Requests::all();
/// let writes = Requests::writes().in_namespace("shop");
/// let one = Verb::Patch.of("shops/status").named("a");
/// let of_a_controller = Requests::reads().of("pods").by("system:serviceaccount:default:shops");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing by itself: give it to `Faults::on`"]
pub struct Requests {
    /// Empty for any.
    verbs: Vec<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
}

impl Requests {
    /// All requests, those for discovery and health included.
    pub fn all() -> Self {
        Self::default()
    }

    /// The requests that may change something.
    pub fn writes() -> Self {
        let verbs = vec![Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];
        Self { verbs, ..Self::default() }
    }

    /// The requests that get, list or watch.
    pub fn reads() -> Self {
        Self { verbs: vec![Verb::Get, Verb::List, Verb::Watch], ..Self::default() }
    }

    /// Only those for a resource, as roles name it: `shops`, `shops/status` for its
    /// subresource, `shops/*` for all of those. With a group, such as
    /// `shops.example.com`, only those of that group. What is not a resource is
    /// named by its path, such as `/version`.
    pub fn of(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only those for the object of this name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only those in this namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only those of this user, such as `system:serviceaccount:default:shops`.
    pub fn by(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    pub(super) fn matches(&self, request: &RequestAttributes) -> bool {
        (self.verbs.is_empty() || self.verbs.iter().any(|verb| verb.name() == request.verb))
            && self.matches_object(request)
    }

    /// Returns whether everything except the verb matches.
    pub(super) fn matches_object(&self, request: &RequestAttributes) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && is(&self.user, &request.user)
            && self.resource.as_deref().is_none_or(|resource| request.is_for(resource))
    }
}

impl From<Verb> for Requests {
    fn from(verb: Verb) -> Self {
        Self { verbs: vec![verb], ..Self::default() }
    }
}

/// All requests for a resource.
impl From<&str> for Requests {
    fn from(resource: &str) -> Self {
        Self::all().of(resource)
    }
}
