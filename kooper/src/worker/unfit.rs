//! The objects that the type of the controller does not fit.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::health::Probe;
use crate::key::ObjectKey;

/// The keys whose objects could not be decoded when they were looked at last.
#[derive(Debug)]
pub(crate) struct Unfit {
    name: String,
    keys: Mutex<BTreeSet<ObjectKey>>,
}

impl Unfit {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), keys: Mutex::default() }
    }

    /// An object does not fit.
    pub(super) fn note(&self, key: &ObjectKey) {
        self.lock().insert(key.clone());
    }

    /// An object fits, or is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for Unfit {
    fn ready(&self) -> Result<Option<String>, String> {
        let (name, keys) = (&self.name, self.lock());
        Ok(keys.first().map(|key| match keys.len() {
            1 => format!("{name}: the object {key} does not fit the controller's type, and is not handled"),
            more => {
                format!("{name}: {more} objects do not fit the controller's type, and are not handled, such as {key}")
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_do_not_fit_are_told_until_they_do() {
        let unfit = Unfit::new("shoes");
        let key = |name: &str| ObjectKey::namespaced("shop", name);
        assert_eq!(unfit.ready(), Ok(None));
        unfit.note(&key("a"));
        unfit.note(&key("a"));
        assert!(unfit.ready().is_ok_and(|remark| remark.is_some_and(|remark| remark.contains("the object shop/a"))));
        unfit.note(&key("b"));
        assert!(unfit.ready().is_ok_and(|remark| remark.is_some_and(|remark| remark.contains("2 objects"))));
        unfit.forget(&key("a"));
        unfit.forget(&key("b"));
        assert_eq!(unfit.ready(), Ok(None));
    }
}
