//! Requests of a person for the plan: shards of certain replicas, and replicas without shards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::{Shard, ShardCount};

/// The most characters of an entry that a message quotes.
const QUOTED: usize = 100;

/// The most entries that are reported: all are compared with the last ones whenever the driver wakes.
const REPORTED: usize = 16;

/// The overrides of the plan, in an annotation of the map. They change who should own a shard, and
/// nothing else: a shard moves by the same rules as without them.
///
/// Replicas are named by their identity, which no later process has, so an override ends with its
/// replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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
    /// The first entries that cannot be read, and what is expected instead.
    #[serde(skip)]
    pub(crate) rejected: Vec<String>,
}

impl Overrides {
    /// Reads the annotation. An entry that cannot be read counts as none, because the map is valid
    /// without it.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let mut overrides = Self::default();
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return overrides };
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
            overrides.reject(&Value::from(text), r#"an object, such as {"drained":["shop-7d4b9_0a1b"]}"#);
            return overrides;
        };
        match fields.get("of").map(Option::deserialize) {
            None => {}
            Some(Ok(of)) => overrides.of = of,
            Some(Err(_)) => overrides.reject(&"`of`", "the number of shards in the map"),
        }
        match fields.get("moved") {
            None => {}
            Some(Value::Object(moved)) => moved.iter().for_each(|(shard, owner)| overrides.add_move(shard, owner)),
            Some(_) => overrides.reject(&"`moved`", r#"an object of shards, such as {"3":"shop-7d4b9_0a1b"}"#),
        }
        match fields.get("drained") {
            None => {}
            Some(Value::Array(drained)) => drained.iter().for_each(|replica| overrides.add_drained(replica)),
            Some(_) => overrides.reject(&"`drained`", r#"a list of replicas, such as ["shop-7d4b9_0a1b"]"#),
        }
        overrides
    }

    fn add_move(&mut self, shard: &str, owner: &Value) {
        if let (Ok(shard), Some(owner)) = (shard.parse(), owner.as_str()) {
            self.moved.insert(Shard(shard), owner.to_owned());
        } else {
            let entry = format!("`{}: {owner}` in `moved`", Value::from(shard));
            self.reject(&entry, r#"a shard from 0 to 255 and a replica, such as "3":"shop-7d4b9_0a1b""#);
        }
    }

    fn add_drained(&mut self, replica: &Value) {
        if let Some(replica) = replica.as_str() {
            self.drained.insert(replica.to_owned());
        } else {
            self.reject(&format!("`{replica}` in `drained`"), r#"a replica, such as "shop-7d4b9_0a1b""#);
        }
    }

    fn reject(&mut self, entry: &dyn Display, expected: &str) {
        if self.rejected.len() < REPORTED {
            let entry: String = entry.to_string().chars().take(QUOTED).collect();
            self.rejected.push(format!("{entry} must be {expected}"));
        }
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
    fn overrides_are_read_as_they_are_written_and_broken_ones_count_as_none() {
        let overrides = Overrides {
            of: 32.try_into().ok(),
            moved: [(Shard(3), "pod-a_1".to_owned())].into(),
            drained: ["pod-b_2".to_owned()].into(),
            rejected: Vec::new(),
        };
        let text = serde_json::to_string(&overrides).unwrap();
        assert_eq!(text, r#"{"of":32,"moved":{"3":"pod-a_1"},"drained":["pod-b_2"]}"#);
        assert_eq!(Overrides::parse(Some(&text)), overrides);
        assert_eq!(serde_json::to_string(&Overrides::default()).unwrap(), "{}");
        for text in [None, Some(""), Some("[]"), Some(r#"{"of":3}"#), Some(r#"{"moved":{"300":"pod"}}"#)] {
            let overrides = Overrides { rejected: Vec::new(), ..Overrides::parse(text) };
            assert_eq!(overrides, Overrides::default(), "{text:?}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_named_and_the_others_count() {
        let text = r#"{"of":8,"moved":{"3":"pod-a_1","300":"pod-a_1","4":7},"drained":["pod-b_2",null]}"#;
        let overrides = Overrides::parse(Some(text));
        assert_eq!(overrides.moved, [(Shard(3), "pod-a_1".to_owned())].into());
        assert_eq!(overrides.drained, ["pod-b_2".to_owned()].into());
        let shard = r#"a shard from 0 to 255 and a replica, such as "3":"shop-7d4b9_0a1b""#;
        let expected = [
            format!(r#"`"300": "pod-a_1"` in `moved` must be {shard}"#),
            format!(r#"`"4": 7` in `moved` must be {shard}"#),
            r#"`null` in `drained` must be a replica, such as "shop-7d4b9_0a1b""#.to_owned(),
        ];
        assert_eq!(overrides.rejected, expected);
        let named = |text| Overrides::parse(Some(text)).rejected.concat();
        for (text, entry) in [
            (r#"{"of":3,"moved":{}}"#, "`of` must be the number of shards"),
            (r#"{"moved":["pod"]}"#, "`moved` must be an object"),
            (r#"{"drained":"pod"}"#, "`drained` must be a list"),
            ("{pod", r#""{pod" must be an object"#),
        ] {
            assert!(named(text).starts_with(entry), "{}", named(text));
        }
        assert_eq!(named(" "), "");
        let many = serde_json::json!({ "drained": vec![Value::Null; 1000] }).to_string();
        assert_eq!(Overrides::parse(Some(&many)).rejected.len(), REPORTED);
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
