//! Shards of the controllers of `kooper`: every replica works, and no object is in two hands.
//!
//! Not usable yet: this is the protocol, without an executor.
//!
//! # Protocol
//!
//! Each replica holds one of a few slot Leases, by the protocol of leader election: that is its
//! [session](session). One more Lease has the [map](map) of the shards, in an annotation. Both are
//! only written by compare-and-swap. Comments and tests refer to these rules by number.
//!
//! 1. A replica works on a shard while the map names its session, the token of the session is
//!    valid, and it has seen within the time of a token that the map exists.
//! 2. A shard is taken only if it is free, or the session of its owner has ended: it was released,
//!    or another replica has replaced it in its slot, after it had observed no renewal for a whole
//!    lease. That the lease has expired is not enough, because a renewal may be on its way.
//! 3. From a living owner a shard comes by a write of this owner, after its calls have ended. The
//!    same write names the successor, which has announced that its stores hold the shard.
//! 4. A release that was sent may be committed until the map has moved past its base. Until then
//!    the replica does not work on the shard, and sends the release again.
//! 5. Older versions of the map are ignored.
//! 6. If a slot or the map was deleted, the session or the owners may still work: others wait for a
//!    lease before they write a new one. A replica works only after it has announced that it has
//!    seen a map and has read it once more, so that the first map needs no wait.
//! 7. Field and number of shards are those of the map. It is split when all sessions were started
//!    with a higher number; for another field, or fewer shards, all shards are released first.
//!
//! One gap remains: if the map and a slot are both deleted by hand, a replica that starts within
//! the next seconds assumes that there was none.

pub mod hash;
pub mod map;
pub mod member;
mod mutant;
pub mod plan;
pub mod session;
#[cfg(test)]
mod simulation;
