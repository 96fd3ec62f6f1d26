//! The objects that functions may be called for now.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::leader::shard::{Shard, Work};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::{Admission, Grant};

/// Why no function is called for an object.
pub(crate) enum GrantDenial {
    Later,
    Never,
}

/// The objects that functions may be called for now, and the keys of those that wait.
pub(crate) struct Grants {
    pub(crate) admission: Arc<dyn Admission>,
    /// `None` if all objects are handled.
    shards: Option<Mutex<HandledShards>>,
}

/// Returns `true` if an object is in one of these shards, which are of one map.
pub(crate) fn is_in_one_of(shards: &BTreeSet<Shard>, admission: &dyn Admission, object: &Object) -> bool {
    let Some(first) = shards.first() else { return false };
    let has = |index: u16| shards.range(Shard::new(index, 0, 0)..).next().is_some_and(|shard| shard.index == index);
    // Whose shard it is need not be known if all are in the set.
    shards.len() == usize::from(first.count) || admission.index(object, first.count).is_some_and(has)
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
        let shards = admission.shards().map(|_| Mutex::default());
        Self { admission, shards }
    }

    /// The shard in whose term a function may be called for an object. A key that is refused for now
    /// is queued again when that changes, as is one that waits for another reason.
    pub(crate) fn granted(&self, key: &ObjectKey, object: &Object, waits: bool) -> Result<Option<Work>, GrantDenial> {
        self.decide(key, waits, || self.admission.grants(object))
    }

    /// The same, for a call of `deleted`. The key may still wait for calls for others of its objects.
    pub(crate) fn granted_deleted(&self, key: &ObjectKey, object: &Object) -> Result<Option<Work>, GrantDenial> {
        self.decide(key, false, || self.admission.grants_deleted(object))
    }

    fn decide(&self, key: &ObjectKey, waits: bool, grant: impl Fn() -> Grant) -> Result<Option<Work>, GrantDenial> {
        let Some(shards) = &self.shards else { return Ok(None) };
        let (mut refused, mut had_shards) = (GrantDenial::Later, false);
        // Again after the key was noted: it may have been granted before.
        for _ in 0..2 {
            let grant = grant();
            let mut state = shards.lock();
            refused = match grant {
                Grant::Free => return Ok(None),
                Grant::Shard(work) if state.handled.contains(&work.term().shard()) => {
                    // Mostly there is none, and nothing to hash.
                    if !waits && !state.waiting.is_empty() {
                        state.waiting.remove(key);
                    }
                    return Ok(Some(work));
                }
                Grant::Never if had_shards => GrantDenial::Never,
                _ => GrantDenial::Later,
            };
            // Without one, as during the first lists or without a session, the next one may be that of the object.
            had_shards = !state.handled.is_empty();
            state.waiting.insert(key.clone());
        }
        Err(refused)
    }

    /// Returns `true` if an object of the caches is in no shard that is handled. When its shard is, all objects of the shard
    /// are queued.
    pub(crate) fn waits(&self, object: &Object) -> bool {
        let Some(shards) = &self.shards else { return false };
        !is_in_one_of(&shards.lock().handled, &*self.admission, object)
    }

    /// Lets calls begin in these shards only. Returns the keys that were refused: whether their objects are granted must be
    /// asked again.
    pub(crate) fn handle(&self, handled: BTreeSet<Shard>) -> HashSet<ObjectKey> {
        let Some(shards) = &self.shards else { return HashSet::new() };
        let mut state = shards.lock();
        state.handled = handled;
        std::mem::take(&mut state.waiting)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::leader::shard::ShardTerm;

    /// Never cancelled.
    static TOKEN: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

    fn shard(index: u16) -> Shard {
        Shard::new(index, 32, 1)
    }

    /// Grants each object in the first shard.
    pub(crate) struct First;

    impl Admission for First {
        fn grants(&self, _: &Object) -> Grant {
            Grant::Shard(Work::begin(Arc::new(Self)))
        }

        fn shards(&self) -> Option<watch::Receiver<BTreeSet<Shard>>> {
            Some(watch::Sender::default().subscribe())
        }

        fn index(&self, _: &Object, _: u16) -> Option<u16> {
            Some(0)
        }
    }

    impl ShardTerm for First {
        fn shard(&self) -> Shard {
            shard(0)
        }

        fn is_held(&self) -> bool {
            true
        }

        fn ended(&self) -> &CancellationToken {
            &TOKEN
        }

        fn leaving(&self) -> &CancellationToken {
            &TOKEN
        }

        fn begin(&self) {}

        fn end(&self) {}
    }

    #[test]
    fn an_object_waits_while_its_shard_is_not_handled() {
        let object = Object::parse(br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#).unwrap();
        let grants = Grants::new(Arc::new(First));
        assert!(grants.waits(&object));
        assert_eq!(grants.handle([shard(1)].into_iter().collect()), HashSet::new(), "it is queued with its shard");
        assert!(grants.waits(&object));
        assert_eq!(grants.handle([shard(0)].into_iter().collect()), HashSet::new());
        assert!(!grants.waits(&object));
    }

    /// It places no object in a shard.
    struct Unplaced;

    impl Admission for Unplaced {
        fn shards(&self) -> Option<watch::Receiver<BTreeSet<Shard>>> {
            Some(watch::Sender::default().subscribe())
        }
    }

    #[test]
    fn a_replica_with_all_shards_handles_each_object_without_its_shard() {
        let object = Object::parse(br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#).unwrap();
        let grants = Grants::new(Arc::new(Unplaced));
        let waits_with = |shards| {
            grants.handle((0..shards).map(shard).collect());
            grants.waits(&object)
        };
        assert_eq!([0, 31, 32].map(waits_with), [true, true, false]);
    }

    #[test]
    fn a_key_waits_for_another_of_its_objects_although_it_is_granted() {
        let object = Object::parse(br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#).unwrap();
        let (key, grants) = (object.key(), Grants::new(Arc::new(First)));
        assert!(grants.granted(key, &object, false).is_err());
        let noted = |waits: bool| {
            grants.handle([shard(1)].into_iter().collect());
            assert!(grants.granted_deleted(key, &object).is_err(), "its shard is another one");
            grants.shards.as_ref().unwrap().lock().handled = [shard(0)].into_iter().collect();
            assert!(grants.granted(key, &object, waits).is_ok());
            grants.handle(BTreeSet::new())
        };
        assert_eq!(noted(true), [key.clone()].into());
        assert_eq!(noted(false), HashSet::new());
    }

    #[test]
    fn a_refused_key_waits_until_its_shard_is_handled() {
        let object = Object::parse(br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#).unwrap();
        let (key, grants) = (object.key(), Grants::new(Arc::new(First)));
        let is_granted = || grants.granted(key, &object, false).is_ok();
        assert!(!is_granted());
        assert_eq!(grants.handle([shard(1)].into_iter().collect()), [key.clone()].into(), "it is asked for again");
        assert!(!is_granted());
        assert_eq!(grants.handle([shard(0)].into_iter().collect()), [key.clone()].into());
        assert!(is_granted());
        assert_eq!(grants.handle(BTreeSet::new()), HashSet::new(), "it is noted no more");
        assert!(!is_granted());
    }
}
