use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::crd::tests::{crd, crd_of, object, version};

fn stored(mut crd: CustomResourceDefinition, versions: &[&str]) -> CustomResourceDefinition {
    crd.status.get_or_insert_default().stored_versions = Some(versions.iter().map(|one| (*one).to_owned()).collect());
    crd
}

/// An object with a field, required or not, and rules.
fn field(required: &[&str], rules: &[&str]) -> Value {
    let rules: Vec<_> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let mut schema = json!({"type": "object", "required": required, "properties": {"a": {"type": "string"}}});
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = json!(rules);
    }
    schema
}

/// The changes of the field `spec.a`, without its name, and their conditions.
fn found(old: &Value, new: &Value) -> Vec<(String, AllowedBy)> {
    let changes = changes(&crd(&object(old)), &crd(&object(new)));
    changes
        .iter()
        .map(|change| (change.text.replace("`spec.a", "`").replace("`` (v1) ", ""), change.allowed_by))
        .collect()
}

fn texts(old: &Value, new: &Value) -> Vec<String> {
    found(old, new).into_iter().map(|(text, _)| text).collect()
}

/// A CRD of one version with a schema, edited.
fn edited(schema: &Value, edit: impl Fn(&mut Value)) -> CustomResourceDefinition {
    let mut version = version("v1", true, schema);
    version["subresources"] = json!({"status": {}});
    edit(&mut version);
    crd_of(&json!([version]))
}

/// The changes of CRDs, and their conditions.
fn between(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> Vec<(String, AllowedBy)> {
    changes(old, new).into_iter().map(|change| (change.text, change.allowed_by)).collect()
}

fn consent(text: &str) -> Vec<(String, AllowedBy)> {
    vec![(text.to_owned(), AllowedBy::Consent)]
}

#[test]
fn a_stricter_schema_is_reported_with_its_field() {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let map = |of: Value| json!({"type": "object", "additionalProperties": of});
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |mut schema: Value, field: &str, value: Value| {
        schema[field] = value;
        schema
    };
    let list = |of: Value| json!({"type": "array", "items": of});
    let fields = |of: Value| json!({"type": "object", "properties": of});
    for (old, new, expected) in [
        (text(), number(), "changes its type from string to integer"),
        (json!({"type": "number"}), number(), "changes its type from number to integer"),
        (json!({"x-kubernetes-int-or-string": true}), text(), "changes its type from integer or string to string"),
        (with(text(), "nullable", json!(true)), text(), "no longer allows null"),
        (text(), with(text(), "enum", json!(["x"])), "is limited to an `enum`"),
        (with(text(), "enum", json!(["x", "y"])), with(text(), "enum", json!(["x"])), "no longer allows \"y\""),
        (number(), with(number(), "minimum", json!(0)), "gets a `minimum` of 0"),
        (with(number(), "minimum", json!(1)), with(number(), "minimum", json!(2)), "changes its `minimum` from 1 to 2"),
        (with(number(), "maximum", json!(2)), with(number(), "maximum", json!(1)), "changes its `maximum` from 2 to 1"),
        (text(), with(text(), "maxLength", json!(3)), "gets a `maxLength` of 3"),
        (text(), with(text(), "minLength", json!(1)), "gets a `minLength` of 1"),
        (list(text()), with(list(text()), "maxItems", json!(3)), "gets a `maxItems` of 3"),
        (map(text()), with(map(text()), "minProperties", json!(1)), "gets a `minProperties` of 1"),
        (text(), with(text(), "pattern", json!("^a")), "gets a `pattern`: \"^a\""),
        (
            with(text(), "pattern", json!("^a")),
            with(text(), "pattern", json!("^b")),
            "changes its `pattern` from \"^a\" to \"^b\"",
        ),
        (text(), with(text(), "format", json!("date-time")), "gets a `format`: date-time"),
        (
            with(number(), "format", json!("int64")),
            with(number(), "format", json!("int32")),
            "changes its `format` from int64 to int32",
        ),
        (
            with(number(), "format", json!("int64")),
            with(number(), "format", json!("uint64")),
            "changes its `format` from int64 to uint64",
        ),
        (
            with(number(), "format", json!("uint8")),
            with(number(), "format", json!("int8")),
            "changes its `format` from uint8 to int8",
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "x"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}),
            "`.b` (v1) loses its default and stays required",
        ),
        (number(), with(number(), "exclusiveMinimum", json!(true)), "gets `exclusiveMinimum`"),
        (
            list(text()),
            with(list(text()), "x-kubernetes-list-type", json!("set")),
            "becomes a list of type set, which cannot have duplicates",
        ),
        (list(text()), list(number()), "`[]` (v1) changes its type from string to integer"),
        (map(text()), map(number()), "`.*` (v1) changes its type from string to integer"),
        (map(text()), fields(json!({"b": text()})), "no longer accepts fields of any name"),
        (map(json!(true)), map(text()), "limits the values of its fields"),
        (open(), fields(json!({})), "no longer keeps unknown fields"),
        (
            open(),
            with(open(), "properties", json!({"b": text()})),
            "`.b` (v1) may already be stored without a schema, and gets one",
        ),
        (fields(json!({"b": text()})), fields(json!({})), "`.b` (v1) is removed"),
        (fields(json!({"b": text()})), map(number()), "`.b` (v1) changes its type from string to integer"),
        (
            fields(json!({"b": text()})),
            with(fields(json!({"b": text()})), "required", json!(["b"])),
            "`.b` (v1) becomes required and has no default",
        ),
        (
            text(),
            with(text(), "x-kubernetes-validations", json!([{"rule": "self != ''"}])),
            "gets the validation rule `self != ''`",
        ),
        (
            with(open(), "oneOf", json!([{"required": ["a"]}, {"required": ["b"]}])),
            with(open(), "oneOf", json!([{"required": ["a"]}])),
            "loses or changes a choice of its `oneOf`",
        ),
        (text(), with(text(), "allOf", json!([{"minLength": 1}])), "gets another `allOf`"),
        (text(), with(text(), "not", json!({"minLength": 1})), "gets a `not`: {\"minLength\":1}"),
    ] {
        assert_eq!(texts(&old, &new), [expected], "{old} to {new}");
    }
}

#[test]
fn fields_of_any_name_that_get_a_schema_are_compared_with_what_they_could_be() {
    let map = |of: Value| json!({"type": "object", "additionalProperties": of});
    let open =
        |fields: Value| json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true});
    let text = || json!({"type": "string"});
    for (old, new, expected) in [
        (open(json!({})), map(text()), "limits the values of its fields"),
        (
            map(json!({"type": "integer"})),
            open(json!({"b": text()})),
            "`.b` (v1) changes its type from integer to string",
        ),
        (
            map(json!(true)),
            open(json!({"b": text()})),
            "`.b` (v1) may already be stored without a schema, and gets one",
        ),
    ] {
        assert_eq!(texts(&old, &new), [expected], "{old} to {new}");
    }
    let any = map(json!({"x-kubernetes-preserve-unknown-fields": true}));
    for (old, new) in
        [(open(json!({})), map(json!(true))), (open(json!({})), any), (map(text()), open(json!({"b": text()})))]
    {
        assert_eq!(texts(&old, &new), Vec::<String>::new(), "{old} to {new}");
    }
}

#[test]
fn a_less_strict_schema_is_not_a_change() {
    let text = || json!({"type": "string"});
    let rules = |rules: &[&str]| {
        let rules: Vec<_> = rules.iter().map(|rule| json!({"rule": rule})).collect();
        json!({"type": "string", "x-kubernetes-validations": rules})
    };
    for (old, new) in [
        (json!({"type": "integer"}), json!({"type": "number"})),
        (json!({"type": "integer", "format": "int32"}), json!({"type": "integer", "format": "int64"})),
        (text(), json!({"x-kubernetes-int-or-string": true})),
        (text(), json!({"type": "string", "nullable": true, "description": "a", "default": "b"})),
        (json!({"type": "string", "enum": ["a"]}), json!({"type": "string", "enum": ["b", "a"]})),
        (json!({"type": "string", "enum": ["a"]}), text()),
        (json!({"type": "string", "pattern": "^a", "maxLength": 3, "minLength": 1}), text()),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 2}),
            json!({"type": "integer", "minimum": 0, "maximum": 3}),
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": text()}}),
            json!({"type": "object", "properties": {"b": text(), "c": text()}}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "x"}}}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "additionalProperties": true}),
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}]}),
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ),
        (text(), text()),
        (
            json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}),
            json!({"type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535}),
        ),
        (json!({"type": "integer", "format": "uint8", "minimum": 0}), json!({"type": "integer", "format": "int16"})),
        (json!({"type": "integer", "format": "uint"}), json!({"type": "integer", "format": "uint64"})),
        (
            json!({"type": "integer", "format": "uint32", "minimum": 0}),
            json!({"type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX}),
        ),
        (json!({"type": "integer", "format": "int8"}), json!({"type": "integer", "format": "int8", "minimum": -128})),
        (json!({"type": "integer", "format": "int64"}), json!({"type": "number", "format": "double"})),
        (rules(&["self == 'a'"]), rules(&["(self == 'a') || self == 'b'"])),
        (rules(&["self == 'a'", "self != 'b'"]), rules(&["self != 'b'"])),
        (text(), rules(&["self == oldSelf"])),
        (rules(&["self == oldSelf"]), rules(&["self >= oldSelf"])),
        (field(&["a"], &[]), field(&["a"], &["self.a == oldSelf.a"])),
        (field(&[], &[]), field(&[], &["!has(oldSelf.a) || self.a == oldSelf.a"])),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "x"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "y"}}}),
        ),
    ] {
        assert_eq!(texts(&old, &new), Vec::<String>::new(), "{old} to {new}");
    }
}

#[test]
fn values_that_still_decode_may_be_restricted_if_the_server_ratchets() {
    let text = || json!({"type": "string"});
    let with = |mut schema: Value, field: &str, value: Value| {
        schema[field] = value;
        schema
    };
    let number = || json!({"type": "integer", "format": "int32"});
    let list = |of: Value| json!({"type": "array", "items": of});
    let rule = |rule: &str| json!([{"rule": rule}]);
    for (old, new, allowed_by) in [
        (text(), with(text(), "maxLength", json!(3)), AllowedBy::Ratcheting),
        (text(), with(text(), "pattern", json!("^a")), AllowedBy::Ratcheting),
        (number(), with(number(), "minimum", json!(1)), AllowedBy::Ratcheting),
        (number(), with(number(), "multipleOf", json!(2)), AllowedBy::Ratcheting),
        (list(text()), with(list(text()), "maxItems", json!(3)), AllowedBy::Ratcheting),
        (list(text()), list(with(text(), "minLength", json!(3))), AllowedBy::Ratcheting),
        (text(), with(text(), "x-kubernetes-validations", rule("self != 'a'")), AllowedBy::Ratcheting),
        // Of another type in Rust: a character, an array, an enum, a narrower number, a time.
        (text(), json!({"type": "string", "minLength": 1, "maxLength": 1}), AllowedBy::Consent),
        (list(text()), json!({"type": "array", "items": text(), "minItems": 2, "maxItems": 2}), AllowedBy::Consent),
        (text(), with(text(), "enum", json!(["a"])), AllowedBy::Consent),
        (number(), with(number(), "format", json!("int16")), AllowedBy::Consent),
        (text(), with(text(), "format", json!("date-time")), AllowedBy::Consent),
        // Restrictions that servers do not ratchet.
        (text(), with(text(), "not", json!({"minLength": 1})), AllowedBy::Consent),
        (list(text()), with(list(text()), "x-kubernetes-list-type", json!("set")), AllowedBy::Consent),
        (text(), with(text(), "x-kubernetes-validations", rule("self > oldSelf")), AllowedBy::Consent),
        // An error for objects without the field, so that no write of them is accepted.
        (field(&[], &[]), field(&[], &["self.a == oldSelf.a"]), AllowedBy::Consent),
        (
            text(),
            with(text(), "x-kubernetes-validations", json!([{"rule": "oldSelf.hasValue()", "optionalOldSelf": true}])),
            AllowedBy::Consent,
        ),
    ] {
        let ways: std::collections::BTreeSet<_> =
            found(&old, &new).into_iter().map(|(_, allowed_by)| format!("{allowed_by:?}")).collect();
        assert_eq!(ways.into_iter().collect::<Vec<_>>(), [format!("{allowed_by:?}")], "{old} to {new}");
    }
    // The whole object and its status change with every write.
    let rule = |path: &str| {
        let mut schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": {}}}});
        if let Some(node) = schema.pointer_mut(path) {
            node["x-kubernetes-validations"] = json!([{"rule": "has(self.a)"}]);
        }
        crd(&schema)
    };
    for (path, name) in [("", "the object"), ("/properties/status", "status")] {
        let text = format!("`{name}` (v1) gets the validation rule `has(self.a)`");
        assert_eq!(between(&rule("/none"), &rule(path)), consent(&text));
    }
}

#[test]
fn a_field_of_the_status_may_be_removed_as_controllers_write_it_again() {
    let status =
        |fields: Value| json!({"type": "object", "properties": {"status": {"type": "object", "properties": fields}}});
    let text = json!({"type": "string"});
    let (one, two) = (status(json!({"a": text})), status(json!({"a": text, "b": text})));
    let subresource = |schema: &Value| edited(schema, |_| ());
    assert_eq!(between(&subresource(&two), &subresource(&one)), []);
    let inner = |fields: &Value| status(json!({"list": {"type": "array", "items": fields["properties"]["status"]}}));
    assert_eq!(between(&subresource(&inner(&two)), &subresource(&inner(&one))), []);
    // Users may have written it.
    assert_eq!(between(&crd(&two), &crd(&one)), consent("`status.b` (v1) is removed"));
    // A type that changes does not decode.
    let other = status(json!({"a": {"type": "integer"}}));
    assert_eq!(
        between(&subresource(&one), &subresource(&other)),
        consent("`status.a` (v1) changes its type from string to integer")
    );
}

#[test]
fn a_version_keeps_its_subresources_and_selectable_fields() {
    let schema = object(&json!({"type": "string"}));
    let without = |edit: fn(&mut Value)| {
        edited(&schema, |version| {
            version["subresources"]["scale"] =
                json!({"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"});
            version["selectableFields"] = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}]);
            edit(version);
        })
    };
    let whole = without(|_| ());
    for (new, expected) in [
        (without(|version| version["served"] = json!(false)), "the version `v1` is no longer served"),
        (
            without(|version| version["subresources"]["status"] = Value::Null),
            "the subresource `status` (v1) is removed",
        ),
        (without(|version| version["subresources"]["scale"] = Value::Null), "the subresource `scale` (v1) is removed"),
        (
            without(|version| version["selectableFields"] = json!([{"jsonPath": ".spec.b"}])),
            "the selectable field `.spec.a` (v1) is removed",
        ),
    ] {
        assert_eq!(between(&whole, &new), consent(expected));
        assert_eq!(between(&new, &whole), []);
    }
}

#[test]
fn only_a_version_that_is_neither_stored_nor_served_may_be_removed() {
    let schema = object(&json!({"type": "string"}));
    let of = |served: bool| {
        let mut old = version("v1beta1", false, &schema);
        old["served"] = json!(served);
        crd_of(&json!([old, version("v1", true, &schema)]))
    };
    let one = crd(&schema);
    assert_eq!(between(&stored(of(false), &["v1"]), &one), []);
    assert_eq!(
        between(&stored(of(true), &["v1"]), &one),
        consent("the version `v1beta1`, which is served, is removed")
    );
    for served in [false, true] {
        let changes = between(&stored(of(served), &["v1beta1", "v1"]), &one);
        assert_eq!((changes.len(), changes[0].1), (1, AllowedBy::Migration));
        let expected = "the version `v1beta1` is removed while it is in `status.storedVersions`: keep it until";
        assert!(changes[0].0.starts_with(expected), "{changes:?}");
    }
}

#[test]
fn objects_stored_in_an_old_version_are_read_as_the_new_one() {
    let (old, new) = (object(&json!({"type": "string"})), object(&json!({"type": "integer"})));
    let two = json!([version("v1", false, &old), version("v2", true, &new)]);
    let changes = between(&stored(crd(&old), &["v1"]), &crd_of(&two));
    assert_eq!(changes, consent("`spec.a` (v1 as v2) changes its type from string to integer"));
    let mut converted = crd_of(&two);
    converted.spec.conversion.get_or_insert_default().strategy = "Webhook".to_owned();
    assert_eq!(between(&crd(&old), &converted), []);
}

#[test]
fn names_and_scope_are_immutable() {
    let old = crd(&object(&json!({})));
    let mut new = old.clone();
    new.spec.scope = "Cluster".to_owned();
    new.spec.names.kind = "Widget".to_owned();
    let changes = between(&old, &new);
    let expected = [
        "`scope` is immutable, but changes from Namespaced to Cluster: ",
        "`names.kind` is immutable, but changes from Gadget to Widget: ",
    ];
    for ((text, allowed_by), expected) in changes.iter().zip(expected) {
        assert!(text.starts_with(expected) && *allowed_by == AllowedBy::Migration, "{text}");
    }
    assert_eq!(changes.len(), 2);
}

/// A schema, and one that accepts all that it accepts.
fn schema_and_looser() -> impl Strategy<Value = (Value, Value)> {
    let limits = [
        ("minLength", json!(1)),
        ("maxLength", json!(5)),
        ("pattern", json!("^a")),
        ("enum", json!(["a", "b"])),
        ("x-kubernetes-validations", json!([{"rule": "self != 'c'"}])),
    ];
    let text = (0..32_usize, 0..32_usize).prop_map(move |(has, keeps)| {
        let of = |mask: usize| {
            let mut schema = json!({"type": "string"});
            for (_, (limit, value)) in limits.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1) {
                schema[limit] = value.clone();
            }
            schema
        };
        (of(has), of(has & keeps))
    });
    let number = (0..4_usize, 0..4_usize).prop_map(|(narrow, wider)| {
        let of = |at: usize| json!({"type": "integer", "format": (["int8", "int16", "int32", "int64"][at])});
        (of(narrow), of(narrow.max(wider)))
    });
    prop_oneof![text, number].prop_recursive(3, 12, 4, |inner| {
        let object = (prop::collection::vec((inner.clone(), any::<[bool; 3]>()), 0..4)).prop_map(|fields| {
            let mut schemas = [(); 2].map(|()| json!({"type": "object", "properties": {}, "required": []}));
            for (at, ((old, new), [required, still, added])) in fields.into_iter().enumerate() {
                let name = format!("f{at}");
                let [one, other] = &mut schemas;
                if !added {
                    one["properties"][&name] = old;
                }
                other["properties"][&name] = new;
                for (schema, is) in [(one, required && !added), (other, required && still && !added)] {
                    if is && let Some(names) = schema["required"].as_array_mut() {
                        names.push(json!(name));
                    }
                }
            }
            let [one, other] = schemas;
            (one, other)
        });
        let list = |of: Value| json!({"type": "array", "items": of});
        let map = |of: Value| json!({"type": "object", "additionalProperties": of});
        prop_oneof![
            object,
            inner.clone().prop_map(move |(old, new)| (list(old), list(new))),
            inner.prop_map(move |(old, new)| (map(old), map(new))),
        ]
    })
}

proptest! {
    #[test]
    fn a_looser_schema_is_never_a_change_and_its_opposite_always_is((old, new) in schema_and_looser()) {
        prop_assert_eq!(texts(&old, &new), Vec::<String>::new());
        // Objects may differ by an optional field, which is not a change in either direction.
        if old != new && old["type"] != "object" && old["type"] != "array" {
            prop_assert_ne!(texts(&new, &old), Vec::<String>::new());
        }
    }
}
