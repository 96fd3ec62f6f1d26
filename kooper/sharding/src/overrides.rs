//! Requests of a person for the plan: shards of certain replicas, and replicas without shards.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hash::{Shard, ShardCount};

/// The overrides of the plan, in an annotation of the map. They change who should own a shard, and
/// nothing else: a shard moves by the same rules as without them.
///
/// Replicas are named by their identity, which no later process has, so an override ends with its
/// replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Overrides {
    /// The number of shards that `moved` refers to. If the map has another one, nothing is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<ShardCount>,
    /// Shards, and the replicas that should own them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) moved: BTreeMap<Shard, String>,
    /// Replicas that should own nothing. If all replicas are drained, none is.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) drained: BTreeSet<String>,
}

impl Overrides {
    /// Reads the annotation. A text that cannot be read counts as none, because the map is valid
    /// without it.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The replica that should own a shard of a map with this many of them.
    pub(crate) fn owner(&self, count: ShardCount, shard: Shard) -> Option<&str> {
        self.moved.get(&shard).filter(|_| self.of == Some(count)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_as_they_are_written_and_a_broken_text_counts_as_none() {
        let overrides = Overrides {
            of: 32.try_into().ok(),
            moved: [(Shard(3), "pod-a_1".to_owned())].into(),
            drained: ["pod-b_2".to_owned()].into(),
        };
        let text = serde_json::to_string(&overrides).unwrap();
        assert_eq!(text, r#"{"of":32,"moved":{"3":"pod-a_1"},"drained":["pod-b_2"]}"#);
        assert_eq!(Overrides::parse(Some(&text)), overrides);
        assert_eq!(serde_json::to_string(&Overrides::default()).unwrap(), "{}");
        for text in [None, Some(""), Some("[]"), Some(r#"{"of":3}"#), Some(r#"{"moved":{"300":"pod"}}"#)] {
            assert_eq!(Overrides::parse(text), Overrides::default(), "{text:?}");
        }
    }

    #[test]
    fn a_move_is_one_of_the_shards_that_it_was_made_for() {
        let [four, eight] = [4, 8].map(|count| ShardCount::try_from(count).unwrap());
        let moved = [(Shard(3), "pod".to_owned())].into();
        let overrides = Overrides { of: Some(four), moved, ..Overrides::default() };
        assert_eq!(overrides.owner(four, Shard(3)), Some("pod"));
        assert_eq!(overrides.owner(four, Shard(2)), None);
        assert_eq!(overrides.owner(eight, Shard(3)), None);
    }
}
