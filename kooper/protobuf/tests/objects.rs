//! Objects that Kubernetes' own code has encoded come out as its own JSON, and go back as the same bytes.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kooper_protobuf::{Envelope, Kind};
use serde_json::Value;

/// An object of each kind of a stable version, written by `tests/control-plane/write-tables`.
const SAMPLE: &str = include_str!("objects.txt");

/// Checks a line: an API version, a kind, the encoded object and its JSON.
fn check(line: &str) {
    let mut words = line.splitn(4, ' ');
    let [api_version, kind, encoded, json] = std::array::from_fn(|_| words.next().unwrap());
    let encoded = STANDARD.decode(encoded).unwrap();
    let expected: Value = serde_json::from_str(json).unwrap();
    let envelope = Envelope::open(&encoded).unwrap();
    assert_eq!((envelope.api_version(), envelope.kind()), (api_version, kind));
    let of = Kind::of(api_version, kind).unwrap_or_else(|| panic!("{api_version} {kind} is not in the table"));
    let decoded = of.decode_value(envelope.raw()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(decoded, expected, "{api_version} {kind}");
    let json = of.decode_json(envelope.raw()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), expected, "{api_version} {kind}");
    let again = of.encode(&expected).unwrap_or_else(|error| panic!("{kind}: {error}"));
    if again != encoded {
        let other = of.decode_value(Envelope::open(&again).unwrap().raw()).unwrap();
        assert_eq!(other, expected, "{api_version} {kind}, encoded and decoded");
        let at = again.iter().zip(&encoded).position(|(one, other)| one != other).unwrap_or(again.len());
        panic!("{api_version} {kind} has other bytes from {at} on");
    }
}

#[test]
fn objects_of_all_kinds_round_trip() {
    assert!(SAMPLE.lines().count() > 100);
    SAMPLE.lines().for_each(check);
}

/// `KOOPER_OBJECTS=25` checks so many random objects of each kind, `KOOPER_SEED` sets which. It needs Go.
#[test]
fn random_objects_round_trip() {
    let Ok(count) = std::env::var("KOOPER_OBJECTS") else { return };
    let seed = std::env::var("KOOPER_SEED").unwrap_or_else(|_| "1".to_owned());
    let mut program = Command::new("go")
        .args(["run", "-mod=readonly", "-buildvcs=false", "-trimpath", "./protobuf", "objects", &seed, &count])
        .env("CGO_ENABLED", "0")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/control-plane"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("Go is installed");
    let mut checked = 0;
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        check(&line.unwrap());
        checked += 1;
    }
    assert!(program.wait().unwrap().success());
    println!("{checked} objects");
    assert!(checked > 300);
}
