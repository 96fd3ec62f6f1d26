//! Selections of objects in a cache, for [`Reader::select`](super::Access::select).
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kooper::capability::{Reader, by};
//! use kooper::prelude::*;
//!
//! fn fronts(pods: &Reader<Pod>, owner: &Pod) -> Result<Vec<Arc<Pod>>> {
//!     let fronts = by::labels("app=web, tier in (front, edge)")?;
//!     let of_owner = by::owner(owner).label("app", "web");
//!     Ok(pods.select(fronts).chain(pods.select(of_owner)).collect::<Result<_, _>>()?)
//! }
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use kooper_grammar::selector::{Comparator, Selector};
use kooper_runtime::internal::object::as_object::AsObject;
use kooper_runtime::internal::watch::store::{Cache, IndexHit, Indexer};
use kooper_runtime::object::{DecodeError, Object};
use kooper_runtime::{Kind, ObjectKey};
use kube::Resource as _;

use super::Reader;
use super::owner::OWNER;

pub use kooper_grammar::selector::SelectorError;

/// A selection of objects of the kind `T`: those that meet all of its
/// conditions. The functions of this module begin one.
#[must_use = "a selection does nothing until it is passed to `Reader::select`"]
pub struct Selection<T> {
    namespace: Option<String>,
    equal: Vec<(String, String)>,
    selector: Selector,
    index: Option<(Indexer, String)>,
    kind: PhantomData<fn() -> T>,
}

/// A custom index: the values by which objects are found. The type is usually a
/// unit struct.
///
/// It is built when [`index`] first uses it, and shared by all readers of a
/// cache. Each version of an object is decoded for it at most once. If an index
/// panics on an object, only this object is affected: it is selected as an
/// error until it changes.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::capability::{Index, Reader, by};
/// use kooper::prelude::*;
///
/// /// Pods by the node that they run on.
/// struct ByNode;
///
/// impl Index for ByNode {
///     type Object = Pod;
///
///     fn values(pod: &Pod) -> impl IntoIterator<Item = String> {
///         pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
///     }
/// }
///
/// fn on(pods: &Reader<Pod>, node: &str) -> Result<Vec<Arc<Pod>>> {
///     Ok(pods.select(by::index(ByNode, node)).collect::<Result<_, _>>()?)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index",
    label = "not an index",
    note = "write `impl Index for {Self}` with `type Object = …` and `fn values(object: &Self::Object) -> impl IntoIterator<Item = String>`"
)]
pub trait Index: Sized + 'static {
    /// The kind of the objects.
    type Object: Kind;

    /// The values by which the object is found. Without values it is not indexed.
    fn values(object: &Self::Object) -> impl IntoIterator<Item = String>;

    /// The keys of the objects that name this one, as a function of `watches`: those in
    /// its namespace that have its name as a value, and those in any namespace that have
    /// `namespace/name`. Objects of all namespaces name a cluster-scoped one by its name.
    /// Objects that do not decode are left out: a change of theirs enqueues them.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
    /// use kooper::capability::Index;
    /// use kooper::prelude::*;
    ///
    /// /// Pods by the ServiceAccount that they name.
    /// struct ByAccount;
    ///
    /// impl Index for ByAccount {
    ///     type Object = Pod;
    ///
    ///     fn values(pod: &Pod) -> impl IntoIterator<Item = String> {
    ///         pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone())
    ///     }
    /// }
    ///
    /// let controller = Pod::controller("accounts").watches(ByAccount::users_of::<ServiceAccount>);
    /// # let _ = controller.handler(async || {}).build()?;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    fn users_of<T: Kind>(named: &T, objects: &Reader<Self::Object>) -> Vec<ObjectKey> {
        let key = ObjectKey::of(named);
        let beside = key.namespace().map(|namespace| indexed::<Self>(key.name()).namespace(namespace));
        let selections = [Some(indexed::<Self>(key.to_string())), beside];
        selections.into_iter().flatten().flat_map(|by| objects.keys(by)).collect()
    }
}

/// Selects the objects of a namespace.
pub fn namespace<T>(namespace: impl Into<String>) -> Selection<T> {
    Selection::all().namespace(namespace)
}

/// Selects the objects with this label.
pub fn label<T>(key: impl Into<String>, value: impl Into<String>) -> Selection<T> {
    Selection::all().label(key, value)
}

/// Selects the objects that match a label selector, such as
/// `app=web, tier in (front, edge), !legacy`. A selector that requires no value, such
/// as `tier!=edge`, reads the metadata of every object.
///
/// # Errors
/// If the selector is invalid.
pub fn labels<T>(selector: &str) -> Result<Selection<T>, SelectorError> {
    Ok(Selection { selector: Selector::parse(selector)?, ..Selection::all() })
}

/// Selects the objects with an owner reference to this one. Those of a namespaced
/// owner are in its namespace: references from elsewhere are invalid in Kubernetes,
/// and anyone who may create objects there can set them. An object that was never
/// created has no uid, and owns nothing.
pub fn owner<T, M>(owner: &impl AsObject<M>) -> Selection<T> {
    let owner = owner.as_object().meta();
    let namespace = owner.namespace.clone().filter(|namespace| !namespace.is_empty());
    Selection { namespace, ..owner_uid(owner.uid.clone().unwrap_or_default()) }
}

/// Selects the objects with an owner reference to this uid, in any namespace.
pub fn owner_uid<T>(uid: impl Into<String>) -> Selection<T> {
    Selection { index: Some((Indexer::owners(), uid.into())), ..Selection::all() }
}

/// Selects the children without owner references of the owner with this uid.
#[doc(hidden)]
pub fn marked<T>(uid: impl Into<String>) -> Selection<T> {
    enum Marked {}
    let read = |object: &Object| Ok(object.metadata()?.labels.get(OWNER).cloned().into_iter().collect());
    Selection { index: Some((Indexer::new::<Marked>(read), uid.into())), ..Selection::all() }
}

/// Selects the objects that an [`Index`] has under the value. Objects that do
/// not decode, or on which the index panics, are selected as errors.
pub fn index<I: Index>(_: I, value: impl Into<String>) -> Selection<I::Object> {
    indexed::<I>(value)
}

fn indexed<I: Index>(value: impl Into<String>) -> Selection<I::Object> {
    let read = |object: &Object| Ok(I::values(&object.decode()?).into_iter().collect());
    Selection { index: Some((Indexer::new::<I>(read), value.into())), ..Selection::all() }
}

impl<T> Selection<T> {
    fn all() -> Self {
        Self { namespace: None, equal: Vec::new(), selector: Selector::default(), index: None, kind: PhantomData }
    }

    /// Limits the selection to a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        // No object is in two namespaces, and none is in one without a name.
        let excludes = self.namespace.is_some_and(|known| known != namespace);
        self.namespace = Some(if excludes { String::new() } else { namespace });
        self
    }

    /// Limits the selection to objects with this label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.equal.push((key.into(), value.into()));
        self
    }

    /// The selected objects, in the order of their keys. Objects that cannot be
    /// read may be selected, and are errors.
    pub(super) fn of(self, cache: &Cache) -> Vec<Result<Arc<Object>, DecodeError>> {
        let mut found = self.candidates(cache);
        found.sort_unstable_by(|one, other| one.object.key().cmp(other.object.key()));
        let read = found.into_iter().filter_map(|IndexHit { object, error }| match (self.matches(&object), error) {
            (Ok(false), _) => None,
            (Ok(true), None) => Some(Ok(object)),
            (Ok(true), Some(error)) | (Err(error), _) => Some(Err(error)),
        });
        read.collect()
    }

    /// The objects that one index finds, or all objects.
    fn candidates(&self, cache: &Cache) -> Vec<IndexHit> {
        let find = |by, values: &[String]| cache.find(by, values, self.namespace.as_deref());
        if let Some((by, value)) = &self.index {
            return find(*by, std::slice::from_ref(value));
        }
        // The longer a value, the fewer objects have it, as a rule: one names an instance, another one a program.
        if let Some((key, value)) = self.equal.iter().max_by_key(|(_, value)| value.len()) {
            return find(Indexer::labels(), &[format!("{key}={value}")]);
        }
        let requirements = self.selector.requirements().iter();
        let of_values = requirements.filter(|requirement| requirement.operator() == Comparator::In);
        if let Some(one) = of_values.max_by_key(|one| one.values().iter().map(String::len).min()) {
            let values: Vec<_> = one.values().iter().map(|value| format!("{}={value}", one.key())).collect();
            return find(Indexer::labels(), &values);
        }
        let all = cache.all(self.namespace.as_deref()).into_iter();
        all.map(|object| IndexHit { object, error: None }).collect()
    }

    fn matches(&self, object: &Object) -> Result<bool, DecodeError> {
        // The value of the index was compared when the object was found.
        if self.equal.is_empty() && self.selector.is_empty() {
            return Ok(true);
        }
        let metadata = object.metadata()?;
        let label = |key: &str| metadata.labels.get(key).map(String::as_str);
        Ok(self.equal.iter().all(|(key, value)| label(key) == Some(value)) && self.selector.matches(label))
    }
}

kooper_runtime::internal::debug_fields! { Selection<T> { namespace, equal, selector, index } }
