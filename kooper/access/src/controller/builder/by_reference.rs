//! The types whose references a function takes.

/// A type that can be passed as `&A`: only `A` itself.
#[diagnostic::on_unimplemented(
    message = "this function takes `&{A}`, but is called with `&{Self}`",
    label = "takes `&{A}`",
    note = "write `&{Self}` as the argument"
)]
pub trait AsArgument<A> {
    /// The reference.
    fn as_argument(&self) -> &A;
}

impl<A> AsArgument<A> for A {
    fn as_argument(&self) -> &A {
        self
    }
}

/// The converse of [`AsArgument`]: an argument that is `T` itself, and nothing else. While types are
/// inferred, this infers the object from the argument, and [`AsArgument`] the argument from the object.
#[diagnostic::on_unimplemented(
    message = "this function takes `&{Self}`, but is called with `&{T}`",
    label = "takes `&{Self}`",
    note = "write `&{T}` as the argument"
)]
pub trait FromObject<T> {
    /// The reference.
    fn from_object(object: &T) -> &Self;
}

impl<T> FromObject<T> for T {
    fn from_object(object: &T) -> &T {
        object
    }
}

/// The kinds of a function's arguments.
pub trait ByReference {
    /// The references that it takes.
    type References<'a>
    where
        Self: 'a;
}

impl<A> ByReference for (A,) {
    type References<'a>
        = (&'a A,)
    where
        Self: 'a;
}
