use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::metadata::PartialObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sections::Changed;
use super::*;

#[test]
fn an_object_with_a_deletion_timestamp_is_being_deleted() {
    let read =
        |metadata: &str| Object::parse(format!("{{\"metadata\":{metadata}}}").as_bytes()).unwrap().is_terminating();
    assert!(read(r#"{"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}"#));
    assert!(!read(r#"{"name": "a", "deletionTimestamp": null, "labels": {"deletionTimestamp": "x"}}"#));
    assert!(!read(r#"{"name": "a"}"#));
}

#[test]
fn an_object_keeps_everything_except_its_managed_fields() {
    let managed = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {"k:{\"a\":\"]}\"}": {}}}}]);
    for keys in [
        vec!["managedFields"],
        vec!["managedFields", "name", "namespace", "uid", "resourceVersion"],
        vec!["name", "managedFields", "namespace", "uid", "resourceVersion"],
        vec!["name", "namespace", "uid", "resourceVersion", "managedFields"],
    ] {
        let mut members: Vec<String> = Vec::new();
        for key in &keys {
            members.push(match *key {
                "managedFields" => format!("\"managedFields\": {managed}"),
                key => format!("\"{key}\" :\"the-{key}\""),
            });
        }
        let text =
            format!(" {{\"kind\":\"Pod\",\"metadata\":{{ {} }} ,\"spec\":{{\"a\":[1,2]}}}}", members.join(" , "));
        let parsed = Object::parse(text.as_bytes());
        if keys.len() == 1 {
            assert!(parsed.unwrap_err().to_string().contains("it has no name"));
            continue;
        }
        let object = parsed.unwrap();
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        expected["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(serde_json::from_slice::<Value>(&object.json()).unwrap(), expected, "{text}");
        assert_eq!(object.key().as_str(), "the-namespace/the-name");
        assert_eq!((object.uid(), object.version()), ("the-uid", "the-resourceVersion"));
    }
}

#[test]
fn bytes_that_are_not_an_object_are_rejected_with_their_first_character() {
    for text in [
        "",
        "null",
        "[]",
        "{",
        "{\"metadata\":{\"name\":\"a\"}",
        "{\"metadata\":{\"name\":\"a",
        "{\"metadata\":{\"name\":7}}",
        "{\"metadata\":null}",
    ] {
        let error = Object::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("not a Kubernetes object: "), "{error}");
        assert!(
            error.ends_with(&format!("{} bytes and begins with {:?}", text.len(), head(text.as_bytes()))),
            "{error}"
        );
    }
}

#[test]
fn a_decode_error_names_the_object_and_the_type() {
    let object = Object::parse(br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":7}}"#).unwrap();
    let error = object.decode::<Pod>().unwrap_err().to_string();
    assert!(
        error.starts_with(
            "object b/a is not a valid Pod: spec.containers: expected a list, found a number (line 1, column "
        ),
        "{error}"
    );
    let object = Object::parse(br#"{"metadata":{"name":"a","labels":7}}"#).unwrap();
    let error = object.decode::<PartialObjectMeta<Pod>>().unwrap_err();
    assert_eq!(error.kind, "PartialObjectMeta", "{error}");
}

#[test]
fn an_object_that_is_not_utf8_is_an_error_at_its_first_such_byte() {
    let object = Object::parse(b"{\"metadata\": {\"name\": \"a\"},\n \"data\": {\"b\": \"\xff\"}}").unwrap();
    let error = object.decode::<ConfigMap>().unwrap_err();
    assert_eq!(error.to_string(), "object a is not a valid ConfigMap: its JSON is not UTF-8 (line 2, column 17)");
}

#[test]
fn a_decode_error_does_not_contain_values_of_the_object() {
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Strict {
        data: Vec<u8>,
        mode: Option<Mode>,
    }
    #[derive(Debug, serde::Deserialize)]
    enum Mode {
        On,
    }
    for json in [r#"{"metadata":{"name":"a"},"data":"canary"}"#, r#"{"metadata":{"name":"a"},"mode":"canary"}"#] {
        let error = Object::parse(json.as_bytes()).unwrap().decode::<Strict>().unwrap_err().to_string();
        assert!(!error.contains("canary") && error.contains("expected"), "{error}");
    }
}

#[test]
fn debug_output_does_not_contain_content() {
    let object = Object::parse(br#"{"metadata":{"name":"a"},"data":{"password":"canary"}}"#).unwrap();
    assert!(!format!("{object:?}").contains("canary"));
}

#[test]
fn mutated_objects_are_read_as_serde_reads_them_or_refused() {
    #[derive(serde::Deserialize)]
    struct Whole {
        metadata: Head,
    }
    /// Serde refuses a field that is given twice.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Head {
        name: Value,
        namespace: Value,
        uid: Value,
        resource_version: Value,
        managed_fields: Value,
    }
    /// A string that is written without escapes.
    fn word(value: &Value) -> Option<&str> {
        let plain = |text: &&str| serde_json::to_string(text).is_ok_and(|json| json.len() == text.len() + 2);
        value.as_str().filter(plain).filter(|text| !text.is_empty() && !text.contains('/'))
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "annotations": {"note": "a \"b\" \\ é 🙂", "metadata": "{}"},
            "name": "web-0", "namespace": "shop", "uid": "5a-1", "resourceVersion": "17", "generation": 3,
            "labels": {"app": "web"}, "finalizers": ["example.com/a"], "deletionTimestamp": null,
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"k:{\"a\":\"]}\"}": {}}}}],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true}]
        },
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "metadata": {"name": "other"}}, "status": {"phase": "Running"}
    });
    let first = br#"{"metadata":{"managedFields":[],"name":"a"},"data":{"managedFields":"x"}}"#;
    let last = br#" { "kind" : "ConfigMap", "metadata" : { "name" : "a" , "managedFields" : [ {} ] } } "#;
    let alone = br#"{"metadata":{"managedFields":[{"a":[]}]}}"#;
    let seeds = [
        pod.to_string().into_bytes(),
        serde_json::to_vec_pretty(&pod).unwrap(),
        first.into(),
        last.into(),
        alone.into(),
    ];
    let words = &[
        "\"metadata\":{",
        "\"managedFields\":[",
        "\"name\":\"",
        "\"uid\":",
        "\"resourceVersion\":",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\\"",
        "\\",
    ];
    let dictionaries = Dictionaries::default();
    kooper_fuzz::fuzz("objects", seeds, words, |input| {
        let read = Object::parse(input);
        // The scanner does not decode keys, and does not check what it skips.
        let whole = std::str::from_utf8(input).ok().filter(|text| !text.contains("\\u"));
        let value = whole.and_then(|text| serde_json::from_str::<Value>(text).ok());
        // Serde would take a list for a struct.
        let value = value.filter(|value| value.is_object() && value["metadata"].is_object());
        if let (Some(mut expected), Some(Whole { metadata })) =
            (value, whole.and_then(|text| serde_json::from_str(text).ok()))
        {
            assert_eq!(read.is_ok(), word(&metadata.name).is_some(), "serde reads it");
            if let Ok(object) = &read {
                let key = ObjectKey::new(word(&metadata.namespace), word(&metadata.name).unwrap());
                assert_eq!(object.key(), &key);
                let identity = [&metadata.uid, &metadata.resource_version].map(|value| word(value).unwrap_or_default());
                assert_eq!([object.uid(), object.version()], identity);
                let kept: Value = serde_json::from_slice(&object.json()).expect("it remains JSON");
                expected["metadata"].as_object_mut().unwrap().remove("managedFields");
                assert_eq!(kept, expected);
            }
        }
        let Ok(object) = read else { return };
        drop((object.metadata(), object.decode::<Pod>(), format!("{object:?}")));
        let json = object.json().into_owned();
        let again = Object::parse(input).unwrap();
        assert!(!differs(&object, &again, &[Changed::Labels, Changed::Generation, Changed::Status]));
        assert_eq!(again.packed(Some(&dictionaries), true).json(), json);
    });
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 2.0)),
        any::<String>().prop_map(Value::from),
        "[\\\\\"{}\\[\\],:]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(
                prop_oneof!["[a-z]{1,4}", Just("managedFields".to_owned()), any::<String>()],
                inner,
                0..6
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_read_as_serde_reads_it(metadata in prop::collection::hash_map("[a-z]{1,6}|managedFields|annotations", any_json(), 0..6), spec in any_json(), pretty: bool) {
        let mut metadata: serde_json::Map<String, Value> = metadata.into_iter().collect();
        metadata.insert("name".to_owned(), "n".into());
        metadata.insert("namespace".to_owned(), "ns".into());
        metadata.insert("resourceVersion".to_owned(), "12".into());
        metadata.insert("uid".to_owned(), "u".into());
        let mut value = json!({"apiVersion": "v1", "metadata": metadata, "spec": spec, "managedFields": [1]});
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        let object = Object::parse(&text).unwrap();
        value["metadata"].as_object_mut().unwrap().remove("managedFields");
        prop_assert_eq!(serde_json::from_slice::<Value>(&object.json()).unwrap(), value);
        prop_assert_eq!((object.key().as_str(), object.version(), object.uid()), ("ns/n", "12", "u"));
    }

    #[test]
    fn no_bytes_make_the_scanner_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\ 1nmetadata".to_vec())], 0..200)) {
        let _ = Object::parse(&bytes);
        let mut inside = b"{\"metadata\":{\"name\":\"a\",".to_vec();
        inside.extend(&bytes);
        let _ = Object::parse(&inside);
    }

    #[test]
    fn a_truncated_object_is_rejected(spec in any_json(), cut in 1usize..40) {
        let text = serde_json::to_vec(&json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        prop_assert!(Object::parse(&text[..text.len().saturating_sub(cut)]).is_err());
    }
}
