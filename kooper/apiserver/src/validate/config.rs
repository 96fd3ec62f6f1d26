//! The rules of ConfigMaps and Secrets.

use serde_json::Value;

use super::at::At;
use crate::cause::Cause;
use crate::form;

/// The bytes that all values may have together.
const MOST_BYTES: usize = 1 << 20;
pub(super) const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &At<'_>, present: Option<&Value>) {
    let (data, binary) = (object.field("data"), object.field("binaryData"));
    keys(&data);
    keys(&binary);
    for (key, entry) in data.entries() {
        if binary.value.get(key).is_some() {
            entry.invalid_as(&key.into(), "duplicate of key present in binaryData");
        }
    }
    let texts: usize = data.entries().iter().map(|(_, entry)| entry.text().len()).sum();
    if texts + decoded_bytes(&binary) > MOST_BYTES {
        object.named("[]".to_owned()).add(too_long("[]"));
    }
    frozen(object, present, &["data", "binaryData"]);
}

pub(super) fn secret(object: &At<'_>, present: Option<&Value>) {
    let data = object.field("data");
    if let Some(present) = present {
        object.field("type").immutable(&present["type"]);
    }
    keys(&data);
    if decoded_bytes(&data) > MOST_BYTES {
        data.add(too_long("data"));
    }
    let has = |key: &str| data.value.get(key).is_some();
    let require = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !has(key)) {
            data.named(format!("data[{key}]")).require("");
        }
    };
    match object.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if object.value["metadata"]["annotations"][name].as_str().unwrap_or_default().is_empty() {
                data.named(format!("metadata.annotations[{name}]")).require("");
            }
        }
        "kubernetes.io/dockercfg" => require(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => require(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => require(&["username", "password"]),
        "kubernetes.io/ssh-auth" => require(&["ssh-privatekey"]),
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
        _ => {}
    }
    frozen(object, present, &["data"]);
}

fn keys(data: &At<'_>) {
    for (key, entry) in data.entries() {
        for why in form::config_key(key) {
            entry.invalid_as(&key.into(), why);
        }
    }
}

/// The size of what base64 stands for.
fn decoded_bytes(data: &At<'_>) -> usize {
    data.entries().iter().map(|(_, entry)| entry.text().trim_end_matches('=').len() * 3 / 4).sum()
}

fn too_long(field: &str) -> Cause {
    Cause::other("FieldValueTooLong", field, format!("Too long: may not be more than {MOST_BYTES} bytes"))
}

/// What an immutable object keeps.
fn frozen(object: &At<'_>, present: Option<&Value>, fields: &[&str]) {
    let Some(present) = present.filter(|present| present["immutable"] == true) else { return };
    if !object.field("immutable").is_true() {
        object.field("immutable").forbidden(FROZEN);
    }
    for field in fields {
        if object.field(field).value != &present[field] {
            object.field(field).forbidden(FROZEN);
        }
    }
}
