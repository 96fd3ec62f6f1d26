use serde_json::{Value, json};

use super::*;

/// An object in JSON, as a server writes it, and in protobuf.
fn both(api_version: &str, kind: &str, value: &Value) -> [Object; 2] {
    let kind = Kind::of(api_version, kind).unwrap();
    let bytes = kind.encode(value).unwrap();
    let raw = kooper_protobuf::Envelope::open(&bytes).unwrap().raw();
    let json = Object::parse(&kind.decode_json(raw).unwrap()).unwrap();
    [json, Object::from_protobuf(kind, raw, &mut Vec::new()).unwrap()]
}

/// A Deployment in both encodings.
fn objects(change: impl Fn(&mut Value)) -> [Object; 2] {
    let mut value = json!({
        "metadata": {"name": "a", "uid": "1", "generation": 1, "labels": {"a": "b", "c": "d"}, "annotations": {}, "finalizers": ["x"]},
        "spec": {"replicas": 1}, "status": {"replicas": 0},
    });
    change(&mut value);
    both("apps/v1", "Deployment", &value)
}

/// Each state before with each state after: the encoding can change, for example to that of a dry run.
fn pairs<'a>(before: &'a [Object; 2], after: &'a [Object; 2]) -> impl Iterator<Item = (&'a Object, &'a Object)> {
    before.iter().flat_map(move |before| after.iter().map(move |after| (before, after)))
}

#[test]
fn each_section_is_distinguished_from_the_others() {
    let before = objects(|_| ());
    type Edit = fn(&mut Value);
    let edits: [(Changed, Edit); 5] = [
        (Changed::Generation, |v| v["metadata"]["generation"] = 2.into()),
        (Changed::Labels, |v| v["metadata"]["labels"]["a"] = "c".into()),
        (Changed::Annotations, |v| v["metadata"]["annotations"]["a"] = "c".into()),
        (Changed::Finalizers, |v| v["metadata"]["finalizers"] = json!([])),
        (Changed::Status, |v| v["status"]["replicas"] = 1.into()),
    ];
    for (edited, edit) in edits {
        let after = objects(edit);
        for (before, after) in pairs(&before, &after) {
            for (asked, _) in edits {
                assert_eq!(differs(before, after, &[asked]), asked == edited, "{edited:?} edited, {asked:?} asked");
            }
            assert!(differs(before, after, &[Changed::Any]));
        }
    }
    for (before, after) in pairs(&before, &objects(|_| ())) {
        assert!(!differs(before, after, &edits.map(|(section, _)| section)));
    }
}

#[test]
fn a_deletion_timestamp_and_a_new_uid_always_count() {
    let before = objects(|_| ());
    let marked = objects(|v| v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    let successor = objects(|v| v["metadata"]["uid"] = "2".into());
    for after in [&marked, &successor] {
        assert!(pairs(&before, after).all(|(before, after)| differs(before, after, &[Changed::Labels])));
    }
}

#[test]
fn without_generations_changes_outside_metadata_and_status_count() {
    let without = |edit: fn(&mut Value)| {
        objects(|v| {
            v["metadata"].as_object_mut().unwrap().remove("generation");
            edit(v);
        })
    };
    let before = without(|_| ());
    let differs = |edit| {
        let after = without(edit);
        let all: Vec<_> = pairs(&before, &after).map(|(old, new)| differs(old, new, &[Changed::Generation])).collect();
        assert!(all.iter().all(|differs| *differs == all[0]), "{all:?}");
        all[0]
    };
    assert!(differs(|v| v["spec"]["paused"] = true.into()));
    assert!(!differs(|v| v["status"]["replicas"] = 1.into()));
    assert!(!differs(|v| v["metadata"]["labels"] = json!({})));
}

#[test]
fn the_order_and_the_repetition_of_the_entries_of_a_list_count() {
    let role = |verbs: &[&str]| {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"resources": ["pods"], "verbs": [verb]})).collect();
        let value = json!({"metadata": {"name": "a", "uid": "1"}, "rules": rules});
        both("rbac.authorization.k8s.io/v1", "Role", &value)
    };
    let before = role(&["get", "list"]);
    for (verbs, is_change) in
        [(&["get", "list"][..], false), (&["list", "get"], true), (&["get", "list", "list"], true)]
    {
        let after = role(verbs);
        for (before, after) in pairs(&before, &after) {
            assert_eq!(differs(before, after, &[Changed::Generation]), is_change, "{verbs:?}");
        }
    }
}

/// Returns whether the field at a path counts as changed, for each pair of encodings.
fn changed(path: &'static str, before: impl Fn(&mut Value), after: impl Fn(&mut Value)) -> bool {
    let (before, after) = (objects(before), objects(after));
    let all: Vec<_> = pairs(&before, &after).map(|(old, new)| differs(old, new, &[Changed::Field(path)])).collect();
    assert!(all.iter().all(|differs| *differs == all[0]), "{path}: {all:?}");
    all[0]
}

#[test]
fn a_field_is_compared_by_its_path_and_other_fields_do_not_count() {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 8] = [
        ("spec.replicas", |v| v["spec"]["replicas"] = 2.into()),
        ("spec.paused", |v| v["spec"]["paused"] = true.into()),
        ("metadata.labels['a']", |v| v["metadata"]["labels"]["a"] = "c".into()),
        ("metadata.annotations['example.com/a']", |v| v["metadata"]["annotations"]["example.com/a"] = "".into()),
        ("metadata.finalizers", |v| v["metadata"]["finalizers"] = json!(["x", "y"])),
        ("spec.template.spec.containers", |v| v["spec"]["template"]["spec"]["containers"] = json!([{"name": "a"}])),
        ("spec.template.metadata.labels", |v| v["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"})),
        ("status.conditions", |v| v["status"]["conditions"] = json!([{"type": "a", "status": "True"}])),
    ];
    for (edited, edit) in edits {
        for (path, _) in edits {
            assert_eq!(changed(path, |_| (), edit), path == edited, "{edited} edited, {path} compared");
            assert_eq!(changed(path, edit, |_| ()), path == edited, "{edited} removed, {path} compared");
        }
    }
    assert!(changed("spec", |_| (), edits[0].1) && changed("metadata.labels", |_| (), edits[2].1));
    assert!(!changed("metadata.labels['c']", |_| (), edits[2].1), "it is another key");
    assert!(!changed("spec.unknown", |_| (), edits[0].1) && !changed("spec.replicas.unknown", |_| (), edits[0].1));
}

#[test]
fn a_field_that_appears_with_its_parent_counts() {
    let strategy = |kind: &'static str| move |v: &mut Value| v["spec"]["strategy"] = json!({"type": kind});
    assert!(changed("spec.strategy.type", strategy("Recreate"), strategy("RollingUpdate")));
    assert!(!changed("spec.strategy.rollingUpdate", strategy("Recreate"), strategy("RollingUpdate")));
    let surge = |v: &mut Value| v["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
    assert!(changed("spec.strategy.rollingUpdate.maxSurge", |_| (), surge));
    assert!(!changed("spec.strategy.rollingUpdate.maxUnavailable", |_| (), surge));
}

#[test]
fn a_field_of_a_message_that_json_writes_into_the_surrounding_object_is_found() {
    let volume = |server: &str| {
        let spec = json!({"nfs": {"server": server, "path": "/"}, "storageClassName": "slow"});
        both("v1", "PersistentVolume", &json!({"metadata": {"name": "a"}, "spec": spec}))
    };
    let differs = |path| differs(&volume("a")[1], &volume("b")[1], &[Changed::Field(path)]);
    assert!(differs("spec.nfs") && differs("spec.nfs.server"));
    assert!(!differs("spec.nfs.path") && !differs("spec.storageClassName"));
}

#[test]
fn the_order_and_the_values_of_other_members_do_not_matter_in_json() {
    let parse = |json: &str| Object::parse(json.as_bytes()).unwrap();
    let before = parse(r#"{"metadata":{"name":"a"},"spec":{"size":3,"note":"x","parts":[{"size":1}]}}"#);
    let after = parse(r#"{"metadata":{"name":"a"},"spec":{"note":null,"parts":[{"size":2}],"size":3}}"#);
    let differs = |path| differs(&before, &after, &[Changed::Field(path)]);
    assert!(!differs("spec.size") && differs("spec.note") && differs("spec.parts"));
    assert!(!differs("spec.parts.size"), "a list has no fields");
    assert!(!differs("spec.missing") && !differs("spec.size.missing"));
}
