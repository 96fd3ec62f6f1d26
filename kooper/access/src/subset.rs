//! Subsets of the objects of a kind.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use kooper_grammar::name;
use kooper_grammar::selector::{FieldSelector, Selector};
use kooper_runtime::internal::object::kind::{KindInfo, is_metadata, short_type_name};
use kooper_runtime::internal::watch::selected::Selected;
use kooper_runtime::{ControllerContext, Kind, Namespaced};
use kube::core::metadata::PartialObjectMeta;

/// The objects of the kind `T`: all of them, or those that its methods select.
/// [`KindExt::all`](crate::KindExt::all) makes it.
///
/// Only the selected objects are fetched and held in memory. Where a role can be
/// limited to names or namespaces, it is.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::KindExt;
///
/// let controller = ConfigMap::controller("shop").owns(Secret::all().labels("app=shop").metadata_only());
/// # let _ = controller.handler(async || {}).build()?;
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[must_use = "it selects nothing until it is passed on"]
pub struct All<T> {
    selected: Selected,
    pub(crate) secret: bool,
    /// The first error of a method that parses its argument.
    mistake: Option<String>,
    kind: PhantomData<fn() -> T>,
}

/// A subset of the objects of a kind, named by a type: the second parameter of a
/// [`Reader`](super::capability::Reader) or a [`Getter`](super::capability::Getter).
/// The type is usually a unit struct.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kooper::capability::{All, Subset};
/// use kooper::prelude::*;
///
/// /// The Secrets of the shop.
/// struct OfShop;
///
/// impl Subset for OfShop {
///     type Object = Secret;
///
///     fn select(all: All<Secret>) -> All<Secret> {
///         all.labels("app=shop")
///     }
/// }
///
/// fn count(secrets: &Reader<Secret, OfShop>) -> usize {
///     secrets.list().count()
/// }
/// # let _ = count;
/// ```
///
/// For a `Getter` it selects `names` and `namespaces`, and the generated role allows
/// no others:
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::capability::{All, Subset};
/// use kooper::prelude::*;
///
/// /// The certificate of the shop.
/// struct Certificate;
///
/// impl Subset for Certificate {
///     type Object = Secret;
///
///     fn select(all: All<Secret>) -> All<Secret> {
///         all.names(["certificate"]).namespaces(["shop"])
///     }
/// }
///
/// async fn handler(secrets: Getter<Secret, Certificate>) -> Result<()> {
///     let certificate = secrets.fetch(&ObjectKey::namespaced("shop", "certificate")).await?;
///     # let _ = certificate;
///     Ok(())
/// }
///
/// let controller = ConfigMap::controller("shop").handler(handler).build()?;
/// assert_eq!(controller.plan().needs()[0].names, ["certificate"]);
/// # Ok::<_, kooper::ConfigError>(())
/// ```
pub trait Subset: 'static {
    /// The kind of the objects. With `PartialObjectMeta<K>` only metadata is
    /// fetched.
    type Object: Kind;

    /// Selects the objects. It is called when the controller is built.
    fn select(all: All<Self::Object>) -> All<Self::Object>;
}

/// The second parameter of a `Reader<T>` or `Getter<T>`: `()` for all objects, or a
/// [`Subset`] of this kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not select objects of the kind `{T}`",
    label = "not a subset of `{T}`",
    note = "write `impl Subset for {Self}` with `type Object = {T}`, or leave the parameter out for all objects"
)]
pub trait SubsetOf<T>: 'static {
    /// The objects.
    fn objects() -> All<T>;
}

#[diagnostic::do_not_recommend]
impl<T: 'static> SubsetOf<T> for () {
    fn objects() -> All<T> {
        All::new()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Kind, S: Subset<Object = T>> SubsetOf<T> for S {
    fn objects() -> All<T> {
        S::select(All::new())
    }
}

impl<T> All<T> {
    #[doc(hidden)]
    pub fn new() -> Self {
        Self { selected: Selected::default(), secret: false, mistake: None, kind: PhantomData }
    }

    /// Selects the objects that match a label selector, which must not be empty.
    pub fn labels(mut self, selector: impl AsRef<str>) -> Self {
        match Selector::parse(selector.as_ref()) {
            Ok(labels) if labels.is_empty() => self.mistake("`labels` is empty and selects all objects: remove it"),
            Ok(labels) => self.selected.labels = labels,
            Err(error) => self.mistake(error),
        }
        self
    }

    /// Selects the objects that match a field selector, which must not be empty. The API
    /// server supports a few fields of each kind. A role can be limited to `metadata.name=…`.
    pub fn fields(mut self, selector: impl AsRef<str>) -> Self {
        match FieldSelector::parse(selector.as_ref()) {
            Ok(fields) if fields.is_empty() => self.mistake("`fields` is empty and selects all objects: remove it"),
            Ok(fields) => self.selected.fields = fields,
            Err(error) => self.mistake(error),
        }
        self
    }

    /// Selects the objects with these names. Each has a watch of its own, and the
    /// role is limited to them.
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.selected.names = names.into_iter().map(Into::into).collect();
        let wrong = self.selected.names.iter().find_map(|one| name::object(one).err());
        match wrong {
            Some(error) => self.mistake(error),
            None if self.selected.names.is_empty() => self.mistake("`names` is empty and would select no objects"),
            None => {}
        }
        self
    }

    /// Selects the objects in these namespaces, whichever the controller watches.
    /// The role is limited to them.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        T: Namespaced,
    {
        self.selected.namespaces = namespaces.into_iter().map(Into::into).collect();
        let wrong = self.selected.namespaces.iter().find_map(|one| name::label(one).err());
        match wrong {
            Some(error) => self.mistake(error),
            None if self.selected.namespaces.is_empty() => {
                self.mistake("`namespaces` is empty and would select no objects");
            }
            None => {}
        }
        self
    }

    /// Only the metadata of the objects: spec, status and data are not fetched.
    pub fn metadata_only(self) -> All<PartialObjectMeta<T>> {
        All { selected: self.selected, secret: self.secret, mistake: self.mistake, kind: PhantomData }
    }

    /// Marks the objects of the kind as secret, for all controllers of the program:
    /// they are compressed each by itself, and `kooper_store_bytes` does not count
    /// them. Otherwise who may write one of them, and reads the metrics, could guess
    /// what others contain. Secrets are always treated so.
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    fn mistake(&mut self, problem: impl fmt::Display) {
        self.mistake.get_or_insert_with(|| problem.to_string());
    }

    /// Returns the selection, or the mistake in it.
    pub(crate) fn into_selected(self) -> Result<Selected, String> {
        self.mistake.map_or(Ok(self.selected), Err)
    }
}

impl<T: Kind> All<T> {
    /// As the attribute has it: `Secret`, or `(Secret, labels = "app=shop", metadata_only)`.
    pub(crate) fn describe(&self) -> String {
        let Selected { labels, fields, names, namespaces } = &self.selected;
        let list = |set: &std::collections::BTreeSet<String>| {
            let quoted: Vec<_> = set.iter().map(|one| format!("\"{one}\"")).collect();
            (!set.is_empty()).then(|| format!("[{}]", quoted.join(", ")))
        };
        let text = |selector: String| (!selector.is_empty()).then(|| format!("\"{selector}\""));
        let settings = [
            ("labels", text(labels.to_string())),
            ("fields", text(fields.to_string())),
            ("names", list(names)),
            ("namespaces", list(namespaces)),
        ];
        let mut parts = vec![KindInfo::of::<T>().kind];
        parts.extend(settings.into_iter().filter_map(|(name, value)| Some(format!("{name} = {}", value?))));
        parts.extend(self.secret.then(|| "secret".to_owned()));
        parts.extend(is_metadata::<T>().then(|| "metadata_only".to_owned()));
        if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
    }
}

/// The type parameters of an argument, for messages: `Secret`, or `Secret, OfShop`.
pub(crate) fn parameters<T: Kind, S: 'static>() -> String {
    let kind = KindInfo::of::<T>().kind;
    let kind = if is_metadata::<T>() { format!("PartialObjectMeta<{kind}>") } else { kind };
    if TypeId::of::<S>() == TypeId::of::<()>() {
        return kind;
    }
    format!("{kind}, {}", short_type_name::<S>())
}

/// The selections of subsets and of `reads`, by their types: an extension of a controller's context.
#[derive(Debug, Default)]
pub(crate) struct Subsets(pub(crate) HashMap<TypeId, &'static Selected>);

/// The selection of a subset; `None` for all objects.
pub(crate) fn selected(controller: &ControllerContext, subset: TypeId) -> Option<&'static Selected> {
    controller.extensions.get::<Subsets>().0.get(&subset).copied()
}

kooper_runtime::internal::debug_fields! { All<T> { selected } }

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Secret};

    use super::*;

    struct Own;

    #[test]
    fn a_selection_is_described_as_the_attribute_has_it() {
        let all = All::<Secret>::new;
        assert_eq!(all().describe(), "Secret");
        assert_eq!(all().secret().metadata_only().describe(), "(Secret, secret, metadata_only)");
        let some = all().labels("b,a=1").fields("type=Opaque").names(["x", "y"]).namespaces(["shop"]);
        assert_eq!(
            some.describe(),
            "(Secret, labels = \"a=1,b\", fields = \"type=Opaque\", names = [\"x\", \"y\"], namespaces = [\"shop\"])"
        );
        assert_eq!(parameters::<Secret, ()>(), "Secret");
        assert_eq!(parameters::<PartialObjectMeta<Node>, Own>(), "PartialObjectMeta<Node>, Own");
    }

    #[test]
    fn the_first_mistake_of_a_selection_is_kept() {
        let all = All::<Secret>::new;
        assert_eq!(
            all().labels("a=1").into_selected().map(|selected| selected.labels.to_string()),
            Ok("a=1".to_owned())
        );
        for (wrong, begin) in [
            (all().labels("a==").labels("=").fields("a=b"), ""),
            (all().fields("type"), ""),
            (all().labels(""), "`labels` is empty"),
            (all().fields(""), "`fields` is empty"),
            (all().names(["A"]), "\"A\" "),
            (all().names([""; 0]), "`names` is empty"),
            (all().namespaces(["a.b"]), "\"a.b\" "),
            (all().namespaces([""; 0]), "`namespaces` is empty"),
        ] {
            let mistake = wrong.into_selected().map(drop);
            assert!(mistake.as_ref().is_err_and(|mistake| mistake.starts_with(begin)), "{begin} {mistake:?}");
        }
        assert!(all().labels("=").metadata_only().into_selected().is_err());
    }
}
