//! The shard selector of lists and watches (KEP-5866).

use std::fmt;

/// Each range is some hundred bytes of the URL, whose length servers and proxies limit. What more of
/// them would leave out is received, and dropped.
const MOST_RANGES: usize = 32;

/// Selects objects by ranges of the hash of their uid. API servers without shard selectors, an alpha of
/// Kubernetes 1.36, ignore it. A client that sends it therefore checks each object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    /// The lowest and the highest hash of each range, in their order.
    ranges: Vec<(u64, u64)>,
}

impl ShardSelector {
    /// The objects whose hash has one of these as its highest byte, and possibly others. `None` if these
    /// are all objects.
    pub fn of_highest_bytes(bytes: impl IntoIterator<Item = u8>) -> Option<Self> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in bytes {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(byte) => *last = byte,
                _ => ranges.push((byte, byte)),
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
        Some(Self { ranges })
    }

    /// Returns `true` if a server that has shard selectors sends the object with this uid.
    #[must_use]
    pub fn selects(&self, uid: &str) -> bool {
        let hash = fnv1a(uid.as_bytes());
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&hash))
    }
}

/// The value of the query parameter. The end of a range is not in it, and may be 2⁶⁴.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.ranges.iter().enumerate() {
            let or = if number == 0 { "" } else { " || " };
            let end = u128::from(*last) + 1;
            write!(f, "{or}shardRange(object.metadata.uid, '{first:#018x}', '{end:#018x}')")?;
        }
        Ok(())
    }
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

fn first_hash(byte: u8) -> u64 {
    u64::from(byte) << 56
}

fn last_hash(byte: u8) -> u64 {
    first_hash(byte) | (u64::MAX >> 8)
}

/// FNV-1a of 64 bits, the hash of the API server.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_of_64_bits() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn runs_of_bytes_are_ranges_in_the_form_of_the_api_server() {
        let text = |bytes: &[u8]| ShardSelector::of_highest_bytes(bytes.iter().copied()).unwrap().to_string();
        assert_eq!(text(&[0x40, 0x41]), "shardRange(object.metadata.uid, '0x4000000000000000', '0x4200000000000000')");
        assert_eq!(
            text(&[0, 0xff]),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x0100000000000000') || \
             shardRange(object.metadata.uid, '0xff00000000000000', '0x10000000000000000')"
        );
        assert_eq!(text(&[]), "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')");
        assert!(ShardSelector::of_highest_bytes(0..=u8::MAX).is_none());
    }

    #[test]
    fn an_object_is_selected_by_the_highest_byte_of_the_hash_of_its_uid() {
        let of = |byte| ShardSelector::of_highest_bytes([byte]).unwrap();
        assert!(of(0xaf).selects("a") && of(0x85).selects("foobar"));
        assert!(!of(0xae).selects("a") && !of(0xb0).selects("a"));
        assert!(!ShardSelector::of_highest_bytes([]).unwrap().selects("a"));
    }

    #[test]
    fn of_many_ranges_those_with_the_smallest_gaps_are_joined() {
        // Every second byte is a range of its own, and the last gap is the largest.
        let bytes: Vec<u8> = (0..=200).step_by(2).chain([0xff]).collect();
        let selector = ShardSelector::of_highest_bytes(bytes.iter().copied()).unwrap();
        assert_eq!(selector.ranges.len(), MOST_RANGES);
        let is_selected =
            |byte| selector.ranges.iter().any(|(first, last)| (*first..=*last).contains(&first_hash(byte)));
        assert!(bytes.into_iter().all(is_selected));
        assert!((201..0xff).all(|byte| !is_selected(byte)));
    }
}
