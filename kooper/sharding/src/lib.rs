//! Shards of the controllers of `kooper`: every replica works, and no object is in two hands.
//!
//! # Protocol
//!
//! Each replica holds one of a few slot Leases, by the protocol of leader election: that is its
//! session. One more Lease has the map of the shards, in an annotation. Both are
//! only written by compare-and-swap. Comments and tests refer to these rules by number.
//!
//! 1. A replica works on a shard while the map names its session, the token of the session is
//!    valid, its stored announcement names this map, and it has seen afterwards, within the time of
//!    a token, that the map exists.
//! 2. A shard is taken only if it is free, or the session of its owner has ended: it was released,
//!    or another replica has replaced it in its slot, after it had observed no renewal for a whole
//!    lease. That the lease has expired is not enough, because a renewal may be on its way.
//! 3. From a living owner a shard comes by a write of this owner, after its calls have ended. The
//!    same write names the successor, which has announced that its stores hold the shard.
//! 4. A release that was sent may be committed until the map has moved past its base. Until then
//!    the replica does not work on the shard, and sends the release again.
//! 5. Older versions of the map and of slots are ignored. If two reads in a row that were sent after the newer version
//!    had been received find one, etcd was restored from a backup: the replica begins again, and for a lease it has no
//!    session, works on no shard and writes no map.
//! 6. If a slot was deleted, its session may still work: others wait for a lease before they end it.
//!    A map that was deleted is created again without owners, because a creation replaces no
//!    version and so may be stored at any later time. The first owners are written when the
//!    sessions, read after the creation, name no other map, or after a lease. Terms begin above the
//!    version of the new map, and so, unless etcd was restored, above those of earlier maps.
//! 7. Field and number of shards are those of the map. It is split when all sessions were started
//!    with a higher number; for another field, or fewer shards, all shards are released first.
//! 8. The namespaces are those of the replica that wrote the map last. Replicas that watch others work on no shard, and
//!    release their sessions when their calls have ended. They replace the map when no session with its namespaces is
//!    left, and those of all owners have ended.
//!
//! One gap remains: if the map and a slot are both deleted by hand, a replica that starts within
//! the next seconds assumes that there was none.

mod executor;
mod hash;
mod map;
mod member;
mod mutant;
mod overrides;
mod overview;
mod plan;
mod session;
mod settings;
#[cfg(test)]
mod simulation;

pub use executor::{Sharding, ShardingOptions};
pub use hash::{BUCKET, ShardCountError, bucket_of_owner};
#[doc(hidden)]
pub use kooper_base::leader::lease_state::SHARDS_MARK;
#[doc(hidden)]
pub use overview::{Change, ChangeError, MemberRow, OverviewError, ShardOverview, ShardRow, ShardState};
pub use settings::Shards;
