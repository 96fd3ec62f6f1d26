//! A nearly correct argument, which gets a message of its own.

use super::{Argument, Context};

/// The marker of the impl for an object without an `Arc`.
#[derive(Debug)]
pub enum Bare {}

/// Objects that are passed without an `Arc`; there are none.
#[diagnostic::on_unimplemented(
    message = "objects are shared: write `Arc<{O}>`",
    label = "an object without `Arc`",
    note = "several calls may use one cached object at the same time"
)]
pub trait HandsOver<O> {
    /// Never called.
    fn hand_over() -> O;
}

// It matches the type and then requires a trait that no type implements, so that the compiler
// shows the message of that trait.
impl<O: Send + 'static, S> Argument<O, S, Bare> for O
where
    Bare: HandsOver<O>,
{
    fn extract(_: &Context<O, S>) -> Self {
        Bare::hand_over()
    }
}
