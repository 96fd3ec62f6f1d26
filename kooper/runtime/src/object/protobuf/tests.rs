use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper_protobuf::{Envelope, RawField};
use serde_json::{Value, json};

use super::super::{Dictionaries, differs};
use super::*;
use crate::object::sections::Changed;

/// An object of each kind with as many fields as it has, as Kubernetes' own code encodes it.
const SAMPLE: &str = include_str!("../../../../protobuf/tests/objects.txt");

/// Each object with its kind.
fn sample() -> Vec<(Kind, Vec<u8>)> {
    let object = |line: &str| {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        let bytes = STANDARD.decode(words[2]).unwrap();
        (Kind::of(words[0], words[1]).unwrap(), Envelope::open(&bytes).unwrap().raw().to_vec())
    };
    SAMPLE.lines().map(object).collect()
}

fn encoded(kind: Kind, object: &Value) -> Vec<u8> {
    Envelope::open(&kind.encode(object).unwrap()).unwrap().raw().to_vec()
}

fn read(kind: Kind, raw: &[u8]) -> Option<Object> {
    Object::from_protobuf(kind, raw, &mut Vec::new())
}

/// The object from the JSON of the same bytes.
fn from_json(kind: Kind, raw: &[u8]) -> Option<Object> {
    Object::parse(&kind.decode_json(raw).ok()?).ok()
}

fn identity(object: &Object) -> (&str, &str, &str, bool) {
    (object.key().as_str(), object.uid(), object.version(), object.is_terminating())
}

fn value(object: &Object) -> Value {
    serde_json::from_slice(&object.json()).unwrap()
}

/// Checks that everything that is read from both is the same.
fn check(object: &Object, json: &Object) {
    assert_eq!(identity(object), identity(json));
    let metadata = json.metadata();
    assert_eq!(object.metadata(), metadata, "{object:?}");
    assert_eq!(value(object), value(json), "{object:?}");
    assert_eq!(object.decode::<Value>().unwrap(), value(json), "{object:?}");
    let sections = [Changed::Generation, Changed::Labels, Changed::Annotations, Changed::Finalizers, Changed::Status];
    assert!(!differs(object, json, &sections), "{object:?}");
    assert!(!differs(object, object, &sections), "{object:?}");
}

#[test]
fn objects_of_all_kinds_are_kept_in_protobuf_and_are_those_of_the_json() {
    let dictionaries = Dictionaries::default();
    let mut checked = 0;
    for (kind, raw) in sample() {
        // Reviews and lists have no name, and are not watched.
        let Some(json) = from_json(kind, &raw) else { continue };
        let object = read(kind, &raw).unwrap_or_else(|| panic!("{kind:?} is not kept in protobuf"));
        assert!(object.size() < json.size());
        check(&object, &json);
        check(&object.packed(Some(&dictionaries), false), &json);
        checked += 1;
    }
    assert!(checked > 45, "{checked} kinds");
}

#[test]
fn managed_fields_are_not_kept() {
    let kind = Kind::of("v1", "Pod").unwrap();
    let managed = json!([{"manager": "m", "fieldsV1": {"f:a": {}}}, {"manager": "n"}]);
    for length in [0, 40, 200, 20_000] {
        let metadata = json!({"name": "a", "annotations": {"a": "x".repeat(length)}});
        let mut pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}});
        let without = encoded(kind, &pod);
        pod["metadata"]["managedFields"] = managed.clone();
        let with = encoded(kind, &pod);
        let object = read(kind, &with).unwrap();
        assert_eq!(*object.text.plain(), *without, "annotations of {length} bytes");
    }
}

#[test]
fn a_field_of_a_newer_version_is_kept() {
    let kind = Kind::of("v1", "ConfigMap").unwrap();
    let new = [0xfa, 0x06, 3, b'n', b'e', b'w'];
    let raw = [encoded(kind, &json!({"metadata": {"name": "a"}})), new.to_vec()].concat();
    let [old, object] = [&raw[..raw.len() - new.len()], &raw].map(|raw| read(kind, raw).unwrap());
    assert!(object.text.plain().ends_with(&new));
    assert!(differs(&old, &object, &[Changed::Generation]));
}

#[test]
fn bytes_of_a_secret_are_those_that_were_sent() {
    let kind = Kind::of("v1", "Secret").unwrap();
    let bytes: Vec<u8> = (0..=255).collect();
    let object =
        read(kind, &encoded(kind, &json!({"metadata": {"name": "a"}, "data": {"k": STANDARD.encode(&bytes)}})));
    let secret: Secret = object.unwrap().decode().unwrap();
    assert_eq!(secret.data.unwrap()["k"].0, bytes);
}

#[test]
fn an_object_that_does_not_match_its_type_is_an_error_with_the_path() {
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Odd {
        data: std::collections::BTreeMap<String, u8>,
    }
    let kind = Kind::of("v1", "ConfigMap").unwrap();
    let raw = encoded(kind, &json!({"metadata": {"name": "a"}, "data": {"k": "canary"}}));
    let error = |object: Object| object.decode::<Odd>().unwrap_err();
    let found = error(read(kind, &raw).unwrap());
    assert_eq!(found, error(from_json(kind, &raw).unwrap()));
    assert_eq!((found.path.as_str(), found.to_string().contains("canary")), ("data.k", false));
}

/// The first occurrence of a field of the metadata.
fn field<'a>(kind: Kind, raw: &'a [u8], name: &str) -> RawField<'a> {
    let metadata = kind.fields(raw).find(|field| field.name() == "metadata").unwrap();
    metadata.fields().find(|field| field.name() == name).unwrap()
}

#[test]
fn what_kubernetes_would_not_encode_is_read_as_json() {
    let kind = Kind::of("v1", "ConfigMap").unwrap();
    let raw = encoded(kind, &json!({"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "data": {"x": "y"}}));
    let in_two_parts = [&raw[..], &[0x0a, 3, 0x0a, 1, b'z']].concat();
    let mut escaped = raw.clone();
    escaped[field(kind, &raw, "name").range().end - 1] = b'"';
    let mut broken = raw.clone();
    broken[field(kind, &raw, "name").range().start] = 0x0e;
    for other in [&raw[..raw.len() - 1], &in_two_parts, &escaped, &broken] {
        assert!(read(kind, other).is_none(), "{}", other.escape_ascii());
    }
    assert_eq!(from_json(kind, &in_two_parts).unwrap().key().as_str(), "b/z");
}

#[test]
fn mutated_objects_in_protobuf_are_those_of_the_json_or_are_read_as_json() {
    let all = sample();
    let seeds = all.iter().enumerate().map(|(at, (_, raw))| [&[at as u8], &raw[..]].concat());
    let words = &["\x0a", "\x12", "\x1a", "\x08", "\0", "\x01", "\u{8a}\x01", "\u{fa}\x01", "/", "\"", "name"];
    let mut memory = Vec::new();
    kooper_fuzz::fuzz("objects of protobuf", seeds, words, |input| {
        let Some((at, raw)) = input.split_first() else { return };
        let (kind, _) = all[usize::from(*at) % all.len()];
        let Some(object) = Object::from_protobuf(kind, raw, &mut memory) else { return };
        check(&object, &from_json(kind, &memory).expect("it is an object in JSON, too"));
        // Managed fields that cannot be decoded are not decoded.
        if let Some(json) = from_json(kind, raw) {
            check(&object, &json);
        }
        let (typed, json) = (object.decode::<Pod>(), Object::parse(&object.json()).unwrap().decode::<Pod>());
        assert_eq!(typed, json);
    });
}
