//! Behavior of the API server on changes of a CRD: the facts that `install_crd` relies on.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::eventually;
use serde_json::{Value, json};

/// A CRD of a separate group, with this schema of `spec`.
fn crd(group: &str, spec: &Value) -> Value {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {
        "spec": spec, "status": {"type": "object", "properties": {"text": text}}
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("facts.{group}.example.com")},
        "spec": {
            "group": format!("{group}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Fact", "plural": "facts"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}
            }]
        }
    })
}

fn object(group: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{group}.example.com/v1"), "kind": "Fact",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec
    })
}

/// Replaces a CRD after an object was stored, and waits until the new schema takes effect: until the server rejects a
/// new object with the same content.
fn replace(cluster: &ControlPlane, group: &str, old: &Value, stored: &Value, new: &Value) {
    cluster.apply([old.clone()]);
    let name = format!("crd/facts.{group}.example.com");
    cluster.must(&["wait", "--for=condition=established", &name, "--timeout=60s"]);
    let create = |name: &str, flags: &[&str]| {
        let args = [&["create", "--filename=-"], flags].concat();
        cluster.kubectl_with(&args, &object(group, name, stored).to_string()).success
    };
    eventually("the object can be created", || create("stored", &[]));
    cluster.apply([new.clone()]);
    eventually("the new schema takes effect", || !create("another", &["--dry-run=server"]));
}

/// Returns whether the label and the status of an object can be written.
fn writes(cluster: &ControlPlane, group: &str) -> [bool; 2] {
    let facts = format!("facts.{group}.example.com");
    let patch = |flags: &[&str], patch: &str| {
        let args =
            [&["patch", &facts, "stored", "--namespace=default", "--type=merge", "--patch", patch], flags].concat();
        cluster.kubectl(&args).success
    };
    [
        patch(&[], r#"{"metadata": {"labels": {"a": "b"}}}"#),
        patch(&["--subresource=status"], r#"{"status": {"text": "written"}}"#),
    ]
}

#[test]
fn stored_values_that_exceed_new_limits_are_accepted_until_they_are_edited() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let group = "kept.facts";
    let text = json!({"type": "string", "maxLength": 9});
    let number = json!({"type": "integer"});
    let with = |schema: &Value, field: &str, value: Value| {
        let mut schema = schema.clone();
        schema[field] = value;
        schema
    };
    let list = |of: &Value| json!({"type": "array", "items": of});
    let map = |of: &Value| json!({"type": "object", "additionalProperties": of});
    let short = with(&text, "maxLength", json!(1));
    let rule = json!([{"rule": "self == 'x'"}]);
    let inside = json!({"type": "object", "properties": {"a": text, "b": text}});
    let cases = [
        ("minimum", &number, with(&number, "minimum", json!(5)), json!(1)),
        ("multiple", &number, with(&number, "multipleOf", json!(5)), json!(1)),
        ("length", &text, short.clone(), json!("aaa")),
        ("pattern", &text, with(&text, "pattern", json!("^x")), json!("aaa")),
        ("items", &list(&text), with(&list(&text), "maxItems", json!(1)), json!(["a", "b"])),
        ("item", &list(&text), list(&short), json!(["aaa"])),
        ("fields", &map(&text), with(&map(&text), "minProperties", json!(2)), json!({"a": "a"})),
        ("field", &map(&text), map(&short), json!({"a": "aaa"})),
        ("rule", &text, with(&text, "x-kubernetes-validations", rule), json!("aaa")),
        (
            "across",
            &inside,
            with(&inside, "x-kubernetes-validations", json!([{"rule": "self.a == self.b"}])),
            json!({"a": "a", "b": "b"}),
        ),
        (
            "transition",
            &text,
            with(&text, "x-kubernetes-validations", json!([{"rule": "self == oldSelf"}])),
            json!("a"),
        ),
    ];
    let spec = |fields: Vec<(&str, Value)>| {
        let fields: serde_json::Map<_, _> = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
        Value::Object(fields)
    };
    let schema = |fields| json!({"type": "object", "properties": spec(fields)});
    let old = schema(cases.iter().map(|(name, old, ..)| (*name, (*old).clone())).collect());
    let new = schema(cases.iter().map(|(name, _, new, _)| (*name, new.clone())).collect());
    let stored = spec(cases.iter().map(|(name, .., value)| (*name, value.clone())).collect());
    replace(cluster, group, &crd(group, &old), &stored, &crd(group, &new));
    assert_eq!(writes(cluster, group), [true, true]);
    // A further field is edited beside them, and one of them.
    let facts = format!("facts.{group}.example.com");
    let edit = |patch: &str| {
        let args = ["patch", &facts, "stored", "--namespace=default", "--type=merge", "--patch", patch];
        cluster.kubectl(&args).success
    };
    assert!(edit(r#"{"spec": {"length": "x"}}"#));
    assert!(!edit(r#"{"spec": {"minimum": 2}}"#));
}

#[test]
fn a_rule_that_an_unchanged_object_violates_rejects_every_write_of_it() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let schema = |rules: Value| {
        json!({"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 0, "x-kubernetes-validations": rules}, "new": {"type": "integer"}
        }})
    };
    let stored = json!({"size": 1});
    // A rejected creation shows that the new schema is in effect.
    let with_limit = |mut schema: Value| {
        schema["properties"]["size"]["minimum"] = json!(2);
        schema
    };
    let strict = with_limit(schema(json!([{"rule": "self > oldSelf"}])));
    let group = "strict.facts";
    replace(cluster, group, &crd(group, &schema(json!([]))), &stored, &crd(group, &strict));
    assert_eq!(writes(cluster, group), [false, false]);

    let group = "root.facts";
    let mut root = crd(group, &schema(json!([])));
    root["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "self.spec.size > 1"}]);
    replace(cluster, group, &crd(group, &schema(json!([]))), &stored, &root);
    assert_eq!(writes(cluster, group), [false, false]);
}

#[test]
fn the_server_rejects_changes_that_need_a_migration_and_accepts_those_that_need_consent() {
    let Some(cluster) = ControlPlane::shared() else { return };
    let group = "changes.facts";
    let mut old = crd(group, &json!({"type": "object"}));
    let mut second = old["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = (json!("v1beta1"), json!(false));
    old["spec"]["versions"] = json!([old["spec"]["versions"][0], second]);
    cluster.apply([old.clone()]);
    let name = format!("crd/facts.{group}.example.com");
    cluster.must(&["wait", "--for=condition=established", &name, "--timeout=60s"]);
    let takes = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        cluster.kubectl_with(&["apply", "--dry-run=server", "--filename=-"], &new.to_string()).success
    };
    let versions = |at: usize| json!([old["spec"]["versions"][at]]);
    let mut only_second = versions(1);
    only_second[0]["storage"] = json!(true);
    for (pointer, value) in [
        ("/spec/scope", json!("Cluster")),
        ("/spec/names/kind", json!("Truth")),
        ("/spec/names/plural", json!("truths")),
        ("/spec/versions", only_second),
    ] {
        assert!(!takes(pointer, value), "{pointer}");
    }
    for (pointer, value) in [
        ("/spec/versions", versions(0)),
        ("/spec/versions/1/served", json!(false)),
        ("/spec/versions/0/subresources", json!({})),
        ("/spec/versions/0/schema/openAPIV3Schema/properties/status", json!({"type": "string"})),
    ] {
        assert!(takes(pointer, value), "{pointer}");
    }
}
