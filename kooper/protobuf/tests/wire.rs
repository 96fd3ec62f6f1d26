//! Valid and invalid encodings that Kubernetes itself does not write.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kooper_protobuf::watch::{self, Event};
use kooper_protobuf::{Envelope, Kind, List};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind::of(api_version, kind).unwrap()
}

/// A field of bytes.
fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length > 0x7f {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(value);
    field
}

fn config_map(raw: &[u8]) -> Result<Value, String> {
    kind("v1", "ConfigMap").decode_value(raw).map_err(|error| error.to_string())
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    bytes(2, &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat())
}

#[test]
fn what_a_server_always_writes_is_there_although_the_message_is_empty() {
    assert_eq!(config_map(b"").unwrap(), json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}));
    let role = kind("rbac.authorization.k8s.io/v1", "Role").decode_value(b"").unwrap();
    assert_eq!(role["rules"], Value::Null);
    assert!(role.as_object().unwrap().contains_key("rules"));
    let event = kind("events.k8s.io/v1", "Event").decode_value(b"").unwrap();
    assert_eq!(event["eventTime"], Value::Null);
    assert!(event.get("deprecatedFirstTimestamp").is_some());
}

#[test]
fn fields_that_the_table_lacks_are_skipped() {
    let raw = [entry("a", "1"), bytes(12, b"new"), vec![0xb8, 0x02, 7], entry("b", "2")].concat();
    assert_eq!(config_map(&raw).unwrap()["data"], json!({"a": "1", "b": "2"}));
}

#[test]
fn fields_may_come_in_any_order_and_in_parts() {
    // metadata is in two parts, around the data; finalizers and labels are mixed.
    let labels = |key: &str| bytes(11, &[bytes(1, key.as_bytes()), bytes(2, b"x")].concat());
    let first = bytes(1, &[bytes(14, b"f1"), labels("b"), bytes(14, b"f2")].concat());
    let second = bytes(1, &[bytes(1, b"name"), labels("a")].concat());
    let raw = [entry("b", "2"), first, entry("a", "1"), second, entry("a", "3")].concat();
    let found = config_map(&raw).unwrap();
    assert_eq!(found["data"], json!({"a": "3", "b": "2"}));
    assert_eq!(found["metadata"], json!({"name": "name", "labels": {"a": "x", "b": "x"}, "finalizers": ["f1", "f2"]}));
}

#[test]
fn what_kubernetes_would_not_encode_is_not_canonical() {
    let config_map = kind("v1", "ConfigMap");
    let metadata = bytes(1, &[bytes(1, b"name"), bytes(3, b"shop")].concat());
    let canonical = [metadata.clone(), entry("a", "1"), entry("b", "2"), bytes(12, b"new")].concat();
    assert!(config_map.is_canonical(&canonical));
    for (other, why) in [
        ([entry("a", "1"), metadata.clone()].concat(), "mixed fields"),
        ([metadata.clone(), metadata.clone()].concat(), "a message in two parts"),
        (bytes(1, &[bytes(1, b"a"), bytes(1, b"b")].concat()), "a string twice"),
        (canonical[..canonical.len() - 1].to_vec(), "a truncated field"),
        (bytes(1, &[0x08, 1]), "a number instead of a string"),
        (vec![0x0e], "an unknown wire type"),
    ] {
        assert!(!config_map.is_canonical(&other), "{why}");
    }
}

#[test]
fn a_type_that_does_not_accept_a_value_is_an_error_at_its_place() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Odd {
        data: BTreeMap<String, u8>,
    }
    let raw = [bytes(1, b""), entry("a", "1")].concat();
    let error = kind("v1", "ConfigMap").deserialize::<Odd>(&raw).unwrap_err();
    assert_eq!(
        error.to_string(),
        "io.k8s.api.core.v1.ConfigMap.data: invalid type: string \"1\", expected u8 at byte 9"
    );
}

#[test]
fn a_type_reads_a_map_and_a_struct_as_it_does_from_json() {
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    enum Key {
        #[serde(rename = "a")]
        A,
    }
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    struct Name(String);
    #[derive(Debug, PartialEq, Deserialize)]
    struct Values {
        a: String,
        b: Option<String>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Of<T> {
        data: T,
    }
    fn equal<T: DeserializeOwned + PartialEq + Debug>(raw: &[u8]) {
        let from_json: Of<T> = serde_json::from_value(config_map(raw).unwrap()).unwrap();
        assert_eq!(kind("v1", "ConfigMap").deserialize::<Of<T>>(raw).unwrap(), from_json);
    }
    let raw = entry("a", "1");
    equal::<BTreeMap<Name, Name>>(&raw);
    equal::<BTreeMap<Option<String>, Option<String>>>(&raw);
    equal::<BTreeMap<Key, String>>(&raw);
    equal::<Values>(&raw);
    equal::<Value>(&raw);
    let error = kind("v1", "ConfigMap").deserialize::<Of<Vec<String>>>(&raw).unwrap_err().to_string();
    assert!(error.contains("invalid type: map, expected a sequence"), "{error}");
}

#[test]
fn a_type_with_less_than_a_list_or_an_object_has_is_an_error_as_it_is_from_json() {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Data {
        #[serde(rename = "a")]
        A(String),
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct WithData {
        data: Data,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Metadata {
        finalizers: (String,),
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct WithMetadata {
        metadata: Metadata,
    }
    fn from_both<T: DeserializeOwned>(raw: &[u8]) -> [Option<T>; 2] {
        let from_json = serde_json::from_value(config_map(raw).unwrap());
        [from_json.ok(), kind("v1", "ConfigMap").deserialize(raw).ok()]
    }
    let first = bytes(14, b"f1");
    let [json, protobuf] = from_both::<WithMetadata>(&bytes(1, &first));
    assert!(json.is_some() && json == protobuf);
    let both = [first, bytes(14, b"f2")].concat();
    assert_eq!(from_both::<WithMetadata>(&bytes(1, &both)), [None, None]);

    let [json, protobuf] = from_both::<WithData>(&entry("a", "1"));
    assert!(json.is_some() && json == protobuf);
    assert_eq!(from_both::<WithData>(&[entry("a", "1"), entry("b", "2")].concat()), [None, None]);
}

#[test]
fn the_last_of_several_values_counts() {
    let raw = bytes(1, &[bytes(1, b"one"), bytes(1, b"two")].concat());
    assert_eq!(config_map(&raw).unwrap()["metadata"]["name"], "two");
}

#[test]
fn numbers_may_be_packed() {
    // spec.securityContext.supplementalGroups of a pod.
    let pod = |groups: &[u8]| bytes(2, &bytes(14, groups));
    let packed = pod(&bytes(4, &[1, 0xac, 2]));
    let single = pod(&[0x20, 1, 0x20, 0xac, 2]);
    for raw in [packed, single] {
        let found = kind("v1", "Pod").decode_value(&raw).unwrap();
        assert_eq!(found["spec"]["securityContext"]["supplementalGroups"], json!([1, 300]));
    }
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_as_go_does() {
    assert_eq!(config_map(&bytes(1, &bytes(1, b"a\xffb"))).unwrap()["metadata"]["name"], "a\u{fffd}b");
}

#[test]
fn errors_name_message_field_and_offset() {
    let cut = [bytes(1, b""), bytes(2, &[0x0a, 5, b'a'])].concat();
    assert_eq!(
        config_map(&cut).unwrap_err(),
        "io.k8s.api.core.v1.ConfigMap.data: the bytes end in the middle of a value at byte 4"
    );
    let wrong = bytes(1, &[0x08, 1]);
    assert_eq!(
        config_map(&wrong).unwrap_err(),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.name: a value has the wire type 0, which this field does not \
         accept at byte 2"
    );
    let error = Envelope::open(b"{\"kind\": \"Pod\"}").unwrap_err();
    assert_eq!(error.to_string(), "the envelope: the bytes do not begin with `k8s` and a zero byte at byte 0");
}

#[test]
fn nesting_is_limited() {
    let definition = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let nested = |depth: usize| {
        // A schema that negates a schema that negates…
        let schema = (0..depth).fold(Vec::new(), |inner, _| [&[0xe2, 0x01][..], &bytes(0, &inner)[1..]].concat());
        bytes(2, &bytes(7, &bytes(4, &bytes(1, &schema))))
    };
    let found = definition.decode_value(&nested(50)).unwrap();
    let mut schema = &found["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for _ in 0..50 {
        schema = &schema["not"];
    }
    assert_eq!(*schema, json!({}));
    let error = definition.decode_value(&nested(100_000)).unwrap_err().to_string();
    assert!(error.contains("nested more than 127 deep"), "{error}");
}

#[test]
fn embedded_json_must_be_json_and_not_too_deep() {
    let revision = |raw: &[u8]| {
        let raw = bytes(2, &bytes(1, raw));
        kind("apps/v1", "ControllerRevision").decode_value(&raw).map_err(|error| error.to_string())
    };
    assert_eq!(revision(br#"{"a": [1]}"#).unwrap()["data"], json!({"a": [1]}));
    assert_eq!(revision(b"").unwrap()["data"], Value::Null);
    let error = revision(b"{").unwrap_err();
    assert!(error.starts_with("io.k8s.api.apps.v1.ControllerRevision.data: it contains invalid JSON"), "{error}");
    let error = revision("[".repeat(1_000_000).as_bytes()).unwrap_err();
    assert!(error.contains("nested more than"), "{error}");
}

#[test]
fn values_of_the_wrong_type_have_no_encoding() {
    for (object, why) in [
        (
            json!({"spec": {"hostNetwork": "yes"}}),
            "io.k8s.api.core.v1.PodSpec.hostNetwork: expected true or false, found \"yes\"",
        ),
        (json!({"spec": {"containers": {}}}), "io.k8s.api.core.v1.PodSpec.containers: expected a list, found {}"),
        (
            json!({"spec": {"priority": 3_000_000_000_u64}}),
            "io.k8s.api.core.v1.PodSpec.priority: expected a whole number of 32 bits, found 3000000000",
        ),
        (
            json!({"metadata": {"creationTimestamp": "today"}}),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.creationTimestamp: expected a time such as \
             2026-01-02T03:04:05Z, found \"today\"",
        ),
    ] {
        assert_eq!(kind("v1", "Pod").encode(&object).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_list_in_parts_is_the_list_in_one() {
    let pods = kind("v1", "PodList");
    let items = [json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "b"}, "spec": {"nodeName": "n"}})];
    let metadata = json!({"resourceVersion": "7", "continue": "x"});
    let mut list = List::new(pods);
    for item in &items {
        list.push(item).unwrap();
    }
    let parts: Vec<u8> = list.finish(&metadata).unwrap().flatten().collect();
    assert_eq!(parts, pods.encode(&json!({"metadata": metadata, "items": items})).unwrap());
}

#[test]
fn events_of_a_watch_are_written_and_read() {
    let object = kind("v1", "ConfigMap").encode(&json!({"metadata": {"name": "a"}})).unwrap();
    let mut frames = Vec::new();
    Event { kind: "ADDED".into(), object: &object }.write(&mut frames);
    let (length, frame) = frames.split_at(watch::LENGTH);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, frame.len());
    let event = Event::read(frame).unwrap();
    assert_eq!((&*event.kind, event.object), ("ADDED", &object[..]));
    assert!(Event::read(&frame[..frame.len() - 1]).is_err());
}
