//! Properties of patches of arbitrary objects.

use kooper_apiserver::patch::apply::ApplyError;
use kooper_apiserver::patch::field_manager::FieldManager;
use kooper_apiserver::patch::fields::FieldSet;
use kooper_apiserver::patch::fields_v1;
use kooper_apiserver::patch::literal::Literal;
use kooper_apiserver::patch::merge::merge_patch;
use kooper_apiserver::patch::path::PathElement;
use kooper_apiserver::patch::reset::Reset;
use kooper_apiserver::patch::schema::{Schema, Types};
use kooper_apiserver::patch::strategic::strategic_merge;
use kooper_apiserver::patch::versions::OneVersion;
use kooper_apiserver::patch::zero::empty;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const VERSION: &str = "example.com/v1";
const KIND: &str = "Thing";

fn element() -> impl Strategy<Value = PathElement> {
    let literal = || {
        prop_oneof![
            any::<i8>().prop_map(Value::from),
            "[a<\"é]{0,2}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from)
        ]
    };
    prop_oneof![
        4 => "[ab.:]{1,2}".prop_map(|name| PathElement::field(&name)),
        2 => btree_map("[ab]", literal(), 1..3).prop_map(|keys| {
            PathElement::Key(keys.into_iter().map(|(name, value)| (name.into(), Literal(value))).collect())
        }),
        2 => literal().prop_map(|value| PathElement::Value(Literal(value))),
        1 => any::<i8>().prop_map(|index| PathElement::Index(index.into())),
    ]
}

fn field_set() -> impl Strategy<Value = FieldSet> {
    vec(vec(element(), 1..4), 0..12).prop_map(|paths| {
        let mut set = FieldSet::new();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

fn schema() -> Schema {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items":
        {"type": "object", "properties": {"id": {"type": "string"}, "value": {"type": "string"}, "map": strings}}});
    let declared = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "scalar": {"type": "string"}, "map": strings, "keyed": keyed,
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "whole": {"type": "array", "items": {"type": "string"}},
    }}}});
    Schema::custom(&Types::new(|_| None), &declared)
}

/// A configuration. Containers aren't empty: an empty one stays where its
/// last member was removed, which the written histories cover.
fn config() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![Just("1"), Just("2")];
    let strings = || btree_map("[abc]", text(), 1..4);
    let list = || btree_set(prop_oneof![Just("x"), Just("y"), Just("z")], 1..4).prop_map(Vec::from_iter).prop_shuffle();
    let item = (proptest::option::of(text()), proptest::option::of(strings()));
    let keyed = btree_map("[pqr]", item, 1..4).prop_map(Vec::from_iter).prop_shuffle();
    let fields = (
        proptest::option::of(text()),
        proptest::option::of(strings()),
        proptest::option::of(keyed),
        proptest::option::of(list()),
        proptest::option::of(list()),
    );
    fields.prop_map(|(scalar, map, keyed, set, whole)| {
        let keyed = keyed.map(|items| {
            let item = |(id, (value, map))| without_absent(json!({"id": id, "value": value, "map": map}));
            Value::Array(items.into_iter().map(item).collect())
        });
        let spec = json!({"scalar": scalar, "map": map, "keyed": keyed, "set": set, "whole": whole});
        json!({"apiVersion": VERSION, "kind": KIND, "metadata": {"name": "thing"}, "spec": without_absent(spec)})
    })
}

fn without_absent(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

/// An object with lists of which the order doesn't count sorted, and without
/// what the server keeps.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = Value::Null;
    for name in ["set", "keyed"] {
        if let Some(items) = object["spec"].get_mut(name).and_then(Value::as_array_mut) {
            items.sort_by_cached_key(ToString::to_string);
        }
    }
    if object["spec"].as_object().is_some_and(Map::is_empty) {
        object["spec"] = Value::Null;
    }
    object
}

struct Server {
    versions: OneVersion,
    zero: Value,
}

impl Server {
    fn new() -> Self {
        Self { versions: OneVersion { api_version: VERSION.to_owned(), schema: schema() }, zero: empty(VERSION, KIND) }
    }

    fn fields(&self) -> FieldManager<'_> {
        static NOTHING: Reset = Reset::NOTHING;
        let (versions, reset, zero) = (&self.versions, &NOTHING, &self.zero);
        FieldManager { api_version: VERSION, kind: KIND, subresource: "", versions, reset, zero }
    }

    fn apply(&self, live: &Value, config: &Value, manager: &str, force: bool, now: &str) -> Result<Value, ApplyError> {
        let mut object = self.fields().apply(live, config, manager, force, now)?;
        object["metadata"]["uid"] = "1".into();
        Ok(object)
    }
}

proptest! {
    #[test]
    fn field_sets_are_sets(a in field_set(), b in field_set(), c in field_set()) {
        let union = a.clone().union(&b);
        prop_assert_eq!(&union, &b.clone().union(&a));
        prop_assert_eq!(a.clone().union(&a), a.clone());
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b).union(&b), union.clone());
        prop_assert_eq!(union.intersection(&c), a.intersection(&c).union(&b.intersection(&c)));
        prop_assert_eq!(a.difference(&union), FieldSet::new());
        for path in a.paths() {
            prop_assert!(a.contains(&path.0) && union.contains(&path.0));
            prop_assert_eq!(a.difference(&b).contains(&path.0), !b.contains(&path.0));
        }
        let pruned = a.difference_with_parts(&b);
        for path in a.paths() {
            let covered = (1..=path.0.len()).any(|length| b.contains(&path.0[..length]));
            prop_assert_eq!(pruned.contains(&path.0), !covered);
        }
    }

    #[test]
    fn field_sets_survive_their_encoding(set in field_set()) {
        let encoded = fields_v1::encode(&set);
        prop_assert_eq!(fields_v1::decode(&encoded), Ok(set));
        let text = encoded.to_string();
        prop_assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(encoded));
    }

    #[test]
    fn an_apply_is_idempotent(first in config(), second in config()) {
        let server = Server::new();
        let live = server.apply(&server.zero, &first, "other", false, "t1").unwrap();
        let once = server.apply(&live, &second, "one", true, "t2").unwrap();
        let twice = server.apply(&once, &second, "one", true, "t3").unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn a_sole_manager_gets_what_it_applies_last(first in config(), second in config()) {
        let server = Server::new();
        let live = server.apply(&server.zero, &first, "one", false, "t1").unwrap();
        prop_assert_eq!(content(&live), content(&first));
        let live = server.apply(&live, &second, "one", false, "t2").unwrap();
        prop_assert_eq!(content(&live), content(&second));
    }

    #[test]
    fn what_others_own_is_changed_by_force_alone(first in config(), second in config()) {
        let server = Server::new();
        let live = server.apply(&server.zero, &first, "one", false, "t1").unwrap();
        let merged = server.apply(&live, &second, "two", true, "t2").unwrap();
        match server.apply(&live, &second, "two", false, "t2") {
            Ok(object) => {
                prop_assert_eq!(&object, &merged);
                // The first still has all that it applied.
                let again = server.apply(&object, &first, "one", false, "t3").unwrap();
                prop_assert_eq!(content(&again), content(&object));
            }
            Err(ApplyError::Conflict(conflicts)) => {
                prop_assert!(conflicts.iter().all(|conflict| conflict.manager.name == "one"));
                // After an apply by force the first is who conflicts, if it insists.
                prop_assert!(matches!(server.apply(&merged, &first, "one", false, "t3"), Err(ApplyError::Conflict(_))));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
        // Who gives up all leaves what the other has.
        let none = json!({"apiVersion": VERSION, "kind": KIND, "metadata": {"name": "thing"}});
        let left = server.apply(&merged, &none, "two", false, "t3").unwrap();
        let left = server.apply(&left, &none, "one", false, "t4").unwrap();
        let nothing = left["spec"].as_object().into_iter().flatten().all(|(_, value)| value.is_null());
        prop_assert!(nothing, "{}", left);
    }

    #[test]
    fn an_updater_owns_what_it_changes(first in config(), second in config()) {
        let server = Server::new();
        let live = server.apply(&server.zero, &first, "one", false, "t1").unwrap();
        let mut new = second.clone();
        new["metadata"] = live["metadata"].clone();
        let updated = server.fields().update(&live, new.clone(), "two", "t2");
        let mut without_owners = updated.clone();
        without_owners["metadata"]["managedFields"] = new["metadata"]["managedFields"].clone();
        prop_assert_eq!(without_owners, new.clone());
        // An update that changes nothing owns nothing, and leaves no trace.
        prop_assert_eq!(&server.fields().update(&updated, updated.clone(), "three", "t3"), &updated);
        // An apply of what is there needs no force.
        prop_assert!(server.apply(&updated, &second, "three", false, "t4").is_ok());
    }

    #[test]
    fn patches_of_any_shape_neither_panic_nor_touch_what_they_do_not_name(patch in json_value(), object in config()) {
        let merged = merge_patch(object.clone(), patch.clone());
        if let Some(members) = patch.as_object() {
            for (name, value) in object.as_object().into_iter().flatten() {
                prop_assert!(members.contains_key(name) || merged.get(name) == Some(value));
            }
            // An array that replaces an object keeps its nulls, one that replaces an array loses them.
            let again = merge_patch(merged, patch.clone());
            prop_assert_eq!(merge_patch(again.clone(), patch.clone()), again);
        }
        drop(strategic_merge(object.clone(), patch.clone(), &schema()));
        let server = Server::new();
        let live = server.apply(&server.zero, &object, "one", false, "t1").unwrap();
        drop(server.apply(&live, &patch, "two", false, "t2"));
        drop(server.fields().update(&live, patch, "two", "t2"));
    }
}

/// Any JSON, with the names and directives that mean something often.
fn json_value() -> impl Strategy<Value = Value> {
    let names = "spec metadata managedFields set keyed id map $patch $retainKeys $setElementOrder/set \
                 $deleteFromPrimitiveList/set $setElementOrder/keyed apiVersion kind";
    let name = move || prop::sample::select(names.split(' ').collect::<Vec<_>>());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        name().prop_map(Value::from),
        Just(json!("delete")),
        Just(json!("replace")),
        Just(json!(VERSION)),
        Just(json!(KIND)),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(name().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
