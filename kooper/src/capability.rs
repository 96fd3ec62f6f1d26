//! What a handler may do with the API server: arguments that each grant one verb.

pub mod by;
mod entry;
mod reader;
mod verb;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::call::Call;
use crate::extract::{Argument, Backing, InitArgument, Input};
use crate::plan::Plan;

pub use by::{Index, Selection};
pub use entry::Entry;
pub use verb::{MayRead, Verb};

/// Access to the objects of the kind `T`, granted by the verb `V`: take one of
/// the aliases as an argument.
pub struct Access<T, V> {
    pub(crate) backing: Arc<Backing>,
    /// The call that it is for; none in `init` and map fns.
    pub(crate) call: Option<Call>,
    kind: PhantomData<fn() -> (T, V)>,
}

/// Gets and lists from a cache that is synced before the first call.
pub type Reader<T> = Access<T, verb::Read>;

impl<T, V> Access<T, V> {
    /// What a controller may do outside of a call.
    pub(crate) fn of(backing: &Arc<Backing>) -> Self {
        Self { backing: backing.clone(), call: None, kind: PhantomData }
    }
}

impl<T, V> Clone for Access<T, V> {
    fn clone(&self) -> Self {
        Self { backing: self.backing.clone(), call: self.call.clone(), kind: PhantomData }
    }
}

impl<T, V> std::fmt::Debug for Access<T, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("backing", &self.backing).field("call", &self.call).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S, T: 'static, V: Verb<T, M>, M> Argument<O, S, (T, M)> for Access<T, V> {
    fn plan(plan: &mut Plan) {
        V::plan(plan);
    }

    fn extract(input: &Input<O, S>) -> Self {
        Self { backing: input.backing.clone(), call: Some(input.call.clone()), kind: PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<T: 'static, V: Verb<T, M>, M> InitArgument<(T, M)> for Access<T, V> {
    fn plan(plan: &mut Plan) {
        V::plan(plan);
    }

    fn take(backing: &Arc<Backing>) -> Self {
        Self::of(backing)
    }
}
