//! The entries of the keys that the queue knows.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::EntryId;
use super::entry::KeyEntry;
use crate::object::key::ObjectKey;

/// The number of maps that the keys are spread over. A map that grows moves all
/// its entries while the queue is locked, so each must stay small.
const SHARDS: usize = 256;

/// The number of entries in a chunk. Chunks never move.
const CHUNK: usize = 4096;

/// A table of entries that grows in small steps, however many keys it has.
#[derive(Debug)]
pub(super) struct Entries {
    hasher: RandomState,
    ids: Vec<HashMap<ObjectKey, EntryId>>,
    chunks: Vec<Vec<Option<KeyEntry>>>,
    free: Vec<EntryId>,
    known: usize,
}

impl Default for Entries {
    fn default() -> Self {
        let ids = (0..SHARDS).map(|_| HashMap::new()).collect();
        Self { hasher: RandomState::new(), ids, chunks: Vec::new(), free: Vec::new(), known: 0 }
    }
}

impl Entries {
    /// The entry of a key, if it has one.
    pub(super) fn find(&self, key: &ObjectKey) -> Option<EntryId> {
        self.ids.get(self.shard(key))?.get(key).copied()
    }

    /// The entry of a key. Creates it if it does not exist.
    pub(super) fn get_or_create(&mut self, key: &ObjectKey) -> EntryId {
        let shard = self.shard(key);
        if let Some(&id) = self.ids.get(shard).and_then(|ids| ids.get(key)) {
            return id;
        }
        let entry = KeyEntry::new(key.clone());
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.slot(id) {
                    *slot = Some(entry);
                }
                id
            }
            None => self.push(entry),
        };
        if let Some(ids) = self.ids.get_mut(shard) {
            ids.insert(key.clone(), id);
        }
        self.known += 1;
        id
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&KeyEntry> {
        self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: EntryId) -> Option<&mut KeyEntry> {
        self.slot(id)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.slot(id).and_then(Option::take) else { return };
        let shard = self.shard(&entry.key);
        if let Some(ids) = self.ids.get_mut(shard) {
            ids.remove(&entry.key);
        }
        self.free.push(id);
        self.known -= 1;
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.known
    }

    /// The range of the entries' ids. Not every id in it has an entry.
    pub(super) fn ids(&self) -> Range<EntryId> {
        let chunks = self.chunks.len().saturating_sub(1) * CHUNK;
        0..(chunks + self.chunks.last().map_or(0, Vec::len)) as EntryId
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeyEntry> {
        self.chunks.iter().flatten().flatten()
    }

    fn push(&mut self, entry: KeyEntry) -> EntryId {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let Some(chunk) = self.chunks.last_mut() else { return EntryId::MAX };
        chunk.push(Some(entry));
        (before + chunk.len() - 1) as EntryId
    }

    fn slot(&mut self, id: EntryId) -> Option<&mut Option<KeyEntry>> {
        self.chunks.get_mut(id as usize / CHUNK)?.get_mut(id as usize % CHUNK)
    }

    /// The index of a key's map.
    fn shard(&self, key: &ObjectKey) -> usize {
        (self.hasher.hash_one(key) % SHARDS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> ObjectKey {
        ObjectKey::namespaced("ns", &n.to_string())
    }

    #[test]
    fn a_large_table_does_not_move_entries_and_keeps_its_maps_small() {
        let mut entries = Entries::default();
        let first = entries.get_or_create(&key(0));
        let address = std::ptr::from_ref(entries.get(first).unwrap());
        for n in 0..100_000 {
            assert_eq!(entries.get_or_create(&key(n)), n);
        }
        assert_eq!(std::ptr::from_ref(entries.get(first).unwrap()), address);
        assert_eq!(entries.ids(), 0..100_000);
        let largest = entries.ids.iter().map(HashMap::len).max().unwrap();
        assert!(largest < 2 * 100_000 / SHARDS, "{largest} keys in one map");
    }

    #[test]
    fn the_slot_of_a_removed_entry_is_reused() {
        let mut entries = Entries::default();
        let id = entries.get_or_create(&key(1));
        entries.remove(id);
        entries.remove(id);
        assert_eq!((entries.find(&key(1)), entries.len(), entries.ids()), (None, 0, 0..1));
        assert_eq!(entries.get_or_create(&key(2)), id);
        assert_eq!((entries.find(&key(2)), entries.len()), (Some(id), 1));
    }
}
