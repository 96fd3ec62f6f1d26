//! An argument that is nearly right, with a message of its own.

use super::{Argument, Context};

/// Marks the impl for an object that is not in an `Arc`.
#[derive(Debug)]
pub enum Bare {}

/// Objects that are handed over without an `Arc`: there are none.
#[diagnostic::on_unimplemented(
    message = "objects are shared: write `Arc<{O}>`",
    label = "an object without `Arc`",
    note = "several calls may use one cached object at the same time"
)]
pub trait HandsOver<O> {
    /// What nothing calls.
    fn hand_over() -> O;
}

// It matches the type and then demands what no type implements, so that the compiler shows the
// message of that demand.
impl<O: Send + 'static, S> Argument<O, S, Bare> for O
where
    Bare: HandsOver<O>,
{
    fn extract(_: &Context<O, S>) -> Self {
        Bare::hand_over()
    }
}
