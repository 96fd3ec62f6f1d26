//! The schema of a kind: its types, compiled from OpenAPI one by one as they
//! are needed, and the way down from its root.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::openapi;
use super::types::{Field, ListKind, MapType, Reference, Scalar, Target, Type};

/// Returns the OpenAPI schema of a definition.
pub type Lookup = dyn Fn(&str) -> Option<Value> + Send + Sync;

/// The types of an OpenAPI document, compiled one by one as they are needed.
pub struct Types {
    lookup: Box<Lookup>,
    compiled: RwLock<HashMap<Box<str>, Arc<Type>>>,
}

impl Types {
    /// The types that `lookup` returns by the last part of a `$ref`.
    pub fn new(lookup: impl Fn(&str) -> Option<Value> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { lookup: Box::new(lookup), compiled: RwLock::default() })
    }

    /// The type of a definition; `None` if the document has none of that name.
    pub fn named(&self, name: &str) -> Option<Arc<Type>> {
        if let Some(known) = self.compiled.read().get(name) {
            return Some(Arc::clone(known));
        }
        let compiled = Arc::new(openapi::definition(name, &(self.lookup)(name)?));
        let mut types = self.compiled.write();
        Some(Arc::clone(types.entry(name.into()).or_insert(compiled)))
    }

    fn resolve(&self, reference: &Reference) -> Node<'_> {
        static DEDUCED: LazyLock<Arc<Type>> = LazyLock::new(|| Arc::new(openapi::anything(Target::Deduced)));
        static UNTYPED: LazyLock<Arc<Type>> = LazyLock::new(|| Arc::new(openapi::anything(Target::Untyped)));
        let ty = match &reference.target {
            Target::Named(name) => self.named(name).unwrap_or_else(|| Arc::clone(&DEDUCED)),
            Target::Inline(ty) => Arc::clone(ty),
            Target::Deduced => Arc::clone(&DEDUCED),
            Target::Untyped => Arc::clone(&UNTYPED),
        };
        Node { types: self, ty, atomic: reference.atomic }
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Types").finish_non_exhaustive()
    }
}

/// The schema of a kind in one version.
#[derive(Clone, Debug)]
pub struct Schema {
    types: Arc<Types>,
    root: Reference,
}

impl Schema {
    /// The schema of a definition, such as `io.k8s.api.apps.v1.Deployment`.
    pub fn named(types: &Arc<Types>, name: &str) -> Option<Self> {
        types.named(name)?;
        Some(Self { types: Arc::clone(types), root: Reference { target: Target::Named(name.into()), atomic: None } })
    }

    /// The schema of a custom resource: what its CRD declares, completed by
    /// `apiVersion`, `kind` and the `metadata` of all objects, of which the
    /// definition is looked up in `types`.
    pub fn custom(types: &Arc<Types>, declared: &Value) -> Self {
        let root = Target::Inline(Arc::new(openapi::custom(declared)));
        Self { types: Arc::clone(types), root: Reference { target: root, atomic: None } }
    }

    /// The schema of objects of which nothing is declared.
    #[must_use]
    pub fn deduced() -> Self {
        let root = Reference { target: Target::Deduced, atomic: None };
        Self { types: Types::new(|_| None), root }
    }

    /// The type of the object itself.
    pub(crate) fn root(&self) -> Node<'_> {
        self.types.resolve(&self.root)
    }
}

/// A place in a schema.
#[derive(Clone, Debug)]
pub(crate) struct Node<'t> {
    types: &'t Types,
    ty: Arc<Type>,
    atomic: Option<bool>,
}

/// Which form of a type applies to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Map,
    List,
    Scalar(Scalar),
    /// The type allows nothing.
    Nothing,
}

impl<'t> Node<'t> {
    /// The form that the value has, or else the first that the type allows:
    /// a value of the wrong form is then found by validation.
    pub(crate) fn form(&self, value: Option<&Value>) -> Form {
        match (value, &*self.ty) {
            (Some(Value::Object(_)), Type { map: Some(_), .. }) => Form::Map,
            (Some(Value::Array(_)), Type { list: Some(_), .. }) => Form::List,
            (Some(Value::Bool(_) | Value::Number(_) | Value::String(_)), Type { scalar: Some(scalar), .. }) => {
                Form::Scalar(*scalar)
            }
            (_, Type { map: Some(_), .. }) => Form::Map,
            (_, Type { scalar: Some(scalar), .. }) => Form::Scalar(*scalar),
            (_, Type { list: Some(_), .. }) => Form::List,
            _ => Form::Nothing,
        }
    }

    pub(crate) fn map(&self) -> Option<&MapType> {
        self.ty.map.as_ref()
    }

    pub(crate) fn list_kind(&self) -> &ListKind {
        self.ty.list.as_ref().map_or(&ListKind::Atomic, |list| &list.kind)
    }

    /// Returns whether objects are replaced as a whole. The reference to the
    /// type takes precedence over the type.
    pub(crate) fn is_atomic_map(&self) -> bool {
        self.atomic.unwrap_or_else(|| self.ty.map.as_ref().is_some_and(|map| map.atomic))
    }

    /// Returns whether arrays are replaced as a whole.
    pub(crate) fn is_atomic_list(&self) -> bool {
        // The place of use speaks of the map where the type can be both.
        let overridden = if self.ty.map.is_none() { self.atomic } else { None };
        overridden.unwrap_or_else(|| *self.list_kind() == ListKind::Atomic)
    }

    /// Returns whether the field is declared, rather than a key of an open map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// The declared field.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.ty.map.as_ref()?.fields.get(name)
    }

    /// The type of a key, declared or not; `None` where the key isn't allowed.
    pub(crate) fn child(&self, name: &str) -> Option<Node<'t>> {
        let map = self.ty.map.as_ref()?;
        let reference = map.fields.get(name).map(|field| &field.ty).or(map.element.as_ref())?;
        Some(self.types.resolve(reference))
    }

    /// The last part of the definition's name, or empty for a schema in place.
    pub(crate) fn name(&self) -> &str {
        &self.ty.name
    }

    /// The type of a list's items.
    pub(crate) fn item(&self) -> Option<Node<'t>> {
        Some(self.types.resolve(&self.ty.list.as_ref()?.element))
    }
}
