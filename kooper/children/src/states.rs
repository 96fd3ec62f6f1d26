//! The states of slots, for those who look at an object.

use std::collections::HashMap;
use std::time::Duration;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::observer::CallObserver;
use parking_lot::Mutex;

use crate::plan::SlotState;

/// The states of a controller's slots after the last pass over each object.
#[derive(Debug, Default)]
pub struct SlotStates(Mutex<HashMap<ObjectKey, Box<[SlotState]>>>);

/// The slots of an object, all of which are ready. Most objects are like this, and cost little memory.
const READY: [SlotState; 0] = [];

impl SlotStates {
    pub(crate) fn note<'a>(&self, key: &ObjectKey, states: impl Iterator<Item = &'a SlotState> + Clone) {
        let is_ready = states.clone().all(|state| *state == SlotState::Ready);
        let noted = if is_ready { READY.into() } else { states.cloned().collect() };
        self.0.lock().insert(key.clone(), noted);
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// The state of each slot of an object, in the order of their declaration. `None` before the first pass over the
    /// object, and while it is being deleted.
    #[must_use]
    pub fn of(&self, key: &ObjectKey, slots: usize) -> Option<Vec<SlotState>> {
        let noted = self.0.lock().get(key)?.to_vec();
        Some(if noted == READY { vec![SlotState::Ready; slots] } else { noted })
    }
}

impl CallObserver for SlotStates {
    fn gone(&self, key: &ObjectKey, _: Duration) {
        self.forget(key);
    }

    fn ignored(&self, key: &ObjectKey) {
        self.forget(key);
    }

    fn term_ended(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_an_object_are_known_from_its_first_pass_to_its_deletion() {
        let (states, key) = (SlotStates::default(), ObjectKey::namespaced("shop", "a"));
        assert_eq!(states.of(&key, 2), None);
        let waits = [SlotState::Ready, SlotState::Held("waits for config".to_owned())];
        states.note(&key, waits.iter());
        assert_eq!(states.of(&key, 2), Some(waits.to_vec()));
        states.note(&key, [SlotState::Ready, SlotState::Ready].iter());
        assert_eq!(states.of(&key, 2), Some(vec![SlotState::Ready; 2]));
        states.gone(&key, Duration::ZERO);
        assert_eq!(states.of(&key, 2), None);
        states.note(&key, waits.iter());
        states.term_ended();
        assert_eq!(states.of(&key, 2), None);
    }
}
