use http::header::{CONTENT_TYPE, HeaderMap};
use kooper_protobuf::watch::write_frame;
use kooper_protobuf::{Kind, List};
use proptest::prelude::*;
use serde_json::json;

use super::super::{EventReader, PageReader};
use super::*;

fn kind(name: &str) -> Kind {
    Kind::of("v1", name).expect("it is built in")
}

fn config(name: &str) -> Value {
    let managed = json!([{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}]);
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "5", "managedFields": managed},
        "data": {"managedFields": "kept", "a": "b"},
    })
}

fn headers(media: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, media.parse().expect("it is a header"))])
}

fn page_of(names: &[&str]) -> Vec<u8> {
    let mut list = List::new(kind("ConfigMapList"));
    for name in names {
        list.push(&config(name)).expect("it has an encoding");
    }
    list.finish(&json!({"resourceVersion": "9", "continue": "more"})).expect("it is metadata").flatten().collect()
}

fn page(body: &[u8], chunk: usize) -> Result<Page, RetrieveError> {
    let mut reader = PageReader::of(&headers("application/vnd.kubernetes.protobuf"));
    for chunk in body.chunks(chunk) {
        reader.push(chunk)?;
    }
    reader.end()
}

fn framed(event: &str, object: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    WatchEvent { kind: event.into(), object }.write(&mut bytes);
    bytes
}

fn watched(body: &[u8], chunk: usize) -> Vec<Result<Event, RetrieveError>> {
    let mut reader = EventReader::of(&headers("application/vnd.kubernetes.protobuf;stream=watch"));
    let mut found = Vec::new();
    for chunk in body.chunks(chunk) {
        reader.push(Bytes::copy_from_slice(chunk)).expect("it is not too long");
        while let Some(event) = reader.next() {
            found.push(event);
        }
    }
    found
}

#[test]
fn objects_have_no_managed_fields() {
    let page = page(&page_of(&["a"]), 50).unwrap();
    let object = page.objects[0].as_ref().unwrap();
    assert_eq!((object.key().as_str(), object.uid(), object.version()), ("shop/a", "u", "5"));
    let json: Value = serde_json::from_slice(&object.json()).unwrap();
    assert_eq!(json["metadata"].get("managedFields"), None);
    assert_eq!(json["data"], json!({"managedFields": "kept", "a": "b"}));
    assert_eq!((page.version.as_str(), page.continue_token.as_deref()), ("9", Some("more")));
}

#[test]
fn managed_fields_are_not_decoded() {
    let mut object = kind("ConfigMap").encode(&config("a")).unwrap();
    let at = object.windows(6).position(|window| window == b"Update").unwrap();
    // A value of another type than the field has.
    object[at - 2] = (2 << 3) | 5;
    let [Ok(Event::Added(object))] = &watched(&framed("ADDED", &object), 1000)[..] else { panic!("it is malformed") };
    assert_eq!((object.key().as_str(), object.uid(), object.version()), ("shop/a", "u", "5"));
}

#[test]
fn a_name_elsewhere_is_not_the_name_of_the_object() {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "owner", "uid": "other"});
    let metadata = json!({"ownerReferences": [owner], "labels": {"name": "label", "uid": "label"}});
    let object = kind("Pod").encode(&json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}})).unwrap();
    assert!(matches!(watched(&framed("ADDED", &object), 1000)[..], [Ok(Event::Malformed(_))]));
    assert!(matches!(watched(&framed("DELETED", &object), 1000)[..], [Ok(Event::MalformedDeletion(_))]));
}

#[test]
fn an_object_with_a_deletion_timestamp_is_being_deleted() {
    let read = |metadata: Value| {
        let object = kind("Pod").encode(&json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        let [Ok(Event::Added(object))] = &watched(&framed("ADDED", &object), 1000)[..] else { panic!("malformed") };
        object.is_terminating()
    };
    assert!(read(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"})));
    assert!(!read(
        json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"deletionTimestamp": "x"}})
    ));
}

#[test]
fn an_object_that_does_not_decode_does_not_affect_its_neighbors() {
    let broken = |name: &str| {
        let mut object = kind("ConfigMap").encode(&config(name)).unwrap();
        // A value of another type than the field has.
        let at = object.windows(4).position(|window| window == b"shop").unwrap();
        object[at - 2] = (3 << 3) | 5;
        object
    };
    let good = kind("ConfigMap").encode(&config("c")).unwrap();
    let body = [framed("ADDED", &broken("a")), framed("ADDED", &good)].concat();
    match &watched(&body, 11)[..] {
        [Ok(Event::Malformed(error)), Ok(Event::Added(object))] => {
            assert_eq!(object.key().as_str(), "shop/c");
            let error = error.to_string();
            assert!(error.contains("ObjectMeta"), "{error}");
            assert!(!error.contains("shop"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_whose_object_has_no_envelope_does_not_end_its_watch() {
    let good = kind("ConfigMap").encode(&config("c")).unwrap();
    let body = [framed("MODIFIED", &good[..6]), framed("DELETED", b"no envelope"), framed("ADDED", &good)].concat();
    match &watched(&body, 11)[..] {
        [Ok(Event::Malformed(_)), Ok(Event::MalformedDeletion(_)), Ok(Event::Added(object))] => {
            assert_eq!(object.key().as_str(), "shop/c");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bookmarks_and_errors_are_read() {
    let end = json!({"metadata": {"resourceVersion": "12", "annotations": {INITIAL_EVENTS_END: "true"}}});
    let gone = json!({"status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
    let body = [
        framed("BOOKMARK", &kind("Pod").encode(&end).unwrap()),
        framed("ERROR", &kind("Status").encode(&gone).unwrap()),
    ];
    match &watched(&body.concat(), 1000)[..] {
        [Ok(Event::Bookmark { version, initial_events_end: true }), Err(RetrieveError::Expired(message))] => {
            assert_eq!((version.as_str(), message.as_str()), ("12", "too old"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_that_contradict_their_content_type_are_refused() {
    let refused = page(br#"{"kind":"ConfigMapList","items":[]}"#, 10).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the response is invalid: the envelope: the bytes do not begin with `k8s` and a zero byte at byte 0"
    );
    let mut body = Vec::new();
    write_frame(&mut body, br#"{"type":"ADDED"}"#);
    assert!(matches!(watched(&body, 100)[..], [Err(RetrieveError::InvalidResponse(_))]));
}

#[test]
fn a_frame_that_is_too_long_is_refused_once() {
    let body = [&u32::MAX.to_be_bytes()[..], b"abc"].concat();
    for chunk in [1, 5, 100] {
        match &watched(&body, chunk)[..] {
            [Err(RetrieveError::InvalidResponse(message))] => {
                assert_eq!(message, "it has an object of more than 64 MiB");
            }
            other => panic!("chunks of {chunk}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn chunks_of_any_size_give_the_same_objects(chunk in 1_usize..500) {
        let page = page(&page_of(&["a", "b"]), chunk).unwrap();
        let keys: Vec<_> = page.objects.iter().map(|object| object.as_ref().unwrap().key().to_string()).collect();
        prop_assert_eq!(keys, ["shop/a", "shop/b"]);
        let events: Vec<_> = ["a", "b"].iter().flat_map(|name| framed("ADDED", &kind("ConfigMap").encode(&config(name)).unwrap())).collect();
        prop_assert_eq!(watched(&events, chunk).len(), 2);
    }

    #[test]
    fn flipped_bits_never_panic(bit in 0_usize..4000, chunk in 1_usize..300) {
        let mut body = page_of(&["a", "b"]);
        let at = (bit / 8).min(body.len() - 1);
        body[at] ^= 1 << (bit % 8);
        drop(page(&body, chunk));
        let mut events = framed("ADDED", &kind("ConfigMap").encode(&config("a")).unwrap());
        let at = (bit / 8).min(events.len() - 1);
        events[at] ^= 1 << (bit % 8);
        drop(watched(&events, chunk));
    }
}
