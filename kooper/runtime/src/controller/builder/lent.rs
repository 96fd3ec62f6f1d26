//! The types whose references a function takes.

/// A type that can be passed as `&A`: only `A` itself.
#[diagnostic::on_unimplemented(
    message = "this function takes `&{A}`, and is called with `&{Self}`",
    label = "takes `&{A}`",
    note = "write `&{Self}` as the argument"
)]
pub trait Given<A> {
    /// The reference.
    fn given(&self) -> &A;
}

impl<A> Given<A> for A {
    fn given(&self) -> &A {
        self
    }
}

/// The converse of [`Given`]: an argument that is `T` itself, and nothing else. While types are
/// inferred, this infers the object from the argument, and [`Given`] the argument from the object.
#[diagnostic::on_unimplemented(
    message = "this function takes `&{Self}`, and is called with `&{T}`",
    label = "takes `&{Self}`",
    note = "write `&{T}` as the argument"
)]
pub trait Taken<T> {
    /// The reference.
    fn taken(object: &T) -> &Self;
}

impl<T> Taken<T> for T {
    fn taken(object: &T) -> &T {
        object
    }
}

/// The kinds of a function's arguments.
pub trait Lent {
    /// The references that it takes.
    type References<'a>
    where
        Self: 'a;
}

impl<A> Lent for (A,) {
    type References<'a>
        = (&'a A,)
    where
        Self: 'a;
}
