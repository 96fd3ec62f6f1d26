//! Objects that Kubernetes' own code has encoded come out as its own JSON, and go back as the same bytes.

use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_protobuf::{Envelope, Kind};
use serde::de::DeserializeOwned;
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
    assert!(of.is_canonical(envelope.raw()), "{api_version} {kind}");
    let deserialized: Value = of.deserialize(envelope.raw()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(deserialized, expected, "{api_version} {kind}");
    check_types(of, envelope.raw(), &json);
    let again = of.encode(&expected).unwrap_or_else(|error| panic!("{kind}: {error}"));
    if again != encoded {
        let other = of.decode_value(Envelope::open(&again).unwrap().raw()).unwrap();
        assert_eq!(other, expected, "{api_version} {kind}, encoded and decoded");
        let at = again.iter().zip(&encoded).position(|(one, other)| one != other).unwrap_or(again.len());
        panic!("{api_version} {kind} has other bytes from {at} on");
    }
}

/// Checks that a type is the same from both encodings.
fn check_type<T: DeserializeOwned + PartialEq + Debug>(of: Kind, raw: &[u8], json: &[u8]) {
    let expected: T = serde_json::from_slice(json).unwrap_or_else(|error| panic!("{of:?}: {error}"));
    assert_eq!(of.deserialize::<T>(raw).unwrap(), expected, "{of:?}");
}

fn check_types(of: Kind, raw: &[u8], json: &[u8]) {
    let check = match (of.api_version(), of.name()) {
        ("v1", "ConfigMap") => check_type::<core::ConfigMap>,
        ("v1", "Event") => check_type::<core::Event>,
        ("v1", "Node") => check_type::<core::Node>,
        ("v1", "Pod") => check_type::<core::Pod>,
        ("v1", "Secret") => check_type::<core::Secret>,
        ("v1", "Service") => check_type::<core::Service>,
        ("apps/v1", "ControllerRevision") => check_type::<apps::ControllerRevision>,
        ("apps/v1", "Deployment") => check_type::<apps::Deployment>,
        ("apps/v1", "StatefulSet") => check_type::<apps::StatefulSet>,
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => check_type::<CustomResourceDefinition>,
        ("authorization.k8s.io/v1", "SubjectAccessReview") => check_type::<SubjectAccessReview>,
        ("coordination.k8s.io/v1", "Lease") => check_type::<Lease>,
        ("policy/v1", "PodDisruptionBudget") => check_type::<PodDisruptionBudget>,
        _ => return,
    };
    check(of, raw, json);
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
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/control-plane"))
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
