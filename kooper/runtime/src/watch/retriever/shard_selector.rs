//! The shard selector of lists and watches (KEP-5866).

use std::fmt;

/// Selects objects by ranges of the hash of their uid. API servers without shard selectors, an alpha of
/// Kubernetes 1.36, ignore it. A client that sends it therefore checks each object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    /// The lowest and the highest hash of each range, in their order. Without ranges it would select all objects.
    pub ranges: Vec<(u64, u64)>,
}

impl ShardSelector {
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
    fn a_selector_has_the_form_of_the_api_server_and_selects_by_the_hash_of_the_uid() {
        let selector = ShardSelector { ranges: vec![(0, 0), (fnv1a(b"a"), u64::MAX)] };
        assert_eq!(
            selector.to_string(),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001') || \
             shardRange(object.metadata.uid, '0xaf63dc4c8601ec8c', '0x10000000000000000')"
        );
        assert!(selector.selects("a") && !selector.selects("foobar"));
    }
}
