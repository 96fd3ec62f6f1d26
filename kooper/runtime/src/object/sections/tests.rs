use serde_json::{Value, json};

use super::*;

/// A Deployment in JSON, as a server writes it, and in protobuf.
fn objects(change: impl Fn(&mut Value)) -> [Object; 2] {
    let mut value = json!({
        "metadata": {"name": "a", "uid": "1", "generation": 1, "labels": {"a": "b", "c": "d"}, "annotations": {}, "finalizers": ["x"]},
        "spec": {"replicas": 1}, "status": {"replicas": 0},
    });
    change(&mut value);
    let kind = Kind::of("apps/v1", "Deployment").unwrap();
    let bytes = kind.encode(&value).unwrap();
    let raw = kooper_protobuf::Envelope::open(&bytes).unwrap().raw().to_vec();
    let json = Object::parse(&kind.decode_json(&raw).unwrap()).unwrap();
    [json, Object::from_protobuf(kind, &raw, &mut Vec::new()).unwrap()]
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
