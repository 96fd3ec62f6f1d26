//! The map: which session owns which shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use kooper_base::leader::scope::WatchedNamespaces;
use serde::{Deserialize, Serialize};

use crate::hash::{Shard, ShardCount, ShardField};
use crate::overrides::Overrides;
use crate::session::{Session, SessionError};

/// The owner of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ownership {
    /// `None` if the shard is free.
    pub(crate) owner: Option<Session>,
    /// It rises with every change of the owner, also when the map was deleted and is created
    /// again: the number for fences. 0 only in a map that was just created.
    pub(crate) term: u64,
}

/// The owners of all shards. It is replaced by compare-and-swap only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardMap {
    by: ShardField,
    count: ShardCount,
    /// As many as `count`.
    shards: Vec<Ownership>,
}

/// The highest term of a map that is read. Terms rise by one at a time from the version of an object, which has 63 bits.
const HIGHEST_TERM: u64 = u64::MAX / 2;

/// Why the text of a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapError {
    /// It is not JSON, or not of this form.
    #[error("the map of the shards cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A session in it is invalid.
    #[error("the map of the shards names an invalid session: {0}")]
    Session(#[from] SessionError),
    /// There are more or fewer shards in it than it says.
    #[error("the map of the shards has {found} of {count} shards")]
    Count {
        /// The shards in the text.
        found: usize,
        /// The number of shards that it states.
        count: u16,
    },
    /// The owner of a shard is not among its sessions.
    #[error("the map of the shards has no session {0}")]
    Owner(usize),
    /// No higher terms can follow.
    #[error("the map of the shards has the term {0}, which is too high")]
    Term(u64),
}

/// The form in the annotation. Sessions are written once, because they are long.
#[derive(Serialize, Deserialize)]
struct Stored {
    by: ShardField,
    count: ShardCount,
    sessions: Vec<String>,
    /// The index of the owner, and the term.
    shards: Vec<(Option<usize>, u64)>,
}

impl ShardMap {
    /// A map whose shards are free. Terms are higher than `term`.
    pub(crate) fn new(by: ShardField, count: ShardCount, term: u64) -> Self {
        Self { by, count, shards: vec![Ownership { owner: None, term }; count.get().into()] }
    }

    /// The field that decides the shard of an object.
    pub(crate) fn by(&self) -> ShardField {
        self.by
    }

    /// The number of shards.
    pub(crate) fn count(&self) -> ShardCount {
        self.count
    }

    /// The owner of a shard; `None` if there is no such shard.
    pub(crate) fn get(&self, shard: Shard) -> Option<&Ownership> {
        self.shards.get(shard.index())
    }

    /// All shards and their owners.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Shard, &Ownership)> {
        self.count.shards().zip(&self.shards)
    }

    /// Gives a shard to another owner, in a new term. Does nothing if it has that owner.
    pub(crate) fn assign(&mut self, shard: Shard, owner: Option<Session>) {
        self.assign_after(shard, owner, 0);
    }

    /// The same, in a term that is also higher than `term`.
    pub(crate) fn assign_after(&mut self, shard: Shard, owner: Option<Session>, term: u64) {
        if let Some(ownership) = self.shards.get_mut(shard.index())
            && ownership.owner != owner
        {
            *ownership = Ownership { owner, term: ownership.term.max(term) + 1 };
        }
    }

    /// Splits every shard, as often as it takes to have `count` of them. Owners and terms stay,
    /// so that no call is disturbed.
    pub(crate) fn split(&mut self, count: ShardCount) {
        let parts = usize::from(count.get() / self.count.get()).max(1);
        self.shards = self.shards.drain(..).flat_map(|shard| std::iter::repeat_n(shard, parts)).collect();
        self.count = self.count.max(count);
    }

    /// Returns `true` if no shard ever had an owner: the map was just created.
    pub(crate) fn is_new(&self) -> bool {
        self.highest_term() == 0
    }

    pub(crate) fn highest_term(&self) -> u64 {
        self.shards.iter().map(|shard| shard.term).max().unwrap_or_default()
    }

    /// Reads the text of the annotation.
    ///
    /// # Errors
    /// If the text is not that of a map.
    pub(crate) fn parse(text: &str) -> Result<Self, MapError> {
        let Stored { by, count, sessions, shards } = serde_json::from_str(text)?;
        if shards.len() != usize::from(count.get()) {
            return Err(MapError::Count { found: shards.len(), count: count.get() });
        }
        if let Some((_, term)) = shards.iter().find(|(_, term)| *term > HIGHEST_TERM) {
            return Err(MapError::Term(*term));
        }
        let sessions = sessions.iter().map(|session| session.parse()).collect::<Result<Vec<Session>, _>>()?;
        let owner = |index: usize| sessions.get(index).cloned().ok_or(MapError::Owner(index));
        let shards = shards
            .into_iter()
            .map(|(index, term)| Ok(Ownership { owner: index.map(owner).transpose()?, term }))
            .collect::<Result<_, MapError>>()?;
        Ok(Self { by, count, shards })
    }

    /// The text of the annotation.
    ///
    /// # Errors
    /// Never for a map: its numbers and texts can all be written as JSON.
    pub(crate) fn to_text(&self) -> serde_json::Result<String> {
        let owners = self.shards.iter().filter_map(|shard| shard.owner.as_ref());
        let mut indices: BTreeMap<&Session, usize> = owners.map(|owner| (owner, 0)).collect();
        let mut sessions = Vec::with_capacity(indices.len());
        for (session, index) in &mut indices {
            *index = sessions.len();
            sessions.push(session.to_string());
        }
        let shards = self.shards.iter().map(|shard| {
            let owner = shard.owner.as_ref().and_then(|owner| indices.get(owner).copied());
            (owner, shard.term)
        });
        serde_json::to_string(&Stored { by: self.by, count: self.count, shards: shards.collect(), sessions })
    }
}

#[cfg(test)]
impl ShardMap {
    /// Takes the terms of another map over.
    pub(crate) fn keep_terms(&mut self, other: &Self) {
        for (shard, other) in self.shards.iter_mut().zip(&other.shards) {
            shard.term = other.term;
        }
    }
}

/// A map with its resource version.
#[derive(Debug, Clone)]
pub(crate) struct MapRecord {
    /// The uid of its Lease: a map that was deleted and created again has another one.
    pub(crate) uid: Arc<str>,
    /// The resource version of its Lease.
    pub(crate) version: Arc<str>,
    pub(crate) map: Arc<ShardMap>,
    /// The requests of a person for the plan.
    pub(crate) overrides: Arc<Overrides>,
    /// The namespaces that the replica which wrote it watches, if they are known.
    pub(crate) scope: Option<WatchedNamespaces>,
}

/// A map to write. What overrides it stays as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct MapWrite {
    /// The version that it replaces; `None` creates the Lease.
    pub(crate) base: Option<Arc<str>>,
    /// The map; `None` returns the Lease to leader election.
    pub(crate) map: Option<Arc<ShardMap>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u8) -> Session {
        Session { slot, acquired: 17, identity: "shop-7d4b9_0a1b".into() }
    }

    fn count(count: u16) -> ShardCount {
        count.try_into().unwrap()
    }

    #[test]
    fn a_map_is_read_as_it_is_written() {
        let mut map = ShardMap::new(ShardField::Uid, count(4), 7);
        map.assign(Shard(1), Some(session(2)));
        map.assign(Shard(3), Some(session(0)));
        let text = map.to_text().unwrap();
        assert_eq!(
            text,
            r#"{"by":"uid","count":4,"sessions":["0/17/shop-7d4b9_0a1b","2/17/shop-7d4b9_0a1b"],"shards":[[null,7],[1,8],[null,7],[0,8]]}"#
        );
        assert_eq!(ShardMap::parse(&text).unwrap(), map);
    }

    #[test]
    fn a_map_that_was_edited_by_hand_is_refused() {
        for (text, error) in [
            ("", "the map of the shards cannot be read: EOF while parsing a value at line 1 column 0"),
            (r#"{"by":"uid","count":2,"sessions":[],"shards":[[null,1]]}"#, "the map of the shards has 1 of 2 shards"),
            (r#"{"by":"uid","count":1,"sessions":[],"shards":[[3,1]]}"#, "the map of the shards has no session 3"),
            (
                r#"{"by":"uid","count":1,"sessions":[],"shards":[[null,18446744073709551614]]}"#,
                "the map of the shards has the term 18446744073709551614, which is too high",
            ),
            (
                r#"{"by":"uid","count":1,"sessions":["x"],"shards":[[0,1]]}"#,
                "the map of the shards names an invalid session: `x` is not a session: slot/time/identity",
            ),
        ] {
            assert_eq!(ShardMap::parse(text).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_new_owner_has_a_new_term_and_a_split_keeps_both() {
        let mut map = ShardMap::new(ShardField::Uid, count(2), 0);
        map.assign(Shard(1), Some(session(0)));
        map.assign(Shard(1), Some(session(0)));
        assert_eq!(map.get(Shard(1)).unwrap().term, 1);
        map.assign(Shard(1), Some(session(1)));
        map.split(count(8));
        let terms: Vec<u64> = map.iter().map(|(_, shard)| shard.term).collect();
        assert_eq!(terms, [0, 0, 0, 0, 2, 2, 2, 2]);
        assert_eq!(map.get(Shard(7)).unwrap().owner, Some(session(1)));
        assert_eq!((map.count(), map.highest_term()), (count(8), 2));
    }

    #[test]
    fn the_largest_map_fits_into_an_annotation() {
        let mut map = ShardMap::new(ShardField::Uid, count(256), 1_000_000_000_000);
        for shard in map.count().shards() {
            let identity = "a-controller-with-a-long-name-7d4b9c8f6d-x2x9z_0f0e0d0c-0b0a-4908-8706-050403020100";
            map.assign(
                shard,
                Some(Session { slot: shard.0 % 64, acquired: 1_700_000_000_000_000, identity: identity.into() }),
            );
        }
        assert!(map.to_text().unwrap().len() < 16 * 1024);
    }
}
