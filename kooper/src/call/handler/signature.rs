//! What a function takes and what it returns, known before either is checked.
//!
//! The arguments are inferred from the function alone and checked one by one
//! afterwards, so that the compiler names the one that is wrong, and not the
//! whole function.

use std::future::Future;

use crate::call::extract::arities;

/// A function with the arguments `Args`, a tuple of at most sixteen.
pub trait Signature<Args>: Send + Sync + 'static {
    /// What it returns.
    type Output;

    /// Calls it.
    fn call_with(&self, arguments: Args) -> Self::Output;
}

macro_rules! signatures {
    ($($argument:ident $marker:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<F, R, $($argument,)*> Signature<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
        {
            type Output = R;

            #[allow(non_snake_case, reason = "the names of the types stand for the variables too")]
            fn call_with(&self, ($($argument,)*): ($($argument,)*)) -> R {
                self($($argument),*)
            }
        }
    };
}

arities!(signatures);

/// What an `async fn` returns: a future of an answer.
#[diagnostic::on_unimplemented(
    message = "this function is not async: it returns `{Self}`, which is not a future",
    label = "not an async function",
    note = "write `async fn`, or return `impl Future<Output = …> + Send`"
)]
pub trait Asynchronous: Future<Output = Self::Answer> {
    /// What the future resolves to.
    type Answer;
}

#[diagnostic::do_not_recommend]
impl<F: Future> Asynchronous for F {
    type Answer = F::Output;
}
