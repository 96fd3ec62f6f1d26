//! The argument and return types of a function, known before they are checked.
//!
//! The argument types are inferred from the function alone. They are checked
//! one by one afterwards, so that the compiler names the wrong argument and not
//! the whole function.

use std::future::Future;

use crate::extract::arities;

/// A function with the arguments `Args`, a tuple of at most sixteen.
pub trait Signature<Args>: Send + Sync + 'static {
    /// Its return type.
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

/// The return type of an `async fn`: a future.
#[diagnostic::on_unimplemented(
    message = "this function is not async: it returns `{Self}`, which is not a future",
    label = "not an async function",
    note = "write `async fn`, or return `impl Future<Output = …> + Send`"
)]
pub trait Asynchronous: Future<Output = Self::Answer> {
    /// The output of the future.
    type Answer;
}

#[diagnostic::do_not_recommend]
impl<F: Future> Asynchronous for F {
    type Answer = F::Output;
}
