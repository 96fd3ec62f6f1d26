//! Names for generated code only: no part of it is stable.

/// Imports an unknown key in an editor, which then offers the existing keys to complete it.
#[cfg(rust_analyzer)]
#[doc(hidden)]
#[macro_export]
macro_rules! __complete {
    ($key:ident) => {
        const _: () = {
            use $crate::__private::v1::keys::$key as _;
        };
    };
}

/// Nothing, in a build.
#[cfg(not(rust_analyzer))]
#[doc(hidden)]
#[macro_export]
macro_rules! __complete {
    ($key:ident) => {};
}

/// Nothing, in a build with the feature `cli`, which `main!` needs.
#[cfg(feature = "cli")]
#[doc(hidden)]
#[macro_export]
macro_rules! __require_cli {
    () => {};
}

/// The error of `main!` in a build without the feature `cli`.
#[cfg(not(feature = "cli"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __require_cli {
    () => {
        ::core::compile_error!(
            "`main` needs the feature `cli` of kooper: add it, or write `main = false` and run an `Operator`"
        );
    };
}

/// Nothing, in a build with the feature `apiserver`, which `#[kooper::test]` and `#[kooper::explore]` need.
#[cfg(feature = "apiserver")]
#[doc(hidden)]
#[macro_export]
macro_rules! __require_apiserver {
    () => {};
}

/// The error of these in a build without the feature `apiserver`.
#[cfg(not(feature = "apiserver"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __require_apiserver {
    () => {
        ::core::compile_error!(
            "`#[kooper::test]` and `#[kooper::explore]` need the feature `apiserver` of kooper: add it to the dev-dependency"
        );
    };
}

/// The text of a sample, in a build without the feature `apiserver`: the file is looked for, and not kept.
#[cfg(not(feature = "apiserver"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __no_sample {
    ($path:literal) => {{
        const _: &str = ::core::include_str!($path);
        ""
    }};
}

#[path = "private/crd.rs"]
mod crd;

/// The keys of the attribute, for the completion in editors.
#[path = "private/keys.rs"]
pub mod keys;

#[path = "private/previous.rs"]
mod previous;

/// The names for webhooks.
#[cfg(feature = "webhooks")]
#[path = "private/webhooks.rs"]
pub mod webhooks;

/// The names of this version.
pub mod v1 {
    pub use super::crd::{Crd, CrdOf, NoCrd, crd};
    pub use super::keys;
    #[cfg(feature = "webhooks")]
    pub use super::webhooks;
    #[cfg(feature = "apiserver")]
    pub use std::include_str;
    pub use std::marker::PhantomData;
    pub use std::option::Option;
    pub use std::primitive::{str, u8, u16, u32, usize};
    pub use std::process::ExitCode;
    pub use std::result::Result;
    pub use std::sync::Arc;
    pub use std::time::Duration;
    pub use std::vec::Vec;
    pub use std::{assert, module_path};

    use std::ops::{Deref, DerefMut};

    use kube::Resource;
    use kube::core::{ClusterResourceScope, NamespaceResourceScope};
    use serde::de::DeserializeOwned;

    pub use super::previous::{owned_previous_children, previous_children};
    pub use crate::__complete as complete;
    #[cfg(not(feature = "apiserver"))]
    pub use crate::__no_sample as include_str;
    pub use crate::__require_apiserver as require_apiserver;
    pub use crate::__require_cli as require_cli;
    pub use crate::controller::{All, Builder, Controller, CustomKind, FailureEvents};
    use crate::controller::{HandlerBuilder, Task, TypedHandler};
    use crate::handler::{Handler, Outcome, StatusOf};
    pub use crate::leader::LeaderElection;
    pub use crate::main;
    pub use crate::shards::Shards;
    pub use crate::{Changed, ConfigError};
    pub use crate::{Kind, Namespaced};
    use kooper_access::extract::{Argument, DaemonArguments};
    pub use kooper_access::internal::schema::{KindOf, OtherKind, may_have_field};
    use kooper_children::function::{ChildFn, Form};
    use kooper_children::{Declaration, PlanSlot, Slot, SlotExt, SlotInputs};
    pub use kooper_program::{Declared, Definition, Program, ProgramSettings};

    /// Names for `derive(Partial)`.
    pub mod partial {
        pub use std::borrow::Cow;
        pub use std::default::Default;
        pub use std::fmt::{Formatter, Result as FormatResult};
        pub use std::primitive::str;

        pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
        pub use kooper_access::internal::FieldName;
        pub use kooper_runtime::internal::object::partial::name_of;
        pub use kube::Resource;
        pub use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
    }

    /// The type of a constant that is a string.
    pub type Text = &'static str;

    /// A kind as a value: errors about it are reported where the attribute names it.
    #[must_use]
    pub fn kind<K>() -> PhantomData<K> {
        PhantomData
    }

    /// All objects of a kind.
    pub fn all<K>() -> All<K> {
        All::new()
    }

    /// Starts a controller.
    #[must_use]
    pub fn controller<K: Begin<M>, M>(_: PhantomData<K>, name: &str) -> K::Builder {
        K::begin(name)
    }

    /// Starts a task.
    pub fn task(name: &str, every: Duration) -> Builder<Task> {
        Task::builder(name, every)
    }

    /// Starts a task with a schedule.
    pub fn cron_task(name: &str, schedule: &str) -> Builder<Task> {
        Task::cron(name, schedule)
    }

    /// A kind that a controller can begin with: every [`Kind`].
    ///
    /// There are two impls, so that the compiler decides between them before it checks the
    /// calls on the builder. With one it would report each of those calls, too.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a kind of Kubernetes object",
        label = "not a kind",
        note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
    )]
    pub trait Begin<M> {
        /// The builder that it begins with.
        type Builder;

        /// Creates the builder.
        fn begin(name: &str) -> Self::Builder;
    }

    /// Marks the impl for kinds.
    #[derive(Debug)]
    pub enum Kinds {}

    /// Marks the impl for no type.
    #[derive(Debug)]
    pub enum Nothing {}

    /// A trait that no type implements.
    pub trait Never {}

    #[diagnostic::do_not_recommend]
    impl<K: Kind> Begin<Kinds> for K {
        type Builder = Builder<K>;

        fn begin(name: &str) -> Builder<K> {
            Controller::builder(name)
        }
    }

    #[diagnostic::do_not_recommend]
    impl<K: Never> Begin<Nothing> for K {
        type Builder = ();

        fn begin(_: &str) {}
    }

    /// Declares the type of the program's own settings.
    pub fn declare<T: ProgramSettings>(declared: &mut Declared) {
        declared.add::<T>();
    }

    /// The settings that an argument takes, which are those of the program.
    #[diagnostic::on_unimplemented(
        message = "the settings of this program are `{T}`, not `{Self}`",
        label = "not the settings of this program",
        note = "take `Settings<{T}>`, or write `settings = {Self}`"
    )]
    pub trait SettingsOf<T> {}

    impl<T> SettingsOf<T> for T {}

    /// Checks the type of the settings that an argument takes.
    pub fn settings_of<T: SettingsOf<P>, P>() {}

    /// Adds an argument to a handler. It is a function, and not a method, so that its path, and
    /// with it the compiler's message, can span the argument's type from the first word to the last.
    #[must_use]
    pub fn argument<K, O, S, A, T: Argument<O, S, M>, M>(
        handler: HandlerBuilder<K, O, S, A>,
    ) -> HandlerBuilder<K, O, S, (A, T)>
    where
        K: Kind,
        O: DeserializeOwned + Send + Sync + 'static,
        S: Send + Sync + 'static,
        A: 'static,
    {
        handler.argument()
    }

    /// Completes a handler with its return type.
    pub fn outcome<K, O, S, T: Outcome, M>(handler: TypedHandler<K, O, S, T>) -> Builder<K, O, S>
    where
        K: Kind,
        O: DeserializeOwned + Send + Sync + 'static,
        S: Send + Sync + 'static,
        T::Status: StatusOf<O, S, M>,
    {
        let (builder, handler) = handler.outcome();
        builder.handler(handler)
    }

    /// The children of a controller; none if their declaration is invalid, which the builder reports.
    pub type Children<K, S, L> = Option<kooper_children::Declared<K, S, L>>;

    /// Begins the declaration of children.
    pub fn children<K: Kind, S>(_: &Builder<K, K, S>) -> Declaration<K, S, ()> {
        kooper_children::declare()
    }

    /// A slot of a declaration, with the slots whose children the function takes.
    pub fn slot<P, S, L, F, M, I, N>(_: &Declaration<P, S, L>, function: F, inputs: I) -> F::Slot
    where
        F: SlotFunction<P, M>,
        I: SlotInputs<P, F::Inputs, N>,
    {
        function.begin(inputs)
    }

    /// As [`slot`], for children that Kubernetes deletes with their owner.
    pub fn owned_slot<P: Kind, S, L, F, M, I, N>(_: &Declaration<P, S, L>, function: F, inputs: I) -> F::Slot
    where
        F: SlotFunction<P, M>,
        I: SlotInputs<P, F::Inputs, N>,
        F::Scope: OwnedBy<P::Scope>,
    {
        function.begin(inputs)
    }

    /// The scope of children that an owner can have without `deletion = ordered`.
    #[diagnostic::on_unimplemented(
        message = "this child is cluster-scoped, and its owner is in a namespace",
        label = "Kubernetes cannot delete it with its owner",
        note = "add `deletion = ordered` and a `finalizer`, so that it is deleted before its owner"
    )]
    pub trait OwnedBy<Owner> {}

    impl OwnedBy<NamespaceResourceScope> for NamespaceResourceScope {}
    impl<S> OwnedBy<ClusterResourceScope> for S {}
    impl OwnedBy<NamespaceResourceScope> for () {}

    /// A function that a slot can begin with: every [`ChildFn`]. There are two impls, as of [`Begin`]: with one the
    /// compiler would report the declaration of the slot, too.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a child function of `{P}`",
        label = "not a child function",
        note = "write `fn name(owner: &{P}, …) -> T`, or with `Option<T>`, `Vec<T>` or `External<T>`, each also in `Result`; it is not async",
        note = "beside the owner it can take children as `&T`, `Option<&T>` and `&[T]`, and `&Reader<T>`, `&State<S>` and `&Settings<T>`"
    )]
    pub trait SlotFunction<P, M>: Sized {
        /// The forms of the children that it takes.
        type Inputs;
        /// The scope of its children.
        type Scope;
        /// The slot.
        type Slot;

        /// Begins the slot.
        fn begin<I: SlotInputs<P, Self::Inputs, N>, N>(self, inputs: I) -> Self::Slot;
    }

    #[diagnostic::do_not_recommend]
    impl<P, F: ChildFn<P, M>, M> SlotFunction<P, (M,)> for F {
        type Inputs = F::Inputs;
        type Scope = <<F::Form as Form>::Kind as Resource>::Scope;
        type Slot = Slot<P, F>;

        fn begin<I: SlotInputs<P, F::Inputs, N>, N>(self, inputs: I) -> Slot<P, F> {
            self.with(inputs)
        }
    }

    #[diagnostic::do_not_recommend]
    impl<P, F: Never> SlotFunction<P, Nothing> for F {
        type Inputs = ();
        type Scope = ();
        type Slot = ();

        fn begin<I: SlotInputs<P, (), N>, N>(self, _: I) {}
    }

    /// A status that is to have the conditions of the children. The compiler names this type if a field is missing.
    #[allow(non_camel_case_types, reason = "the name is a sentence for users")]
    #[derive(Debug)]
    pub struct add_conditions_and_observed_generation_to_the_status_or_write_status_none<'a, T>(pub &'a mut T);

    impl<T> Deref for add_conditions_and_observed_generation_to_the_status_or_write_status_none<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0
        }
    }

    impl<T> DerefMut for add_conditions_and_observed_generation_to_the_status_or_write_status_none<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0
        }
    }

    /// Completes the declaration of children.
    pub fn declared<K: Kind, S, L>(
        builder: Builder<K, K, S>,
        declaration: Declaration<K, S, L>,
    ) -> (Builder<K, K, S>, Children<K, S, L>)
    where
        S: Send + Sync + 'static,
    {
        match declaration.build() {
            Ok(children) => (builder, Some(children)),
            Err(error) => (builder.mistaken("children", error), None),
        }
    }

    /// As [`outcome`], for a handler that is called once the children are applied.
    pub fn outcome_with_children<K: Kind, S, T: Outcome, M, L>(
        handler: TypedHandler<K, K, S, T>,
        children: &Children<K, S, L>,
    ) -> Builder<K, K, S>
    where
        S: Send + Sync + 'static,
        T::Status: StatusOf<K, S, M>,
        L: PlanSlot<K, S> + 'static,
    {
        let (builder, handler) = handler.outcome();
        match children {
            Some(children) => builder.handler(children.handler(handler)),
            None => builder.handler(handler),
        }
    }

    /// A cleanup that is called once the children are deleted.
    pub fn cleanup_after_children<K: Kind, S, L, H, A>(
        builder: Builder<K, K, S>,
        children: &Children<K, S, L>,
        finalizer: &str,
        cleanup: H,
    ) -> Builder<K, K, S>
    where
        S: Send + Sync + 'static,
        L: PlanSlot<K, S> + 'static,
        H: Handler<K, S, A>,
        A: 'static,
    {
        match children {
            Some(children) => builder.cleanup(finalizer, children.deletion(cleanup)),
            None => builder.cleanup(finalizer, cleanup),
        }
    }

    /// A daemon whose failures are part of the status.
    pub fn daemon_beside_children<K: Kind, S, L, H, A>(
        builder: Builder<K, K, S>,
        children: &Children<K, S, L>,
        daemon: H,
    ) -> Builder<K, K, S>
    where
        S: Send + Sync + 'static,
        H: Handler<K, S, A>,
        A: DaemonArguments + 'static,
    {
        match children {
            Some(children) => builder.daemon(children.daemon(daemon)),
            None => builder.daemon(daemon),
        }
    }

    /// The cleanup of a controller that has no other one than the deletion of its children.
    pub async fn no_cleanup() {}

    /// Returns `true` if the module path is that of a crate root.
    #[must_use]
    pub const fn at_crate_root(module_path: &str) -> bool {
        let bytes = module_path.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b':' {
                return false;
            }
            at += 1;
        }
        true
    }

    #[cfg(feature = "cli")]
    pub use kooper_program::main;

    /// Replaces the program in a build without the feature `cli`, for which `require_cli!` is an error.
    #[cfg(not(feature = "cli"))]
    #[must_use]
    pub fn main(_: &str, _: &str, _: &[&str], _: &[fn(&mut Declared)], _: &[fn(&mut Program)]) -> ExitCode {
        ExitCode::FAILURE
    }

    #[cfg(feature = "apiserver")]
    pub use crate::testing::{explore, paused_test, test};

    /// Stands in for the test in a build without the feature `apiserver`: `require_apiserver!` has refused it.
    #[cfg(not(feature = "apiserver"))]
    #[must_use]
    pub fn test<C, F>(_: &[fn(&mut Program)], _: impl FnOnce(C) -> F) -> ExitCode {
        ExitCode::FAILURE
    }

    /// As [`test`].
    #[cfg(not(feature = "apiserver"))]
    #[must_use]
    pub fn paused_test<P, C, F>(_: &[fn(&mut Program)], _: P, _: impl FnOnce(C) -> F) -> ExitCode {
        ExitCode::FAILURE
    }

    /// As [`test`].
    #[cfg(not(feature = "apiserver"))]
    #[must_use]
    pub fn explore<P, A, C, F>(_: &str, _: &[fn(&mut Program)], _: P, _: A, _: impl Fn(C) -> F) -> ExitCode {
        ExitCode::FAILURE
    }

    #[cfg(feature = "measure")]
    pub use kooper_runtime::internal::metrics::longest_held;
}
