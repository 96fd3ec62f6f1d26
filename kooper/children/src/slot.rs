//! Slots: child functions with their inputs and flags.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kooper_runtime::internal::object::kind::KindInfo;

use crate::function::{Awaited, ChildFn, Form};
use crate::graph::{Flags, Recreate, SlotSpec};
use crate::readiness::Readiness;

/// A child function, by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionId {
    pub(crate) id: TypeId,
    /// The last segment of its path.
    pub(crate) name: String,
}

impl FunctionId {
    pub(crate) fn of<F: 'static>() -> Self {
        let path = std::any::type_name::<F>();
        let path = path.split_once('<').map_or(path, |(path, _)| path);
        let name = path.rsplit("::").next().unwrap_or(path);
        Self { id: TypeId::of::<F>(), name: name.to_owned() }
    }
}

/// A child function of an owner `P`, with its inputs and flags. [`SlotExt`] begins one.
#[derive(Debug, Clone)]
#[must_use = "a slot does nothing until it is declared as a child"]
pub struct Slot<P, F, V = Deletes> {
    pub(crate) function: F,
    pub(crate) id: FunctionId,
    pub(crate) inputs: Vec<FunctionId>,
    pub(crate) after: Vec<FunctionId>,
    pub(crate) flags: Flags,
    /// Replaces the readiness rules of the kind.
    pub(crate) ready: Option<ReadinessFn>,
    owner: PhantomData<fn(P) -> V>,
}

/// A function that judges children, without the type of these.
#[derive(Clone)]
pub(crate) struct ReadinessFn(pub(crate) Arc<JudgeFn>);

type JudgeFn = dyn Fn(&dyn Any) -> Option<Readiness> + Send + Sync;

impl fmt::Debug for ReadinessFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadinessFn")
    }
}

/// The permissions that a slot needs.
pub trait Verbs: 'static {
    /// `true` if children are deleted. Those of a slot with `keep` are not.
    const DELETES: bool;
    /// `true` if the cluster need not serve the kind.
    const OPTIONAL: bool = false;
    /// The same for a slot whose children are kept.
    type Kept: Verbs;
}

/// Children of the slot are pruned.
#[derive(Debug)]
pub enum Deletes {}

/// Children of the slot are kept.
#[derive(Debug)]
pub enum Keeps {}

/// Like `V`, and the kind of the children is optional.
#[derive(Debug)]
pub struct Optional<V>(PhantomData<V>);

impl Verbs for Deletes {
    const DELETES: bool = true;
    type Kept = Keeps;
}

impl Verbs for Keeps {
    const DELETES: bool = false;
    type Kept = Self;
}

impl<V: Verbs> Verbs for Optional<V> {
    const DELETES: bool = V::DELETES;
    const OPTIONAL: bool = true;
    type Kept = Optional<V::Kept>;
}

/// The methods of child functions that make slots of them. The parameters are inferred.
pub trait SlotExt<P, M>: ChildFn<P, M> {
    /// A slot whose function takes the children of these slots, in the order of its arguments.
    fn with<I: SlotInputs<P, Self::Inputs, N>, N>(self, inputs: I) -> Slot<P, Self> {
        let _ = inputs;
        let flags = Flags { external: Self::EXTERNAL, ..Flags::default() };
        let id = FunctionId::of::<Self>();
        Slot { function: self, id, inputs: I::ids(), after: Vec::new(), flags, ready: None, owner: PhantomData }
    }

    /// A slot whose function takes no other children.
    fn slot(self) -> Slot<P, Self>
    where
        (): SlotInputs<P, Self::Inputs, ()>,
    {
        self.with(())
    }
}

#[diagnostic::do_not_recommend]
impl<P, M, F: ChildFn<P, M>> SlotExt<P, M> for F {}

impl<P, F: 'static, V: Verbs> Slot<P, F, V> {
    /// Sets the name of the slot, which is also a label of its children. The default is the name of the function; a
    /// closure needs a name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.id.name = name.into();
        self
    }

    /// Creates a child of this slot only when the children of another slot are ready.
    pub fn after<G: ChildFn<P, M>, M>(mut self, other: G) -> Self {
        let _ = other;
        self.after.push(FunctionId::of::<G>());
        self
    }

    /// Creates the child once, and changes nothing but its labels and the version in its owner reference afterwards.
    pub fn once(mut self) -> Self {
        self.flags.once = true;
        self
    }

    /// Never prunes the children, and releases them when the owner is deleted. They have the label `kooper.rs/kept`. It
    /// requires [`Declared::deletion`](crate::Declared::deletion).
    pub fn keep(self) -> Slot<P, F, V::Kept> {
        self.needing(|flags| Flags { keep: true, ..flags })
    }

    /// Skips the slot while the cluster does not serve the kind of its children, such as that of a CRD which is not
    /// installed. The owners are called once it does.
    ///
    /// A slot that takes the child as `Option<&T>` or `&[T]` gets none meanwhile; one that takes it as `&T` is held.
    pub fn optional(self) -> Slot<P, F, Optional<V>> {
        self.needing(|flags| Flags { optional: true, ..flags })
    }

    fn needing<W>(self, change: impl FnOnce(Flags) -> Flags) -> Slot<P, F, W> {
        let Self { function, id, inputs, after, flags, ready, owner: _ } = self;
        Slot { function, id, inputs, after, flags: change(flags), ready, owner: PhantomData }
    }

    /// Also prunes children that are kept by default: adopted objects, PersistentVolumeClaims, Namespaces and CRDs.
    pub fn prune(mut self) -> Self {
        self.flags.prune = true;
        self
    }

    /// Deletes a child before the one that replaces it is created.
    pub fn recreate(mut self) -> Self {
        self.flags.recreate = Some(Recreate::Foreground);
        self
    }

    /// Like [`recreate`](Self::recreate), but keeps the dependents of the child, such as the pods of a StatefulSet.
    pub fn recreate_orphan(mut self) -> Self {
        self.flags.recreate = Some(Recreate::Orphan);
        self
    }

    /// Takes over an object that has no controlling owner. It gets the label `kooper.rs/adopted`, and is not pruned by
    /// default.
    pub fn adopt(mut self) -> Self {
        self.flags.adopt = true;
        self
    }

    /// Does not count the children for the condition `Ready` of the owner.
    pub fn not_ready(mut self) -> Self {
        self.flags.not_ready = true;
        self
    }

    /// Sets a function that takes a child and returns [`Readiness`] or `bool`, instead of the readiness rules of its kind.
    /// A child that is being deleted is never ready.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper_children::{SlotExt, declare};
    ///
    /// fn config(_: &ConfigMap) -> ConfigMap {
    ///     ConfigMap::default()
    /// }
    ///
    /// fn is_filled(config: &ConfigMap) -> bool {
    ///     config.data.is_some()
    /// }
    ///
    /// let children = declare::<ConfigMap, ()>().child(config.slot().ready(is_filled)).build();
    /// # assert!(children.is_ok());
    /// ```
    pub fn ready<M, R: Into<Readiness>>(
        mut self,
        ready: impl Fn(&<<F as ChildFn<P, M>>::Form as Form>::Kind) -> R + Send + Sync + 'static,
    ) -> Self
    where
        F: ChildFn<P, M>,
    {
        self.ready = Some(ReadinessFn(Arc::new(move |child| child.downcast_ref().map(|child| ready(child).into()))));
        self
    }

    /// States what the signature says: the function returns [`External`](crate::External). It is the attribute's flag
    /// `external`.
    pub fn external<A, M, R, N: Awaited>(self) -> Self
    where
        F: ChildFn<P, (A, M, R, N)>,
    {
        self
    }

    pub(crate) fn spec<M>(&self, names: &impl Fn(&FunctionId) -> String) -> SlotSpec
    where
        F: ChildFn<P, M>,
    {
        let kind = KindInfo::of::<<F::Form as Form>::Kind>();
        SlotSpec {
            name: self.id.name.clone(),
            resource: kind.resource().into(),
            kind: kind.kind,
            inputs: self.inputs.iter().map(names).collect(),
            after: self.after.iter().map(names).collect(),
            returns: F::Form::RETURNS,
            flags: self.flags,
        }
    }
}

/// A slot whose children fit an argument of the form `F`.
#[diagnostic::on_unimplemented(
    message = "this slot has `{Self}`, and the function takes `{F}` there",
    label = "another slot is expected here",
    note = "`One<T>` is taken as `&T`, `Maybe<T>` as `Option<&T>`, and `Many<T>` as `&[T]`"
)]
pub trait Fits<F> {}

#[diagnostic::do_not_recommend]
impl<F> Fits<F> for F {}

/// A tuple of child functions whose children are what a function takes. The parameters are inferred.
#[diagnostic::on_unimplemented(
    message = "these are not the slots whose children the function takes: it takes `{Inputs}`",
    label = "other inputs are expected here",
    note = "write one function for each argument that is a child, in their order, as in `web.with((config, password))`"
)]
pub trait SlotInputs<P, Inputs, M> {
    #[doc(hidden)]
    fn ids() -> Vec<FunctionId>;
}

macro_rules! inputs {
    ($($input:ident $form:ident $marker:ident)*) => {
        impl<P, $($input, $form, $marker),*> SlotInputs<P, inputs!(@list $($form)*), ($($marker,)*)> for ($($input,)*)
        where
            $($input: ChildFn<P, $marker>, <$input as ChildFn<P, $marker>>::Form: Fits<$form>),*
        {
            fn ids() -> Vec<FunctionId> {
                vec![$(FunctionId::of::<$input>()),*]
            }
        }
    };
    (@list) => { () };
    (@list $form:ident $($rest:ident)*) => { ($form, inputs!(@list $($rest)*)) };
}

inputs!();
inputs!(I1 F1 M1);
inputs!(I1 F1 M1 I2 F2 M2);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3 I4 F4 M4);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3 I4 F4 M4 I5 F5 M5);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3 I4 F4 M4 I5 F5 M5 I6 F6 M6);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3 I4 F4 M4 I5 F5 M5 I6 F6 M6 I7 F7 M7);
inputs!(I1 F1 M1 I2 F2 M2 I3 F3 M3 I4 F4 M4 I5 F5 M5 I6 F6 M6 I7 F7 M7 I8 F8 M8);
