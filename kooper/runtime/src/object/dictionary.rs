//! Compression dictionaries for the texts of a store.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

/// LZ4 reads the dictionary for each text again, so it must be short.
const LONGEST: usize = 8 << 10;

/// For fewer siblings, a dictionary takes more memory than it saves.
const FEWEST: u8 = 8;

/// The number of owners whose objects are counted at a time.
const MOST_COUNTED: usize = 4096;

/// A digest of the owner references of an object. Objects of the same owners are
/// siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owners(u64);

/// The dictionaries for the texts of one store.
///
/// Objects of a kind share their keys and many of their values. LZ4 finds them in
/// a dictionary, but not in a single short text. Siblings, such as the pods of one
/// ReplicaSet, share nearly everything: where there are many, they have a dictionary
/// of their own, for as long as a text needs it.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    /// For all others: the beginning of the store's first text.
    general: OnceLock<Arc<[u8]>>,
    siblings: Mutex<Siblings>,
}

#[derive(Debug, Default)]
struct Siblings {
    /// The number of objects of each of the latest owners.
    counts: HashMap<Owners, u8>,
    dictionaries: HashMap<Owners, Weak<[u8]>>,
    /// The number of dictionaries at which unused ones are removed.
    full: usize,
}

impl Dictionaries {
    /// The dictionary for the text of an object. A new version of an object that the
    /// store knows does not count as one more sibling.
    pub(super) fn choose(&self, text: &[u8], owners: Option<Owners>, known: bool) -> Arc<[u8]> {
        let beginning = || Arc::from(text.get(..text.len().min(LONGEST)).unwrap_or_default());
        let own = owners.and_then(|owners| {
            let mut siblings = self.siblings.lock();
            siblings.dictionary(owners).or_else(|| {
                let many = !known && siblings.count(owners) >= FEWEST;
                many.then(|| siblings.begin(owners, beginning()))
            })
        });
        own.unwrap_or_else(|| self.general.get_or_init(beginning).clone())
    }
}

impl Owners {
    /// The digest of the text of owner references.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(text);
        Self(hasher.finish())
    }
}

impl Siblings {
    fn dictionary(&self, owners: Owners) -> Option<Arc<[u8]>> {
        self.dictionaries.get(&owners)?.upgrade()
    }

    /// Counts one more object of these owners. Siblings are mostly created together
    /// and have similar names, so they come close together in a list, too. Only the
    /// latest owners are counted: a million objects of as many owners need no memory.
    fn count(&mut self, owners: Owners) -> u8 {
        if self.counts.len() >= MOST_COUNTED && !self.counts.contains_key(&owners) {
            self.counts.clear();
        }
        let count = self.counts.entry(owners).or_default();
        *count = count.saturating_add(1);
        *count
    }

    fn begin(&mut self, owners: Owners, dictionary: Arc<[u8]>) -> Arc<[u8]> {
        if self.dictionaries.len() >= self.full {
            self.dictionaries.retain(|_, dictionary| dictionary.strong_count() > 0);
            self.full = (self.dictionaries.len() * 2).max(64);
        }
        self.counts.remove(&owners);
        self.dictionaries.insert(owners, Arc::downgrade(&dictionary));
        dictionary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(n: usize) -> Option<Owners> {
        Some(Owners::of(format!("[{n}]").as_bytes()))
    }

    /// The dictionaries for new objects of these owners.
    fn choose(dictionaries: &Dictionaries, owners: Option<Owners>, objects: u8) -> Vec<Arc<[u8]>> {
        (0..objects).map(|n| dictionaries.choose(&[n], owners, false)).collect()
    }

    #[test]
    fn many_siblings_share_a_dictionary_of_their_own() {
        let dictionaries = Dictionaries::default();
        for owners in [owner(0), owner(1)] {
            let chosen = choose(&dictionaries, owners, 20);
            assert!(chosen[..7].iter().all(|general| **general == [0]), "{chosen:?}");
            assert!(chosen[7..].iter().all(|own| Arc::ptr_eq(own, &chosen[7]) && **own == [7]), "{chosen:?}");
        }
    }

    #[test]
    fn versions_of_one_object_are_not_siblings() {
        let dictionaries = Dictionaries::default();
        for version in 0..100 {
            assert_eq!(*dictionaries.choose(&[version], owner(0), version > 0), [0]);
        }
    }

    #[test]
    fn objects_without_owners_are_not_siblings() {
        let chosen = choose(&Dictionaries::default(), None, 100);
        assert!(chosen.iter().all(|general| **general == [0]));
    }

    #[test]
    fn siblings_that_are_gone_leave_no_dictionary() {
        let dictionaries = Dictionaries::default();
        for rollout in 0..10_000 {
            choose(&dictionaries, owner(rollout), 10);
        }
        let siblings = dictionaries.siblings.lock();
        assert!(siblings.dictionaries.len() <= 64, "{} dictionaries", siblings.dictionaries.len());
        assert!(siblings.counts.len() <= MOST_COUNTED, "{} counts", siblings.counts.len());
    }

    #[test]
    fn a_million_owners_of_one_object_are_not_remembered() {
        let dictionaries = Dictionaries::default();
        for n in 0..1_000_000 {
            choose(&dictionaries, owner(n), 1);
        }
        let siblings = dictionaries.siblings.lock();
        assert!(siblings.dictionaries.is_empty());
        assert!(siblings.counts.len() <= MOST_COUNTED, "{} counts", siblings.counts.len());
    }
}
