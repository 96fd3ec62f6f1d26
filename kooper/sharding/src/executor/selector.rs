//! The shard selector for buckets.

use kooper_runtime::internal::watch::retriever::ShardSelector;

/// Each range is some hundred bytes of the URL, whose length servers and proxies limit. What more of
/// them would leave out is received, and dropped.
const MOST_RANGES: usize = 32;

/// Selects the objects in these buckets, and possibly others. A bucket is the highest byte of the hash by
/// which the API server selects. `None` if these are all objects.
pub(super) fn shard_selector(buckets: impl IntoIterator<Item = u8>) -> Option<ShardSelector> {
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for bucket in buckets {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(bucket) => *last = bucket,
            _ => ranges.push((bucket, bucket)),
        }
    }
    while ranges.len() > MOST_RANGES {
        join_nearest(&mut ranges);
    }
    if ranges == [(u8::MIN, u8::MAX)] {
        return None;
    }
    let mut ranges: Vec<_> = ranges.into_iter().map(|(first, last)| (first_hash(first), last_hash(last))).collect();
    if ranges.is_empty() {
        // A selector without ranges selects everything. No object has this hash.
        ranges.push((0, 0));
    }
    Some(ShardSelector { ranges })
}

/// Joins the two ranges with the smallest gap.
fn join_nearest(ranges: &mut Vec<(u8, u8)>) {
    let gap = |(number, pair): (usize, &[(u8, u8)])| match pair {
        [(_, last), (next, _)] => Some((next - last, number)),
        _ => None,
    };
    if let Some((_, number)) = ranges.windows(2).enumerate().filter_map(gap).min() {
        let (_, last) = ranges.remove(number + 1);
        ranges[number].1 = last;
    }
}

fn first_hash(bucket: u8) -> u64 {
    u64::from(bucket) << 56
}

fn last_hash(bucket: u8) -> u64 {
    first_hash(bucket) | (u64::MAX >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Shard, ShardCount, ShardField};

    #[test]
    fn runs_of_buckets_are_ranges_in_the_form_of_the_api_server() {
        let text = |buckets: &[u8]| shard_selector(buckets.iter().copied()).unwrap().to_string();
        assert_eq!(text(&[0x40, 0x41]), "shardRange(object.metadata.uid, '0x4000000000000000', '0x4200000000000000')");
        assert_eq!(
            text(&[0, 0xff]),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x0100000000000000') || \
             shardRange(object.metadata.uid, '0xff00000000000000', '0x10000000000000000')"
        );
        assert_eq!(text(&[]), "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')");
        assert!(shard_selector(0..=u8::MAX).is_none());
    }

    #[test]
    fn of_many_ranges_those_with_the_smallest_gaps_are_joined() {
        // Every second bucket is a range of its own, and the last gap is the largest.
        let buckets: Vec<u8> = (0..=200).step_by(2).chain([0xff]).collect();
        let selector = shard_selector(buckets.iter().copied()).unwrap();
        assert_eq!(selector.ranges.len(), MOST_RANGES);
        let is_selected =
            |bucket| selector.ranges.iter().any(|(first, last)| (*first..=*last).contains(&first_hash(bucket)));
        assert!(buckets.into_iter().all(is_selected));
        assert!((201..0xff).all(|bucket| !is_selected(bucket)));
    }

    #[test]
    fn the_selector_of_a_shard_selects_its_objects_and_no_others() {
        let count = ShardCount::try_from(32_u16).unwrap();
        let selects = |shard: &Shard, uid: &str| shard_selector(count.buckets(*shard)).unwrap().selects(uid);
        for number in 0..500 {
            let uid = format!("00000000-0000-0000-0000-{number:012}");
            let selecting: Vec<Shard> = count.shards().filter(|shard| selects(shard, &uid)).collect();
            assert_eq!(selecting, [count.shard(ShardField::Uid.bucket(&uid))]);
        }
    }
}
