//! The children of the owner, as handlers get them.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kooper_access::Conditions;
use kooper_access::extract::{Argument, Context};
use kooper_runtime::{Call, Result};

use crate::function::{ChildFn, Form};
use crate::observed::ChildId;
use crate::plan::SlotState;
use crate::record::ChildObject;
use crate::typed::typed;

/// Reads the children of an owner whose cleanup is called without an ordered deletion. An `Option` of it is an extension of
/// the controller, and an `Option` of [`Children`] one of a call.
pub(crate) type ReadChildren<P, S> = Arc<dyn Fn(&Context<P, S>) -> Children<P> + Send + Sync>;

/// A child of a removed slot that still exists, and why its deletion was refused.
pub(crate) type Undeleted = Option<(ChildId, Option<String>)>;

pub(crate) struct SlotChildren {
    pub(crate) id: TypeId,
    pub(crate) name: String,
    pub(crate) state: SlotState,
    /// `true` if it counts for the owner's `Ready`.
    pub(crate) counts: bool,
    pub(crate) objects: Vec<ChildObject>,
}

/// The declared children of the object that a handler is called for: an argument of handlers that are made by
/// [`Declared::handler`](crate::Declared::handler), and of the cleanup beside them.
pub struct Children<P> {
    pub(crate) slots: Arc<Vec<SlotChildren>>,
    /// The reason for which the daemon of the object has failed.
    pub(crate) daemon: Option<String>,
    pub(crate) undeleted: Undeleted,
    owner: PhantomData<fn(P)>,
}

impl<P> Children<P> {
    pub(crate) fn new(slots: Vec<SlotChildren>, daemon: Option<String>, undeleted: Undeleted) -> Self {
        Self { slots: Arc::new(slots), daemon, undeleted, owner: PhantomData }
    }

    /// Returns the children of a slot, as they are after this pass: `Option<Arc<T>>`, or `Vec<Arc<T>>` for a function
    /// that returns a list. A slot that is held or has failed still has its previous children. A cleanup gets those that
    /// exist: after an [ordered deletion](crate::Declared::deletion) there are none left.
    ///
    /// # Errors
    /// If the function is not declared as a child of this controller, or a child does not decode.
    pub fn get<F: ChildFn<P, M>, M>(&self, slot: F) -> Result<<F::Form as Form>::Got> {
        let _ = slot;
        let objects = self.find::<F>()?.objects.iter();
        Ok(F::Form::got(objects.map(|object| typed(object.get()?)).collect::<Result<_>>()?))
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

    /// Sets the condition `Ready`, and `Reconciling` or `Stalled` if they hold. Use it in controllers with
    /// `status = none`; for all others, Kooper sets the conditions. `Ready` is `False` while a slot is held, has failed
    /// or is not ready, even if its previous children are healthy, and while a child of a removed slot is not gone that
    /// has to be pruned. Without children the owner is ready.
    pub fn report(&self, conditions: &mut Conditions) {
        let slots = || self.slots.iter().filter(|slot| slot.counts);
        let find = |is: fn(&SlotState) -> bool| slots().find(|slot| is(&slot.state));
        if let Some(slot) = find(|state| matches!(state, SlotState::Stalled(_))) {
            conditions.stalled("ChildRejected", slot.explain());
        } else if let Some(slot) = find(|state| matches!(state, SlotState::Unhealthy(_))) {
            conditions.stalled("ChildFailed", slot.explain());
        } else if let Some(slot) = find(|state| matches!(state, SlotState::Failed(_))) {
            conditions.not_ready("SlotFailed", slot.explain());
        } else if let Some((child, Some(why))) = &self.undeleted {
            conditions.not_ready("SlotFailed", format!("{child} of a removed slot is not deleted: {why}"));
        } else if let Some(why) = &self.daemon {
            conditions.not_ready("DaemonFailed", format!("the daemon has failed: {why}"));
        } else if let Some(slot) = find(|state| matches!(state, SlotState::NotReady(_) | SlotState::Pending)) {
            conditions.reconciling("ChildNotReady", slot.explain());
        } else if let Some(slot) = find(|state| matches!(state, SlotState::Held(_))) {
            conditions.reconciling("SlotHeld", slot.explain());
        } else if let Some((child, None)) = &self.undeleted {
            conditions.reconciling("Pruning", format!("waits until {child} of a removed slot is gone"));
        } else {
            conditions.ready("AsDeclared", "all children are ready");
        }
    }

    fn find<F: 'static>(&self) -> Result<&SlotChildren> {
        let mut slots = self.slots.iter().filter(|slot| slot.id == TypeId::of::<F>());
        let name = std::any::type_name::<F>();
        match (slots.next(), slots.next()) {
            (Some(slot), None) => Ok(slot),
            (Some(one), Some(other)) => Err(format!(
                "the functions of `{}` and `{}` have the same type: write two functions",
                one.name, other.name
            )
            .into()),
            (None, _) => Err(format!("`{name}` is not declared as a child of this controller").into()),
        }
    }
}

impl SlotChildren {
    /// The name of the slot and its state, as a sentence.
    fn explain(&self) -> String {
        let name = &self.name;
        match &self.state {
            SlotState::Failed(why) | SlotState::Stalled(why) | SlotState::Unhealthy(why) | SlotState::Held(why) => {
                format!("{name}: {why}")
            }
            SlotState::NotReady(why) => format!("waits for {name}: {why}"),
            SlotState::Pending | SlotState::Skipped | SlotState::Ready => format!("waits for {name}"),
        }
    }
}

/// The marker of an argument that only a handler can take, and not a daemon.
#[derive(Debug)]
pub enum OfCall {}

impl<P> Clone for Children<P> {
    fn clone(&self) -> Self {
        let (slots, daemon, undeleted) = (self.slots.clone(), self.daemon.clone(), self.undeleted.clone());
        Self { slots, daemon, undeleted, owner: PhantomData }
    }
}

impl<P> fmt::Debug for Children<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.states()).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<P: Any + Send + Sync, S: 'static> Argument<P, S, OfCall> for Children<P> {
    fn extract(context: &Context<P, S>) -> Self {
        let call = <Call as Argument<P, S, ()>>::extract(context);
        let existing = || {
            let read = context.extensions().get::<Option<ReadChildren<P, S>>>();
            Some((*read).as_ref()?(context))
        };
        let current = (*call.extensions.get::<Option<Children<P>>>()).clone().or_else(existing);
        current.unwrap_or_else(|| Self::new(Vec::new(), None, None))
    }
}
