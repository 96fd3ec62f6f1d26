//! The return types of child functions.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kooper_runtime::{BoxError, ObjectKey};

use super::ChildKind;
use crate::graph::Returns;

/// One child of the kind `T`.
#[derive(Debug)]
pub struct One<T>(PhantomData<fn() -> T>);

/// One child of the kind `T`, or none.
#[derive(Debug)]
pub struct Maybe<T>(PhantomData<fn() -> T>);

/// Any number of children of the kind `T`.
#[derive(Debug)]
pub struct Many<T>(PhantomData<fn() -> T>);

/// The number and kind of a slot's children.
pub trait Form: 'static {
    /// The kind.
    type Kind: ChildKind;
    /// The children, as [`Children::get`](crate::Children::get) returns them.
    type Got;
    /// The number.
    const RETURNS: Returns;

    /// Returns the children.
    fn got(children: Vec<Arc<Self::Kind>>) -> Self::Got;
}

impl<T: ChildKind> Form for One<T> {
    type Kind = T;
    type Got = Option<Arc<T>>;
    const RETURNS: Returns = Returns::One;

    fn got(mut children: Vec<Arc<T>>) -> Self::Got {
        children.pop()
    }
}

impl<T: ChildKind> Form for Maybe<T> {
    type Kind = T;
    type Got = Option<Arc<T>>;
    const RETURNS: Returns = Returns::Maybe;

    fn got(mut children: Vec<Arc<T>>) -> Self::Got {
        children.pop()
    }
}

impl<T: ChildKind> Form for Many<T> {
    type Kind = T;
    type Got = Vec<Arc<T>>;
    const RETURNS: Returns = Returns::Many;

    fn got(children: Vec<Arc<T>>) -> Self::Got {
        children
    }
}

/// The key of an object that another controller or a user creates: it is awaited, and never written. When it is created,
/// changed or deleted, the handler is called for the owner. Without a namespace it is in that of the owner.
pub struct External<T> {
    key: ObjectKey,
    kind: PhantomData<fn() -> T>,
}

impl<T> External<T> {
    /// The object of this key.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self { key, kind: PhantomData }
    }
}

impl<T> fmt::Debug for External<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.key).finish()
    }
}

/// The result of a child function.
#[derive(Debug)]
pub enum Made<T> {
    /// Children to apply.
    Children(Vec<T>),
    /// An object to wait for.
    External(ObjectKey),
}

/// The marker of `T`.
#[derive(Debug)]
pub enum Plain {}

/// The marker of `Option<T>`.
#[derive(Debug)]
pub enum AsOption {}

/// The marker of `Vec<T>`.
#[derive(Debug)]
pub enum AsList {}

/// The marker of [`External<T>`].
#[derive(Debug)]
pub enum AsExternal {}

/// The marker of a return type with [`External<T>`].
#[diagnostic::on_unimplemented(
    message = "this child is not external: its function does not return `External<T>`",
    label = "does not return `External<T>`",
    note = "return `External<T>` with the key of the object, or remove `external`"
)]
pub trait Awaited {}

impl Awaited for AsExternal {}

#[diagnostic::do_not_recommend]
impl<M: Awaited> Awaited for (M,) {}

/// A type that a child function can return. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "a child function cannot return `{Self}`",
    label = "not a child",
    note = "return `T`, `Option<T>`, `Vec<T>` or `External<T>`, each also in `Result`, where `T` is a kind"
)]
pub trait ChildOutput<M> {
    /// The number and kind of the children.
    type Form: Form;
    /// `true` if they are awaited and never written.
    const EXTERNAL: bool = false;

    /// The children.
    ///
    /// # Errors
    /// The error of the function.
    fn made(self) -> Result<Made<<Self::Form as Form>::Kind>, BoxError>;
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildOutput<Plain> for T {
    type Form = One<T>;

    fn made(self) -> Result<Made<T>, BoxError> {
        Ok(Made::Children(vec![self]))
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildOutput<AsOption> for Option<T> {
    type Form = Maybe<T>;

    fn made(self) -> Result<Made<T>, BoxError> {
        Ok(Made::Children(self.into_iter().collect()))
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildOutput<AsList> for Vec<T> {
    type Form = Many<T>;

    fn made(self) -> Result<Made<T>, BoxError> {
        Ok(Made::Children(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildOutput<AsExternal> for External<T> {
    type Form = One<T>;
    const EXTERNAL: bool = true;

    fn made(self) -> Result<Made<T>, BoxError> {
        Ok(Made::External(self.key))
    }
}

#[diagnostic::do_not_recommend]
impl<R: ChildOutput<M>, M, E: Into<BoxError>> ChildOutput<(M,)> for Result<R, E> {
    type Form = R::Form;
    const EXTERNAL: bool = R::EXTERNAL;

    fn made(self) -> Result<Made<<R::Form as Form>::Kind>, BoxError> {
        self.map_err(Into::into)?.made()
    }
}
