//! The request that a webhook decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::UserInfo;
use kooper_runtime::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
}

impl Operation {
    /// The name in rules, such as `CREATE`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The request that a webhook decides on: an argument of its function.
///
/// ```
/// use kooper_webhooks::{Admission, Operation};
///
/// let request = Admission::new(Operation::Update).by("jane");
/// assert_eq!(request.user().username.as_deref(), Some("jane"));
/// request.warn("spec.colour is deprecated: use spec.flavour");
/// assert_eq!(request.warnings(), ["spec.colour is deprecated: use spec.flavour"]);
/// ```
#[derive(Debug, Clone)]
pub struct Admission {
    pub(crate) request: Arc<RequestInfo>,
    notes: Arc<Mutex<Notes>>,
}

/// The properties of a request, without its objects.
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    pub(crate) operation: Operation,
    pub(crate) key: ObjectKey,
    pub(crate) user: UserInfo,
    pub(crate) dry_run: bool,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

/// Warnings and annotations that the function adds to the response.
#[derive(Debug, Default, Clone)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) audit: BTreeMap<String, String>,
}

impl Admission {
    /// Creates a request, to call a function in a unit test.
    #[must_use]
    pub fn new(operation: Operation) -> Self {
        let key = ObjectKey::cluster_scoped("test");
        let (user, subresource) = (UserInfo::default(), String::new());
        RequestInfo { operation, key, user, dry_run: false, subresource }.into()
    }

    /// The same request of a user with this name.
    #[must_use]
    pub fn by(self, username: impl Into<String>) -> Self {
        let user = UserInfo { username: Some(username.into()), ..self.request.user.clone() };
        RequestInfo { user, ..(*self.request).clone() }.into()
    }

    /// The same request as a dry run.
    #[must_use]
    pub fn in_dry_run(self) -> Self {
        RequestInfo { dry_run: true, ..(*self.request).clone() }.into()
    }

    /// The same request for a subresource.
    #[must_use]
    pub fn of_subresource(self, subresource: impl Into<String>) -> Self {
        RequestInfo { subresource: subresource.into(), ..(*self.request).clone() }.into()
    }

    /// The operation of the request.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// The namespace and name of the object. The name is empty while the API server has not
    /// generated it from `metadata.generateName`.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.request.key
    }

    /// The subresource that is written, such as `status`; `None` for the object itself.
    #[must_use]
    pub fn subresource(&self) -> Option<&str> {
        Some(&*self.request.subresource).filter(|name| !name.is_empty())
    }

    /// The user who sent the request.
    #[must_use]
    pub fn user(&self) -> &UserInfo {
        &self.request.user
    }

    /// Returns whether the request is a dry run, which stores nothing. Check it before a side effect.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.request.dry_run
    }

    /// Adds a warning for the client, which kubectl prints on one line. It does not affect the result.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notes.lock().warnings.push(warning.into());
    }

    /// Adds an annotation to the request's entry in the audit log. The key is a name without a prefix, such as
    /// `reason`: the API server puts the name of the webhook before it, and drops an annotation whose key has a `/`.
    pub fn audit(&self, key: impl Into<String>, value: impl Into<String>) {
        self.notes.lock().audit.insert(key.into(), value.into());
    }

    /// The warnings that were added, for unit tests.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.notes.lock().warnings.clone()
    }

    pub(crate) fn notes(&self) -> Notes {
        self.notes.lock().clone()
    }
}

impl From<RequestInfo> for Admission {
    fn from(request: RequestInfo) -> Self {
        Self { request: Arc::new(request), notes: Arc::default() }
    }
}
