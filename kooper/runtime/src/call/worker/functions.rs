//! The functions of one controller, and which of them an object needs.

use std::sync::Arc;

use super::Tombstones;
use crate::call::attempt::Part;
use crate::call::finalizer::{Finalizers, ForgottenFinalizers, UnselectedObjects};
use crate::call::handler::{DeletedFunction, DynHandler, Predicate};
use crate::call::lookup::Lookup;
use crate::object::Object;

/// The functions that the calls of one controller run.
pub(crate) struct Functions {
    /// The handler, and `cleanup` before it where there is one.
    pub(crate) handler: Arc<dyn DynHandler>,
    /// The filter, evaluated before the queue and again before each call.
    pub(crate) wants: Predicate,
    /// The function for objects that are not handled only because they are paused, and which objects these are.
    pub(crate) paused: Option<(Predicate, Arc<dyn DynHandler>)>,
    /// `true` if the handler is also called for objects that are being deleted.
    pub(crate) while_deleting: bool,
    /// Finds objects that nothing is called for, and whose finalizer the handler has
    /// set; `None` if something is called for objects that are being deleted.
    pub(crate) forgotten_finalizers: Option<ForgottenFinalizers>,
    pub(crate) deleted: Option<Deletions>,
    /// The finalizers of a controller with `cleanup`.
    pub(crate) finalizers: Option<Finalizers>,
    /// Objects with the finalizer outside of the selector; `None` without a
    /// selector.
    pub(crate) unselected: Option<Arc<UnselectedObjects>>,
}

/// The function for `deleted`, and what it is called with.
pub(crate) struct Deletions {
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) function: DeletedFunction,
    /// Finds out whether a removed object has left the selector; `None`
    /// without a selector.
    pub(crate) lookup: Option<Lookup>,
}

impl Functions {
    /// The function that the next call of a selected object is for.
    pub(super) fn part_of(&self, object: &Object) -> Part {
        self.part_if(|finalizers| finalizers.hold(object))
    }

    /// The same for an object that the selector does not select.
    pub(super) fn part_of_unselected(&self, object: &Object) -> Part {
        self.part_if(|finalizers| finalizers.concern(object))
    }

    /// Returns `true` if no function is called for an object because it is being
    /// deleted.
    pub(super) fn ignores(&self, object: &Object) -> bool {
        object.is_terminating() && !self.while_deleting && self.part_of(object) == Part::Handler
    }

    fn part_if(&self, cleans: impl FnOnce(&Finalizers) -> bool) -> Part {
        if self.finalizers.as_ref().is_some_and(cleans) { Part::Cleanup } else { Part::Handler }
    }
}
