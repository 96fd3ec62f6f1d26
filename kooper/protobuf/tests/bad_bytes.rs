//! Whatever the bytes are, decoding ends with JSON or with an error, and a type gets what the JSON has.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kooper_fuzz::fuzz;
use kooper_protobuf::watch::Event;
use kooper_protobuf::{Envelope, Kind, ListReader};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

const SAMPLE: &str = include_str!("objects.txt");

/// The objects, which are read once for all cases.
fn objects() -> &'static [Vec<u8>] {
    static OBJECTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        SAMPLE.lines().map(|line| STANDARD.decode(line.split(' ').nth(2).unwrap()).unwrap()).collect()
    });
    &OBJECTS
}

/// Decodes bytes in every way.
fn decode(bytes: &[u8]) {
    drop(Event::read(bytes));
    let Ok(envelope) = Envelope::open(bytes) else { return };
    for (api_version, kind) in [(envelope.api_version(), envelope.kind()), ("v1", "Pod")] {
        let Some(kind) = Kind::of(api_version, kind) else { continue };
        let deserialized = kind.deserialize::<Value>(envelope.raw());
        if kind.is_canonical(envelope.raw()) {
            let json = kind.decode_json(envelope.raw()).unwrap();
            assert_eq!(deserialized.unwrap(), serde_json::from_slice::<Value>(&json).unwrap());
        }
        match kind.decode_value(envelope.raw()) {
            Ok(value) => {
                // A value that can be encoded has the same encoding after another round trip.
                if let Ok(again) = kind.encode(&value) {
                    let again = kind.decode_value(Envelope::open(&again).unwrap().raw()).unwrap();
                    assert_eq!(kind.encode(&again).unwrap(), kind.encode(&value).unwrap());
                }
            }
            Err(error) => assert!(error.offset() <= envelope.raw().len(), "{error}"),
        }
    }
}

/// Reads bytes as a list that comes in chunks.
fn read_list(bytes: &[u8]) {
    for chunk in [7, 4096] {
        let mut reader = ListReader::default();
        let all =
            bytes.chunks(chunk).try_for_each(|chunk| reader.push(chunk, |kind, item| drop(kind.decode_value(item))));
        if all.is_ok() {
            drop(reader.finish());
        }
    }
}

#[test]
fn mutated_bytes_are_refused_or_decoded() {
    let words = &["k8s\0", "\x0a\x09\x0a\x02v1\x12\x03Pod", "v1", "Pod", "\x12", "\x1a", "\x7f\x7f", "PodList"];
    let events = objects().iter().map(|object| {
        let mut event = Vec::new();
        Event { kind: "ADDED".into(), object }.write(&mut event);
        event
    });
    let seeds: Vec<_> = objects().iter().cloned().chain(events).collect();
    fuzz("protobuf", seeds, words, |input| {
        decode(input);
        read_list(input);
    });
}

fn cases() -> u32 {
    std::env::var("KOOPER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn truncated_objects_are_refused_or_decoded(which: Index, at: Index) {
        let object = which.get(objects());
        decode(&object[..at.index(object.len())]);
    }

    #[test]
    fn changed_objects_are_refused_or_decoded(
        which: Index,
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..8),
    ) {
        let mut object = which.get(objects()).clone();
        for (at, byte) in changes {
            let at = at.index(object.len());
            object[at] ^= byte;
        }
        decode(&object);
    }

    #[test]
    fn mixed_objects_are_refused_or_decoded(one: Index, other: Index, from: Index, to: Index, at: Index) {
        let mut object = one.get(objects()).clone();
        let other = other.get(objects());
        let (from, to) = (from.index(other.len()), to.index(other.len()));
        let at = at.index(object.len());
        object.splice(at..at, other[from.min(to)..from.max(to)].iter().copied());
        decode(&object);
    }

    #[test]
    fn any_bytes_are_refused_or_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decode(&bytes);
        // As the object in an envelope.
        let mut object = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod".to_vec();
        object.extend([0x12, bytes.len() as u8 | 0x80, (bytes.len() >> 7) as u8]);
        object.extend(bytes);
        decode(&object);
    }
}
