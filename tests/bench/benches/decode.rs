//! Benchmark of decoding: `cargo bench -p kooper-bench --bench decode`.
//!
//! A pod of the benchmark against other programs, from protobuf and from JSON, as a whole and in part.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper_protobuf::{Envelope, Kind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The fields for a handler that needs the name of the node, as `derive(Partial)` does it.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only decoded")]
struct PodNode {
    metadata: ObjectMeta,
    spec: PodNodeSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only decoded")]
struct PodNodeSpec {
    node_name: Option<String>,
}

fn encoded(kind: Kind, object: &Value) -> Vec<u8> {
    let bytes = kind.encode(object).expect("it has an encoding");
    Envelope::open(&bytes).expect("it has an envelope").raw().to_vec()
}

/// Decodes an object from both encodings.
fn both<T: DeserializeOwned>(criterion: &mut Criterion, name: &str, kind: Kind, object: &Value) {
    let raw = encoded(kind, object);
    let json = String::from_utf8(kind.decode_json(&raw).expect("it was encoded")).expect("JSON is text");
    let mut group = criterion.benchmark_group(name);
    group.bench_function(format!("protobuf, {} bytes", raw.len()), |bencher| {
        bencher.iter(|| kind.deserialize::<T>(black_box(&raw)).expect("the type accepts it"));
    });
    group.bench_function(format!("JSON, {} bytes", json.len()), |bencher| {
        bencher.iter(|| serde_json::from_str::<T>(black_box(&json)).expect("the type accepts it"));
    });
}

fn benches(criterion: &mut Criterion) {
    let pods = Kind::of("v1", "Pod").expect("it is built in");
    let pod: Value = serde_json::from_str(include_str!("pod.json")).expect("the file is a pod");
    both::<Pod>(criterion, "pod", pods, &pod);
    both::<PodNode>(criterion, "metadata and node of a pod", pods, &pod);

    let raw = encoded(pods, &pod);
    let mut group = criterion.benchmark_group("protobuf of a pod");
    group.bench_function("to JSON", |bencher| bencher.iter(|| pods.decode_json(black_box(&raw)).expect("a pod")));
    group.bench_function("is canonical", |bencher| bencher.iter(|| pods.is_canonical(black_box(&raw))));
    group.finish();

    let mut secret = Secret::default();
    secret.metadata.name = Some("shop".to_owned());
    let data = |index: u8| (format!("key-{index}"), ByteString((0..2_000).map(|byte| byte as u8 ^ index).collect()));
    secret.data = Some((0..4).map(data).collect());
    let secret = serde_json::to_value(&secret).expect("it has JSON");
    both::<Secret>(criterion, "secret", Kind::of("v1", "Secret").expect("it is built in"), &secret);
}

criterion_group!(decoding, benches);
criterion_main!(decoding);
