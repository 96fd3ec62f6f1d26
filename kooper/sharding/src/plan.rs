//! The plan: which session should own which shard.

use std::cmp::Reverse;

use crate::map::ShardMap;
use crate::overrides::Overrides;
use crate::session::Session;

/// The planned owner of each shard, as an index of `live`. It follows from the map, its overrides and
/// the sessions alone, so that all replicas that know the same plan the same.
///
/// Shards that are moved by an override have their replica, and replicas that are drained have
/// none, unless all are. Of the others, no session has two shards more than another one that is given
/// any but those that are moved to it. Without overrides, no plan with that property moves fewer
/// shards away from a live owner. `None` if there is no session.
pub(crate) fn plan(map: &ShardMap, overrides: &Overrides, live: &[Session]) -> Vec<Option<usize>> {
    let is_drained = |session: &Session| overrides.drained.contains(&*session.identity);
    let are_all = live.iter().all(is_drained);
    let open: Vec<bool> = live.iter().map(|session| are_all || !is_drained(session)).collect();
    let find = |is: &dyn Fn(&Session) -> bool| (0..live.len()).find(|&index| open[index] && is(&live[index]));
    let moved = |shard| {
        let identity = overrides.owner(map.count(), shard)?;
        find(&|session| *session.identity == *identity)
    };
    let moved: Vec<Option<usize>> = map.count().shards().map(moved).collect();
    let kept = |owner: Option<&Session>| find(&|session| Some(session) == owner);
    let owners = map.iter().zip(&moved).map(|((_, shard), moved)| moved.or_else(|| kept(shard.owner.as_ref())));
    let mut owners: Vec<Option<usize>> = owners.collect();
    if live.is_empty() {
        return owners;
    }
    let count = |owners: &[Option<usize>]| {
        let mut counts = vec![0; live.len()];
        owners.iter().flatten().for_each(|&owner| counts[owner] += 1);
        counts
    };
    let (owned, mut left) = (count(&owners), count(&moved));
    let unmoved = moved.iter().filter(|moved| moved.is_none()).count();
    let mut fair = left.clone();
    for _ in 0..unmoved {
        // The sessions with the most shards get one that remains, because they give one less away.
        let next = (0..live.len()).filter(|&session| open[session]);
        let Some(next) = next.min_by_key(|&session| (fair[session], Reverse(owned[session]))) else { break };
        fair[next] += 1;
    }
    left.iter_mut().zip(fair).for_each(|(left, fair)| *left = fair - *left);
    for (owner, _) in owners.iter_mut().zip(&moved).filter(|(_, moved)| moved.is_none()) {
        match *owner {
            Some(session) if left[session] > 0 => left[session] -= 1,
            _ => *owner = None,
        }
    }
    let mut next = 0;
    for owner in owners.iter_mut().filter(|owner| owner.is_none()) {
        while left[next] == 0 {
            next += 1;
        }
        left[next] -= 1;
        *owner = Some(next);
    }
    owners
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::{Shard, ShardField, fraction};

    fn session(number: usize) -> Session {
        Session { slot: number as u8, acquired: 17, identity: format!("replica-{number}").into() }
    }

    fn map(count: u16) -> ShardMap {
        ShardMap::new(ShardField::Uid, count.try_into().unwrap(), 0)
    }

    fn owned(map: &ShardMap, session: &Session) -> usize {
        map.iter().filter(|(_, shard)| shard.owner.as_ref() == Some(session)).count()
    }

    /// Carries the plan out; returns how many shards changed their owner.
    fn carry_out(map: &mut ShardMap, live: &[Session]) -> usize {
        carry_out_with(map, &Overrides::default(), live)
    }

    fn carry_out_with(map: &mut ShardMap, overrides: &Overrides, live: &[Session]) -> usize {
        let plan = plan(map, overrides, live);
        let mut moves = 0;
        for (shard, target) in map.count().shards().zip(plan) {
            let target = target.map(|target| live[target].clone());
            moves += usize::from(map.get(shard).unwrap().owner != target);
            map.assign(shard, target);
        }
        moves
    }

    /// The moves that no balanced plan can avoid: free shards, and what exceeds the fair share.
    fn least_moves(map: &ShardMap, live: &[Session]) -> usize {
        let shards = usize::from(map.count().get());
        let mut loads: Vec<usize> = live.iter().map(|session| owned(map, session)).collect();
        loads.sort_unstable_by(|one, other| other.cmp(one));
        let free = shards - loads.iter().sum::<usize>();
        let fair = |rank: usize| shards / live.len() + usize::from(rank < shards % live.len());
        free + loads.iter().enumerate().map(|(rank, load)| load.saturating_sub(fair(rank))).sum::<usize>()
    }

    proptest! {
        #[test]
        fn a_plan_is_balanced_and_moves_as_few_shards_as_possible(
            bits in 0_u32..=8,
            owners in proptest::collection::vec(0_usize..12, 256),
            live in proptest::collection::btree_set(0_usize..10, 1..=10),
        ) {
            let mut map = map(1 << bits);
            for (shard, owner) in map.count().shards().zip(owners) {
                map.assign(shard, (owner < 10).then(|| session(owner)));
            }
            let live: Vec<Session> = live.into_iter().map(session).collect();
            let least = least_moves(&map, &live);
            prop_assert_eq!(carry_out(&mut map, &live), least);
            let loads: Vec<usize> = live.iter().map(|session| owned(&map, session)).collect();
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
            prop_assert_eq!(carry_out(&mut map, &live), 0, "a plan that is carried out is kept");
        }
    }

    proptest! {
        #[test]
        fn overrides_are_followed_and_the_other_shards_are_balanced(
            bits in 0_u32..=6,
            owners in proptest::collection::vec(0_usize..12, 256),
            moved in proptest::collection::btree_map(0_u8..64, 0_usize..12, 0..20),
            drained in proptest::collection::btree_set(0_usize..12, 0..8),
            live in proptest::collection::btree_set(0_usize..10, 1..=10),
        ) {
            let mut map = map(1 << bits);
            for (shard, owner) in map.count().shards().zip(owners) {
                map.assign(shard, (owner < 10).then(|| session(owner)));
            }
            let identity = |number: usize| session(number).identity.to_string();
            let overrides = Overrides {
                of: Some(map.count()),
                moved: moved.into_iter().map(|(shard, to)| (Shard(shard), identity(to))).collect(),
                drained: drained.iter().copied().map(identity).collect(),
                rejected: Vec::new(),
            };
            let mut open: Vec<Session> = live.difference(&drained).copied().map(session).collect();
            let live: Vec<Session> = live.into_iter().map(session).collect();
            if open.is_empty() {
                open.clone_from(&live);
            }
            carry_out_with(&mut map, &overrides, &live);
            let is_moved = |shard: Shard, to: &Session| overrides.owner(map.count(), shard) == Some(&*to.identity);
            let (mut least, mut most) = (usize::MAX, 0);
            for session in &open {
                let moved = map.count().shards().filter(|shard| is_moved(*shard, session)).count();
                let owned = owned(&map, session);
                prop_assert!(moved <= owned);
                least = least.min(owned);
                most = most.max(if owned > moved { owned } else { 0 });
            }
            prop_assert!(most <= least + 1, "{least} to {most}");
            for (shard, ownership) in map.iter() {
                let owner = ownership.owner.as_ref().expect("an owner");
                prop_assert!(open.contains(owner), "{shard} of {owner}");
                let moved = open.iter().find(|session| is_moved(shard, session));
                prop_assert!(moved.is_none_or(|moved| moved == owner), "{shard} of {owner}");
            }
            prop_assert_eq!(carry_out_with(&mut map, &overrides, &live), 0, "a plan that is carried out is kept");
        }
    }

    #[test]
    fn without_a_session_no_shard_has_an_owner() {
        assert_eq!(plan(&map(2), &Overrides::default(), &[]), [None, None]);
    }

    #[test]
    fn with_32_shards_and_up_to_8_replicas_few_shards_move_and_none_has_much_more_than_the_mean() {
        let mut map = map(32);
        let mut live = vec![session(0)];
        carry_out(&mut map, &live);
        let (mut moves, mut least, mut spread, mut worst) = (0, 0, 0.0, 0.0_f64);
        let changes = 10_000;
        for change in 0..changes {
            let joins = live.len() == 1 || (live.len() < 8 && fraction(change) < 0.5);
            if joins {
                live.push(session(100 + usize::from(change as u8)));
                live.sort();
                live.dedup();
            } else {
                live.remove((fraction(!change) * live.len() as f64) as usize);
            }
            least += least_moves(&map, &live);
            moves += carry_out(&mut map, &live);
            let most = live.iter().map(|session| owned(&map, session)).max().unwrap() as f64;
            let ratio = most * live.len() as f64 / 32.0;
            spread += ratio;
            worst = worst.max(ratio);
        }
        let (average, spread) = (moves as f64 / changes as f64, spread / changes as f64);
        println!("{average:.2} moves a change, max/mean {spread:.3} on average, {worst:.3} at worst");
        assert_eq!(moves, least);
        assert!(average < 10.0 && spread < 1.05 && worst <= 1.125, "{average} {spread} {worst}");
    }
}
