//! The function of `when`, as the attribute passes it.
//!
//! `Builder::when` takes closures, whose argument the compiler infers from its bound. The argument
//! of a named function is known, so that the compiler can report a wrong one.

use super::by_reference::{AsArgument, ByReference};

/// A `fn(&O) -> bool`.
pub trait FilterFn<O, Args>: Send + Sync + 'static {
    /// Returns `true` if the handler is called for the object.
    fn wants(&self, object: &O) -> bool;
}

impl<O, F, Args> FilterFn<O, Args> for F
where
    F: FilterSignature<Args> + Send + Sync + 'static,
    Args: FilterArguments<O>,
    F::Output: Truth,
{
    fn wants(&self, object: &O) -> bool {
        self.call_with(Args::arguments(object)).truth()
    }
}

/// A function of one reference, with any return type.
pub trait FilterSignature<Args: ByReference> {
    /// Its return type.
    type Output;

    /// Calls it.
    fn call_with(&self, arguments: Args::References<'_>) -> Self::Output;
}

impl<F: Fn(&A) -> R, A: 'static, R> FilterSignature<(A,)> for F {
    type Output = R;

    fn call_with(&self, (object,): (&A,)) -> R {
        self(object)
    }
}

/// The argument that a filter of `O` is called with.
pub trait FilterArguments<O>: ByReference {
    /// The argument.
    fn arguments(object: &O) -> Self::References<'_>;
}

impl<O: AsArgument<A>, A: 'static> FilterArguments<O> for (A,) {
    fn arguments(object: &O) -> (&A,) {
        (object.as_argument(),)
    }
}

/// The result of a filter.
#[diagnostic::on_unimplemented(
    message = "a function for `when` must return `bool`, but this one returns `{Self}`",
    label = "does not return `bool`"
)]
pub trait Truth {
    /// The result.
    fn truth(self) -> bool;
}

#[diagnostic::do_not_recommend]
impl Truth for bool {
    fn truth(self) -> bool {
        self
    }
}
