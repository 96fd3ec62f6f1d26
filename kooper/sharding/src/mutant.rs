//! Ways to break the protocol, for the simulation.

/// A broken protocol. The simulation must detect each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only the simulation breaks the protocol"))]
pub(crate) enum Mutant {
    /// The token lasts as long as the lease.
    NoMargin,
    /// The token is slightly too long for clocks that are 20 % off.
    ThinMargin,
    /// A renewal, or a read of the map, is valid from when its response arrives.
    FromTheAnswer,
    /// The clock stops while the process is paused.
    SleepingClock,
    /// Other replicas wait for half of the lease.
    HalfTheWait,
    /// A session has ended when no renewal was observed for a lease.
    NoTombstone,
    /// A tombstone overwrites any version of the slot.
    BlindEvictor,
    /// The map is written over any version.
    BlindMapWrites,
    /// A map that was once read is valid as long as the session.
    BlindMap,
    /// Older versions of the map are learned, too.
    StaleWatch,
    /// A release whose result is unknown is taken back.
    TakenBackRelease,
    /// A session is released while calls are running.
    EarlyRelease,
    /// A shard is given away while calls of it are running.
    EarlyHandOver,
    /// A shard is given to a replica whose stores do not hold it.
    ColdSuccessor,
    /// The successor takes a shard from a living owner.
    TakenFromTheLiving,
    /// The plan ignores who owns what.
    PlanWithoutMap,
    /// A map that was deleted is created again at once.
    NoGuardOfTheMap,
    /// A session whose slot was deleted has ended.
    NoGuardOfSessions,
    /// The next map is announced while calls run that began by the one that was deleted.
    AnnouncedEarly,
    /// A session follows another one of its replica, whose slot was deleted, while calls are running.
    ReturnsEarly,
    /// The term stays when the owner changes.
    SameTerm,
    /// A replica works by a map of replicas that watch other namespaces, and keeps its session.
    NoYield,
    /// After a restore from a backup, replicas work by it at once.
    NoGuardOfRestore,
    /// A map with another field is written while shards have owners.
    RebuiltWithoutRelease,
    /// The Lease of the map is returned to leader election while other replicas work.
    ReturnedEarly,
    /// The Lease of the map is returned while calls of the last replica run.
    ReturnedInCalls,
    /// A session is recognised by its identity alone.
    IdentityAlone,
}
