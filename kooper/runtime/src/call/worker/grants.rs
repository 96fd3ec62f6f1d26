//! The objects that functions may be called for now.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::call::attempt::Work;
use crate::leader::shard::{Shard, ShardTerm};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::{Admission, Grant};

/// The term in which a function is called for an object, and what keeps its shard until it has ended.
type Granted = (Option<Arc<dyn ShardTerm>>, Option<Work>);

/// Why no function is called for an object.
pub(crate) enum Refused {
    Later,
    Never,
}

/// The objects that functions may be called for now, and the keys of those that wait.
pub(crate) struct Grants {
    pub(crate) admission: Arc<dyn Admission>,
    shards: Mutex<HandledShards>,
}

/// The shards whose objects are handled.
#[derive(Default)]
struct HandledShards {
    /// No call begins in others.
    handled: BTreeSet<Shard>,
    /// The keys whose objects were refused for now. They are not in the queue.
    waiting: HashSet<ObjectKey>,
}

impl Grants {
    pub(crate) fn new(admission: Arc<dyn Admission>) -> Self {
        Self { admission, shards: Mutex::default() }
    }

    /// The shard in whose term a function may be called for an object. A key that is refused for now
    /// is queued again when that changes.
    pub(crate) fn granted(&self, key: &ObjectKey, object: &Object) -> Result<Granted, Refused> {
        let mut grant = self.admission.grants(object);
        if matches!(grant, Grant::Later | Grant::Never) {
            self.shards.lock().waiting.insert(key.clone());
            // It may have been granted before the key was noted.
            grant = self.admission.grants(object);
        }
        match grant {
            Grant::Free => Ok((None, None)),
            Grant::Shard(term, work) => {
                let shard = term.shard();
                let mut shards = self.shards.lock();
                if shards.handled.contains(&shard) {
                    shards.waiting.remove(key);
                    return Ok((Some(term), Some(work.into())));
                }
                shards.waiting.insert(key.clone());
                Err(Refused::Later)
            }
            Grant::Later => Err(Refused::Later),
            Grant::Never => Err(Refused::Never),
        }
    }

    /// Lets calls begin in these shards only, of which some were `gained`; returns the keys that wait for another reason.
    pub(crate) fn handle(&self, shards: BTreeSet<Shard>, gained: &[ObjectKey]) -> HashSet<ObjectKey> {
        let mut state = self.shards.lock();
        state.handled = shards;
        let mut waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for key in gained {
            waiting.remove(key);
        }
        waiting
    }
}
