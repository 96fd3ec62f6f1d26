//! Compiles [`Type`]s from OpenAPI v3 schemas with the `x-kubernetes-*` extensions, as
//! declared by CRDs and as published below `/openapi/v3` for built-in kinds.
//!
//! kube-openapi's `schemaconv` defines the meaning of these schemas for merging. The
//! server-side apply reference describes it in "Merge strategy"
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy>).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::types::{Field, ListKind, ListType, MapType, Reference, Scalar, Strategy, Target, Type};

/// The definition of the `metadata` of all objects.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Compiles a definition. Two of them mean something else than they publish.
pub(super) fn definition(name: &str, schema: &Value) -> Type {
    let ty = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Type { scalar: Some(Scalar::Any), ..Type::default() },
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => anything(Target::Untyped),
        _ => compile(schema, false),
    };
    Type { name: name.rsplit('.').next().unwrap_or_default().into(), ..ty }
}

/// The type of a value of which nothing is known: its objects have members
/// like `below`, and its lists are replaced as a whole.
pub(super) fn anything(below: Target) -> Type {
    let atomic = matches!(below, Target::Untyped);
    let element = Reference { target: below, atomic: None };
    let items = Reference { target: Target::Untyped, atomic: None };
    Type {
        map: Some(MapType { fields: BTreeMap::new(), free: !atomic, element: Some(element), atomic }),
        list: Some(ListType { element: items, kind: ListKind::Atomic }),
        scalar: Some(Scalar::Any),
        ..Type::default()
    }
}

/// Compiles the schema that a CRD declares, and adds the fields that each
/// object has.
pub(super) fn custom(declared: &Value) -> Type {
    let mut ty = compile(declared, false);
    add_identity(&mut ty);
    ty
}

fn add_identity(ty: &mut Type) {
    let Some(map) = &mut ty.map else { return };
    let string = || Arc::new(Type { scalar: Some(Scalar::String), ..Type::default() });
    for name in ["apiVersion", "kind"] {
        map.fields.insert(name.into(), plain_field(Target::Inline(string())));
    }
    map.fields.insert("metadata".into(), plain_field(Target::Named(OBJECT_META.into())));
}

fn plain_field(target: Target) -> Field {
    let ty = Reference { target, atomic: None };
    Field { ty, default: None, required: false, strategy: Strategy::default() }
}

/// `open` says that an ancestor preserves unknown fields.
fn compile(schema: &Value, open: bool) -> Type {
    let open = open || schema["x-kubernetes-preserve-unknown-fields"] == true;
    let mut ty = match schema["type"].as_str().unwrap_or_default() {
        "object" => Type { map: Some(object(schema, open)), ..Type::default() },
        "array" => Type { list: Some(array(schema, open)), ..Type::default() },
        "integer" | "number" => Type { scalar: Some(Scalar::Numeric), ..Type::default() },
        "boolean" => Type { scalar: Some(Scalar::Boolean), ..Type::default() },
        "string" => {
            // Other formats are written as strings and as something else.
            let plain = matches!(schema["format"].as_str(), None | Some("" | "byte"));
            Type { scalar: Some(if plain { Scalar::String } else { Scalar::Any }), ..Type::default() }
        }
        _ => {
            let (map, list) = (Some(object(schema, open)), Some(array(schema, open)));
            Type { map, list, scalar: Some(Scalar::Any), ..Type::default() }
        }
    };
    if schema["x-kubernetes-embedded-resource"] == true {
        add_identity(&mut ty);
    }
    ty
}

fn reference(schema: &Value, open: bool) -> Reference {
    // A `$ref` with other words beside it is written as an `allOf` of one.
    let only = schema["allOf"].as_array().filter(|all| all.len() == 1).map_or(&Value::Null, |all| &all[0]);
    match schema["$ref"].as_str().or_else(|| only["$ref"].as_str()) {
        Some(path) => {
            let name = path.rsplit('/').next().unwrap_or_default();
            Reference { target: Target::Named(name.into()), atomic: atomic_map(schema) }
        }
        None => Reference { target: Target::Inline(Arc::new(compile(schema, open))), atomic: None },
    }
}

fn object(schema: &Value, open: bool) -> MapType {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields: BTreeMap<Box<str>, Field> = properties
        .iter()
        .map(|(name, property)| {
            let ty = reference(property, open);
            let default = property.get("default").filter(|default| !default.is_null()).cloned();
            let required = required.contains(&name.as_str());
            (name.as_str().into(), Field { ty, default, required, strategy: strategy(property) })
        })
        .collect();
    let deduced = || Some(Reference { target: Target::Deduced, atomic: None });
    let element = match schema.get("additionalProperties") {
        // An object of which nothing is declared may hold anything.
        None | Some(Value::Null) if open || fields.is_empty() => deduced(),
        Some(Value::Bool(true)) => deduced(),
        Some(element @ Value::Object(_)) => Some(reference(element, open)),
        _ => None,
    };
    let free = fields.is_empty()
        && element.as_ref().is_some_and(|element| match &element.target {
            Target::Deduced => true,
            Target::Inline(ty) => ty.scalar == Some(Scalar::Any),
            Target::Named(_) | Target::Untyped => false,
        });
    MapType { free, fields, element, atomic: atomic_map(schema).unwrap_or_default() }
}

fn array(schema: &Value, open: bool) -> ListType {
    let element = match schema.get("items") {
        Some(items) if items.is_object() => reference(items, open),
        _ => Reference { target: Target::Untyped, atomic: None },
    };
    ListType { element, kind: list_kind(schema) }
}

/// The list type, or where only patch strategies are published, what they
/// amount to. Without either a list is atomic.
fn list_kind(schema: &Value) -> ListKind {
    match (schema["x-kubernetes-list-type"].as_str(), schema["x-kubernetes-patch-strategy"].as_str()) {
        (Some("set"), _) => ListKind::Set,
        (Some("map"), _) => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListKind::Map(keys.filter_map(Value::as_str).map(Into::into).collect())
        }
        (None, Some("merge" | "merge,retainKeys")) => match schema["x-kubernetes-patch-merge-key"].as_str() {
            Some(key) => ListKind::Map(vec![key.into()]),
            None => ListKind::Set,
        },
        _ => ListKind::Atomic,
    }
}

fn atomic_map(schema: &Value) -> Option<bool> {
    schema["x-kubernetes-map-type"].as_str().map(|kind| kind == "atomic")
}

fn strategy(schema: &Value) -> Strategy {
    let words = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    let has = |word| words.split(',').any(|other| other == word);
    let merge_key = schema["x-kubernetes-patch-merge-key"].as_str().map(Into::into);
    Strategy { merge: has("merge"), replace: has("replace"), merge_key }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::{Form, Schema, Types};
    use super::*;

    #[test]
    fn references_are_resolved_and_overridden_where_they_are_used() {
        let types = Types::new(|name| match name {
            "Outer" => Some(json!({"type": "object", "properties": {
                "whole": {"allOf": [{"$ref": "#/components/schemas/Inner"}], "x-kubernetes-map-type": "atomic"},
                "merged": {"$ref": "#/components/schemas/Inner"},
                "again": {"$ref": "#/components/schemas/Outer"},
            }})),
            "Inner" => Some(json!({"type": "object", "properties": {"a": {"type": "string"}}})),
            _ => None,
        });
        let schema = Schema::named(&types, "Outer").expect("it is defined");
        let root = schema.root();
        assert!(root.child("whole").is_some_and(|node| node.is_atomic_map()));
        assert!(root.child("merged").is_some_and(|node| !node.is_atomic_map() && node.declares("a")));
        assert!(root.child("again").and_then(|node| node.child("again")).is_some_and(|node| node.declares("whole")));
        assert!(root.child("unknown").is_none());
        assert!(Schema::named(&types, "Absent").is_none());
    }

    #[test]
    fn lists_are_atomic_unless_the_schema_or_the_patch_strategy_says_otherwise() {
        let kind = |schema: Value| compile(&schema, false).list.map(|list| list.kind);
        let items = json!({"type": "string"});
        assert_eq!(kind(json!({"type": "array", "items": items})), Some(ListKind::Atomic));
        assert_eq!(
            kind(json!({"type": "array", "items": items, "x-kubernetes-list-type": "set"})),
            Some(ListKind::Set)
        );
        let keyed = json!({"type": "array", "items": items, "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name"});
        assert_eq!(kind(keyed), Some(ListKind::Map(vec!["name".into()])));
        let both = json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"], "x-kubernetes-patch-strategy": "merge"});
        assert_eq!(kind(both), Some(ListKind::Map(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn unknown_fields_are_allowed_where_they_are_preserved() {
        let types = Types::new(|_| None);
        let declared = json!({"type": "object", "properties": {
            "closed": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"nested": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
            "either": {"x-kubernetes-int-or-string": true},
        }});
        let schema = Schema::custom(&types, &declared);
        let root = schema.root();
        assert!(root.declares("metadata") && root.declares("kind"));
        assert!(root.child("closed").is_some_and(|node| node.child("b").is_none()));
        let nested = root.child("open").and_then(|node| node.child("nested"));
        assert!(nested.is_some_and(|node| node.child("b").is_some()));
        let either = root.child("either").expect("it is declared");
        assert_eq!(either.form(Some(&json!(1))), Form::Scalar(Scalar::Any));
    }
}
