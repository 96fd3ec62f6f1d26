//! Compares the content of CRDs, independent of their form, and their versions.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kooper_runtime::internal::watch::retriever::fnv1a;
use kube::ResourceExt;
use serde_json::{Value, json};

/// The annotation with the version of the program that applied it.
pub(crate) const VERSION: &str = "kooper.rs/version";

/// The annotation with the name of the program that it belongs to.
pub const PROGRAM: &str = "kooper.rs/program";

/// The annotation with the hash of the content, which is the same in every build of the program.
pub(crate) const HASH: &str = "kooper.rs/schema-hash";

/// A CRD with the annotations by which a later one is compared with it, and by which
/// a program, in the form of its name in Kubernetes, recognises its own.
#[must_use]
pub fn annotated(mut crd: CustomResourceDefinition, program: &str, version: &str) -> CustomResourceDefinition {
    let mut bytes = Vec::new();
    write(&content(&crd), &mut bytes);
    let annotations = crd.annotations_mut();
    annotations.insert(HASH.to_owned(), format!("{:016x}", fnv1a(&bytes)));
    annotations.insert(PROGRAM.to_owned(), program.to_owned());
    annotations.insert(VERSION.to_owned(), version.to_owned());
    crd
}

/// One CRD for each name: types of several versions of a kind share one. The
/// most stable and newest version is the one that objects are stored in, and
/// whose type has the names of the kind.
pub fn merged(crds: impl IntoIterator<Item = CustomResourceDefinition>) -> BTreeMap<String, CustomResourceDefinition> {
    let priority = |version: &CustomResourceDefinitionVersion| kube::core::Version::parse(&version.name).priority();
    let mut crds: Vec<_> = crds.into_iter().collect();
    crds.sort_by_key(|crd| Reverse(crd.spec.versions.iter().map(priority).max()));
    let mut merged: BTreeMap<String, CustomResourceDefinition> = BTreeMap::new();
    for mut crd in crds {
        let versions = std::mem::take(&mut crd.spec.versions);
        let all = &mut merged.entry(crd.name_any()).or_insert(crd).spec.versions;
        for version in versions {
            if !all.iter().any(|known| known.name == version.name) {
                all.push(version);
            }
        }
        if all.len() > 1 {
            all.sort_by_key(|version| Reverse(priority(version)));
            for (at, version) in all.iter_mut().enumerate() {
                version.storage = at == 0;
            }
        }
    }
    merged
}

/// Returns `true` if two CRDs have the same content. The hash is not enough: an edit
/// by hand does not change it.
pub(crate) fn same(one: &CustomResourceDefinition, other: &CustomResourceDefinition) -> bool {
    content(one) == content(other)
}

/// Returns `true` if a version such as `1.2.3-rc.1` is newer than another one;
/// `false` if either is not a version.
pub(crate) fn is_newer(one: &str, than: &str) -> bool {
    match (Version::parse(one), Version::parse(than)) {
        (Some(one), Some(than)) => one.cmp(&than) == Ordering::Greater,
        _ => false,
    }
}

/// The spec with the defaults that the API server sets, and without the fields
/// that it omits.
fn content(crd: &CustomResourceDefinition) -> Value {
    let mut spec = serde_json::to_value(&crd.spec).unwrap_or_default();
    let kind = &crd.spec.names.kind;
    let mut default = |pointer: [&str; 2], value: Value| {
        let place = &mut spec[pointer[0]][pointer[1]];
        if place.is_null() || *place == json!("") {
            *place = value;
        }
    };
    default(["names", "listKind"], json!(format!("{kind}List")));
    default(["names", "singular"], json!(kind.to_lowercase()));
    default(["conversion", "strategy"], json!("None"));
    if spec["preserveUnknownFields"] == json!(false) {
        spec["preserveUnknownFields"] = Value::Null;
    }
    let versions = spec["versions"].as_array_mut().into_iter().flatten();
    let columns = versions.filter_map(|version| version["additionalPrinterColumns"].as_array_mut()).flatten();
    for fields in columns.filter_map(Value::as_object_mut) {
        fields.retain(|_, value| *value != 0 && *value != "");
    }
    strip(&mut spec, "");
    spec
}

/// Removes values without a meaning: null and empty lists, except in a default. Numbers become those that the API server
/// writes. `keyword` is the one that the value is part of.
fn strip(value: &mut Value, keyword: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let keyword = match keyword {
                    "default" => keyword,
                    // Names of fields are not keywords.
                    "properties" => "",
                    _ => name.as_str(),
                };
                strip(value, keyword);
            }
            fields.retain(|name, value| {
                let is_empty = value.as_array().is_some_and(Vec::is_empty);
                keyword == "default" || !(value.is_null() || is_empty && name != "default")
            });
        }
        Value::Array(list) => list.iter_mut().for_each(|value| strip(value, keyword)),
        // Go writes a float without a fraction as an integer.
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().and_then(|number| number.to_string().parse::<i64>().ok());
            if let Some(whole) = whole {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Writes what is hashed. Fields are in the order of their names.
fn write(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                write_text(name, to);
                write(value, to);
            }
            write_text("}", to);
        }
        Value::Array(list) => {
            list.iter().for_each(|value| write(value, to));
            write_text("]", to);
        }
        scalar => write_text(&scalar.to_string(), to),
    }
}

fn write_text(text: &str, to: &mut Vec<u8>) {
    to.extend(text.bytes().chain([0]));
}

/// A version as semantic versioning orders it; missing numbers are 0.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    /// A release is newer than its candidates.
    release: bool,
    candidate: Vec<CandidatePart>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum CandidatePart {
    Number(u64),
    Text(String),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, candidate) = text.split_once('-').map_or((text, None), |(a, b)| (a, Some(b)));
        let mut parsed = [0; 3];
        for (at, number) in numbers.split('.').enumerate() {
            *parsed.get_mut(at)? = number.parse().ok()?;
        }
        let part =
            |part: &str| part.parse().map_or_else(|_| CandidatePart::Text(part.to_owned()), CandidatePart::Number);
        Some(Self {
            numbers: parsed,
            release: candidate.is_none(),
            candidate: candidate.map(|text| text.split('.').map(part).collect()).unwrap_or_default(),
        })
    }
}
