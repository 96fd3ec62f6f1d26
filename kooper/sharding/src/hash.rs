//! From an object to its bucket and its shard.

use std::fmt;

use kooper_runtime::internal::watch::retriever::fnv1a;
use serde::{Deserialize, Serialize};

/// The number of buckets. It never changes, and a shard is a run of buckets.
pub(crate) const BUCKETS: u16 = 256;

/// The label of a child with the bucket of its owner, by the owner's uid.
pub const BUCKET: &str = "kooper.rs/bucket";

/// The value of the label [`BUCKET`] of the children of the owner with this uid.
#[must_use]
pub fn bucket_of_owner(uid: &str) -> String {
    label(ShardField::Uid.bucket(uid))
}

/// A bucket as the value of the label.
pub(crate) fn label(bucket: u8) -> String {
    format!("{bucket:02x}")
}

/// The field of an object that decides its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShardField {
    /// An incarnation of an object.
    Uid,
    /// All objects of a namespace are in the same shard.
    Namespace,
}

impl ShardField {
    /// The bucket of an object with this uid, or in this namespace.
    ///
    /// The hash of a uid is that of the API server's `shardRange`. Namespaces are alike up to
    /// their last characters, which FNV-1a hardly spreads to its top byte, so their hash is
    /// finalised.
    pub(crate) fn bucket(self, value: &str) -> u8 {
        let hash = fnv1a(value.as_bytes());
        let hash = match self {
            Self::Uid => hash,
            Self::Namespace => finalise(hash),
        };
        hash.to_be_bytes()[0]
    }
}

/// A number of shards: a power of two, at most 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub(crate) struct ShardCount(u16);

/// The number of shards is not a power of two up to 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} shards: a power of two is needed, at most {BUCKETS}")]
pub struct ShardCountError(u16);

impl ShardCount {
    /// The number itself.
    pub(crate) fn get(self) -> u16 {
        self.0
    }

    /// The shard of a bucket. With twice as many shards, shard `n` becomes `2n` and `2n + 1`.
    pub(crate) fn shard(self, bucket: u8) -> Shard {
        Shard((u16::from(bucket) / (BUCKETS / self.0)) as u8)
    }

    pub(crate) fn buckets(self, shard: Shard) -> impl Iterator<Item = u8> {
        let width = BUCKETS / self.0;
        (0..width).map(move |offset| (u16::from(shard.0) * width + offset) as u8)
    }

    /// All shards.
    pub(crate) fn shards(self) -> impl Iterator<Item = Shard> {
        (0..self.0).map(|index| Shard(index as u8))
    }
}

impl TryFrom<u16> for ShardCount {
    type Error = ShardCountError;

    fn try_from(count: u16) -> Result<Self, ShardCountError> {
        if count.is_power_of_two() && count <= BUCKETS { Ok(Self(count)) } else { Err(ShardCountError(count)) }
    }
}

impl From<ShardCount> for u16 {
    fn from(count: ShardCount) -> Self {
        count.0
    }
}

/// The index of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Shard(pub(crate) u8);

impl Shard {
    /// Its place in a list of all shards.
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Each bit of the result depends on each bit of the hash (the finaliser of `MurmurHash3`).
pub(crate) fn finalise(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A number in `0.0..1.0` that follows from a seed.
pub(crate) fn fraction(seed: u64) -> f64 {
    (finalise(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects in clusters have these labels, so they must not change.
    #[test]
    fn the_label_of_a_child_is_the_top_byte_of_the_hash_of_its_owner() {
        assert_eq!(["", "a", "foobar"].map(bucket_of_owner), ["cb", "af", "85"]);
    }

    #[test]
    fn a_count_is_a_power_of_two_up_to_256() {
        for count in [1, 2, 32, 256] {
            assert_eq!(ShardCount::try_from(count).unwrap().get(), count);
        }
        for count in [0, 3, 48, 512] {
            let error = ShardCount::try_from(count).unwrap_err().to_string();
            assert_eq!(error, format!("{count} shards: a power of two is needed, at most 256"));
        }
    }

    #[test]
    fn each_bucket_is_in_one_shard() {
        for count in [1, 2, 32, 256].map(ShardCount) {
            let shards = count.shards().flat_map(|shard| count.buckets(shard).map(move |bucket| (bucket, shard)));
            assert!(shards.eq((0..=255).map(|bucket| (bucket, count.shard(bucket)))), "{count:?}");
        }
    }

    #[test]
    fn with_twice_as_many_shards_each_one_becomes_two_neighbours() {
        let (few, many) = (ShardCount(32), ShardCount(64));
        for bucket in 0..=255 {
            assert_eq!(many.shard(bucket).0 / 2, few.shard(bucket).0);
        }
        assert_eq!(ShardCount(256).shard(255), Shard(255));
        assert_eq!(ShardCount(1).shard(255), Shard(0));
    }

    #[test]
    fn alike_namespaces_are_spread() {
        let count = ShardCount(32);
        let mut objects = [0_u32; 32];
        for tenant in 1..=1000 {
            objects[count.shard(ShardField::Namespace.bucket(&format!("tenant-{tenant}"))).index()] += 1;
        }
        let most = f64::from(objects.into_iter().max().unwrap()) / (1000.0 / 32.0);
        assert!(most < 1.5, "the fullest shard has {most} times the mean");
    }
}
