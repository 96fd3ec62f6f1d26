//! The entries of the keys that the queue knows.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use hashbrown::HashTable;

use super::EntryId;
use super::entry::KeyEntry;
use crate::object::key::ObjectKey;

/// The number of tables that the keys are spread over. A table that grows hashes all
/// its keys while the queue is locked, so each must stay small.
const SHARDS: usize = 256;

/// The number of entries in a chunk.
const CHUNK: usize = 4096;

/// A table of entries that grows and shrinks in small steps, however many keys it has.
#[derive(Debug)]
pub(super) struct Entries {
    hasher: RandomState,
    /// The ids of the entries by the hashes of their keys. The keys are in the entries only.
    ids: Vec<HashTable<EntryId>>,
    chunks: Vec<Chunk>,
    /// The chunks that have room.
    open: BTreeSet<usize>,
    known: usize,
}

/// Some entries. They never move, and their memory is freed with the last one.
#[derive(Debug, Default)]
struct Chunk {
    entries: Vec<Option<Box<KeyEntry>>>,
    /// The places among them that are empty.
    free: Vec<usize>,
}

impl Default for Entries {
    fn default() -> Self {
        let ids = (0..SHARDS).map(|_| HashTable::new()).collect();
        Self { hasher: RandomState::new(), ids, chunks: Vec::new(), open: BTreeSet::new(), known: 0 }
    }
}

impl Entries {
    /// The entry of a key, if it has one.
    pub(super) fn find(&self, key: &ObjectKey) -> Option<EntryId> {
        self.find_hashed(self.hasher.hash_one(key), key)
    }

    fn find_hashed(&self, hash: u64, key: &ObjectKey) -> Option<EntryId> {
        let is_it = |id: &EntryId| self.get(*id).is_some_and(|entry| entry.key == *key);
        self.ids.get(shard(hash))?.find(hash, is_it).copied()
    }

    /// The entry of a key. Creates it if it does not exist.
    pub(super) fn get_or_create(&mut self, key: &ObjectKey) -> EntryId {
        let hash = self.hasher.hash_one(key);
        if let Some(id) = self.find_hashed(hash, key) {
            return id;
        }
        let id = self.insert(KeyEntry::new(key.clone()));
        if let Some(ids) = self.ids.get_mut(shard(hash)) {
            ids.insert_unique(hash, id, |id| hash_of(*id, &self.chunks, &self.hasher));
        }
        self.known += 1;
        id
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&KeyEntry> {
        entry_of(id, &self.chunks)
    }

    pub(super) fn get_mut(&mut self, id: EntryId) -> Option<&mut KeyEntry> {
        self.chunks.get_mut(id as usize / CHUNK)?.entries.get_mut(id as usize % CHUNK)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        let index = id as usize / CHUNK;
        let Some(entry) = self.chunks.get_mut(index).and_then(|chunk| chunk.remove(id as usize % CHUNK)) else {
            return;
        };
        let hash = self.hasher.hash_one(&entry.key);
        if let Some(ids) = self.ids.get_mut(shard(hash)) {
            if let Ok(found) = ids.find_entry(hash, |other| *other == id) {
                found.remove();
            }
            shrink(ids, |id| hash_of(*id, &self.chunks, &self.hasher));
        }
        self.open.insert(index);
        self.known -= 1;
        while self.chunks.pop_if(|last| last.entries.is_empty()).is_some() {
            self.open.remove(&self.chunks.len());
        }
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.known
    }

    /// The range of the entries' ids. Not every id in it has an entry.
    pub(super) fn ids(&self) -> Range<EntryId> {
        let chunks = self.chunks.len().saturating_sub(1) * CHUNK;
        0..(chunks + self.chunks.last().map_or(0, |chunk| chunk.entries.len())) as EntryId
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeyEntry> {
        self.chunks.iter().flat_map(|chunk| &chunk.entries).flatten().map(|entry| &**entry)
    }

    fn insert(&mut self, entry: KeyEntry) -> EntryId {
        let index = self.open.first().copied().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            self.open.insert(self.chunks.len() - 1);
            self.chunks.len() - 1
        });
        let Some(chunk) = self.chunks.get_mut(index) else { return EntryId::MAX };
        let place = chunk.insert(entry);
        if chunk.is_full() {
            self.open.remove(&index);
        }
        (index * CHUNK + place) as EntryId
    }
}

fn entry_of(id: EntryId, chunks: &[Chunk]) -> Option<&KeyEntry> {
    chunks.get(id as usize / CHUNK)?.entries.get(id as usize % CHUNK)?.as_deref()
}

fn hash_of(id: EntryId, chunks: &[Chunk], hasher: &RandomState) -> u64 {
    entry_of(id, chunks).map_or(0, |entry| hasher.hash_one(&entry.key))
}

/// The index of a hash's table. Its other bits are those by which the table orders its entries.
fn shard(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.free.is_empty() && self.entries.len() == CHUNK
    }

    fn insert(&mut self, entry: KeyEntry) -> usize {
        let entry = Some(Box::new(entry));
        if let Some(place) = self.free.pop()
            && let Some(slot) = self.entries.get_mut(place)
        {
            *slot = entry;
            return place;
        }
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn remove(&mut self, place: usize) -> Option<Box<KeyEntry>> {
        let entry = self.entries.get_mut(place)?.take()?;
        self.free.push(place);
        if self.free.len() == self.entries.len() {
            *self = Self::default();
        }
        Some(entry)
    }
}

/// Gives the memory of removed entries back. The table is small, so this is a short step.
fn shrink(ids: &mut HashTable<EntryId>, hash: impl Fn(&EntryId) -> u64) {
    if ids.capacity() > 4 * ids.len() + 32 || ids.is_empty() {
        ids.shrink_to(2 * ids.len(), hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> ObjectKey {
        ObjectKey::namespaced("ns", &n.to_string())
    }

    #[test]
    fn a_large_table_does_not_move_entries_and_keeps_its_tables_small() {
        let mut entries = Entries::default();
        let first = entries.get_or_create(&key(0));
        let address = std::ptr::from_ref(entries.get(first).unwrap());
        for n in 0..100_000 {
            assert_eq!(entries.get_or_create(&key(n)), n);
        }
        assert_eq!(std::ptr::from_ref(entries.get(first).unwrap()), address);
        assert_eq!(entries.ids(), 0..100_000);
        let largest = entries.ids.iter().map(HashTable::len).max().unwrap();
        assert!(largest < 2 * 100_000 / SHARDS, "{largest} keys in one table");
    }

    #[test]
    fn keys_are_found_after_their_tables_have_grown_and_shrunk() {
        let mut entries = Entries::default();
        for n in 0..100_000 {
            entries.get_or_create(&key(n));
        }
        assert!((0..100_000).all(|n| entries.find(&key(n)) == Some(n)));
        let largest = |entries: &Entries| entries.ids.iter().map(HashTable::capacity).max();
        let grown = largest(&entries);
        (0..90_000).for_each(|id| entries.remove(id));
        assert!(largest(&entries) < grown);
        assert!((0..100_000).all(|n| entries.find(&key(n)) == (n >= 90_000).then_some(n)));
    }

    #[test]
    fn the_slot_of_a_removed_entry_is_reused() {
        let mut entries = Entries::default();
        let id = entries.get_or_create(&key(1));
        entries.get_or_create(&key(3));
        entries.remove(id);
        entries.remove(id);
        assert_eq!((entries.find(&key(1)), entries.len(), entries.ids()), (None, 1, 0..2));
        assert_eq!(entries.get_or_create(&key(2)), id);
        assert_eq!((entries.find(&key(2)), entries.len()), (Some(id), 2));
    }

    #[test]
    fn a_table_that_is_empty_again_keeps_neither_entries_nor_tables() {
        let mut entries = Entries::default();
        for n in 0..100_000 {
            entries.get_or_create(&key(n));
        }
        (0..100_000).rev().for_each(|id| entries.remove(id));
        assert_eq!(entries.len(), 0);
        assert_eq!((entries.chunks.capacity(), entries.open.len()), (0, 0));
        assert!(entries.ids.iter().all(|ids| ids.capacity() == 0));
        assert_eq!(entries.get_or_create(&key(1)), 0, "the first chunk is used again");
    }
}
