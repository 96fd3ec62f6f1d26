//! What a kind does to its objects before they are stored: defaults, status, validation.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::status::Cause;
use crate::{base64, meta};

/// Readies a new object.
pub(crate) fn create(kind: &Kind, object: &mut Value) {
    if let Some(definition) = &kind.custom {
        if definition.has_status {
            drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
        }
        return;
    }
    if kind.strategy.status {
        drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            let name = meta::text(object, "name").to_owned();
            let metadata = meta::of(object);
            if !metadata.get("labels").is_some_and(Value::is_object) {
                metadata.insert("labels".into(), json!({}));
            }
            metadata["labels"]["kubernetes.io/metadata.name"] = json!(name);
        }
        "Pod" => object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"}),
        "CustomResourceDefinition" => crate::crd::prepare(object, None),
        _ => {}
    }
    defaults(kind, object);
}

/// Readies the next state of an object.
pub(crate) fn update(kind: &Kind, object: &mut Value, present: &Value, status: bool) {
    if kind.custom.is_some() {
        return;
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"] = present["spec"].clone();
            let name = meta::text(present, "name").to_owned();
            let metadata = meta::of(object);
            if !metadata.get("labels").is_some_and(Value::is_object) {
                metadata.insert("labels".into(), json!({}));
            }
            metadata["labels"]["kubernetes.io/metadata.name"] = json!(name);
        }
        "CustomResourceDefinition" if !status => crate::crd::prepare(object, Some(present)),
        _ => {}
    }
    defaults(kind, object);
}

/// The defaults that are known of built-in kinds.
fn defaults(kind: &Kind, object: &mut Value) {
    if kind.kind == "Secret" {
        if !object["type"].is_string() {
            object["type"] = json!("Opaque");
        }
        let Some(entries) = object.as_object_mut() else { return };
        if let Some(Value::Object(texts)) = entries.remove("stringData") {
            for (key, text) in texts {
                let encoded = base64::encode(text.as_str().unwrap_or_default().as_bytes());
                object["data"][key] = json!(encoded);
            }
        }
    }
}

/// The rules that an object violates.
pub(crate) fn validate(kind: &Kind, object: &Value, present: Option<&Value>) -> Vec<Cause> {
    let mut causes = meta::validate(kind, object);
    match &kind.custom {
        Some(definition) => causes.extend(definition.validate(object, present)),
        None => causes.extend(builtin(kind, object, present)),
    }
    causes
}

fn builtin(kind: &Kind, object: &Value, present: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match kind.kind.as_str() {
        "ConfigMap" | "Secret" => {
            for field in ["data", "binaryData"] {
                for key in object[field].as_object().into_iter().flatten().map(|(key, _)| key) {
                    if let Some(why) = bad_data_key(key) {
                        causes.push(Cause::invalid(format!("{field}[{key}]"), &json!(key), why));
                    }
                }
            }
            if let Some(present) = present.filter(|present| present["immutable"] == true) {
                for field in ["immutable", "data", "binaryData"] {
                    if object[field] != present[field] {
                        causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
                    }
                }
            }
        }
        "CustomResourceDefinition" => causes.extend(crate::crd::validate(object)),
        _ => {}
    }
    causes
}

fn bad_data_key(key: &str) -> Option<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    if key.is_empty() || !key.bytes().all(known) {
        return Some(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if key.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}
