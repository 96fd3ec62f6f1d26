//! The children of the owner, as handlers get them.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kooper_access::Conditions;
use kooper_access::extract::{Argument, Context};
use kooper_runtime::{BoxError, Result};

use crate::function::{AnyObject, ChildFn, Form};
use crate::plan::SlotState;

thread_local! {
    /// The children of the call whose arguments are being extracted.
    static CURRENT: RefCell<Option<Arc<Vec<SlotChildren>>>> = const { RefCell::new(None) };
}

/// The children of one slot.
pub(crate) struct SlotChildren {
    pub(crate) id: TypeId,
    pub(crate) name: String,
    pub(crate) state: SlotState,
    /// `true` if it counts for the owner's `Ready`.
    pub(crate) counts: bool,
    pub(crate) objects: Vec<AnyObject>,
}

/// The declared children of the object that a handler is called for: an argument of handlers that are made by
/// [`Declared::handler`](crate::Declared::handler).
pub struct Children<P> {
    slots: Arc<Vec<SlotChildren>>,
    owner: PhantomData<fn(P)>,
}

impl<P> Children<P> {
    pub(crate) fn new(slots: Vec<SlotChildren>) -> Self {
        Self { slots: Arc::new(slots), owner: PhantomData }
    }

    /// The children of a slot, as they are after this pass: `Option<Arc<T>>`, or `Vec<Arc<T>>` for a function that
    /// returns a list. The children of a slot that is held or has failed are those from before.
    ///
    /// # Errors
    /// If the function is not declared as a child of this controller.
    pub fn get<F: ChildFn<P, M>, M>(&self, slot: F) -> Result<<F::Form as Form>::Got> {
        let _ = slot;
        let objects = &self.find::<F>()?.objects;
        let typed: Option<Vec<Arc<_>>> = objects.iter().map(|object| object.clone().downcast().ok()).collect();
        typed.map(F::Form::got).ok_or_else(|| BoxError::from("a child is of another kind"))
    }

    /// The state of a slot.
    ///
    /// # Errors
    /// If the function is not declared as a child of this controller.
    pub fn state<F: ChildFn<P, M>, M>(&self, slot: F) -> Result<&SlotState> {
        let _ = slot;
        Ok(&self.find::<F>()?.state)
    }

    /// The names of the slots with their states, in the order of their declaration.
    pub fn states(&self) -> impl Iterator<Item = (&str, &SlotState)> + Clone {
        self.slots.iter().map(|slot| (slot.name.as_str(), &slot.state))
    }

    /// Sets `Ready`, and `Reconciling` while slots wait. `Ready` is `False` while a slot is held, has failed or is not
    /// ready, also if its children from before are healthy. Without children the owner is ready.
    pub fn report(&self, conditions: &mut Conditions) {
        let counted = || self.slots.iter().filter(|slot| slot.counts);
        for slot in counted() {
            if let SlotState::Failed(why) | SlotState::Unhealthy(why) = &slot.state {
                conditions.not_ready("Failed", format!("{}: {why}", slot.name));
                return;
            }
        }
        for slot in counted() {
            if let SlotState::Held(why) | SlotState::NotReady(why) = &slot.state {
                conditions.reconciling("Waiting", format!("{}: {why}", slot.name));
                return;
            }
        }
        conditions.ready("AsDeclared", "all children are ready");
    }

    fn find<F: 'static>(&self) -> Result<&SlotChildren> {
        let slot = self.slots.iter().find(|slot| slot.id == TypeId::of::<F>());
        let name = std::any::type_name::<F>();
        Ok(slot.ok_or_else(|| format!("`{name}` is not declared as a child of this controller"))?)
    }

    /// Calls a function in which these children are the current ones.
    pub(crate) fn lend<T>(&self, call: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<Vec<SlotChildren>>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.slots.clone())));
        call()
    }
}

impl<P> Clone for Children<P> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), owner: PhantomData }
    }
}

impl<P> fmt::Debug for Children<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.states()).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<P: Any + Send + Sync, S> Argument<P, S> for Children<P> {
    /// The arguments of a handler are extracted before its future is polled, on the thread that lends the children.
    fn extract(_: &Context<P, S>) -> Self {
        Self { slots: CURRENT.with_borrow(|current| current.clone().unwrap_or_default()), owner: PhantomData }
    }
}
