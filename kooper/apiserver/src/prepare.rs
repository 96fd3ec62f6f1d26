//! What a kind does to its objects before they are stored: defaults, status, validation.

mod pod;
mod service;
mod workload;

use serde_json::{Value, json};

pub(crate) use self::workload::drop_template_generation;
use crate::kinds::Kind;
use crate::status::{Cause, Refusal};
use crate::{base64, defaults, meta, time};

/// Readies a new object.
pub(crate) fn create(kind: &Kind, object: &mut Value) -> Result<(), Refusal> {
    if let Some(definition) = &kind.custom {
        if definition.has_status {
            drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
        }
        return Ok(());
    }
    if kind.strategy.status {
        drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            name_label(object);
        }
        "Pod" => pod::create(object),
        "Service" => service::allocate(kind, object, None)?,
        "Job" => workload::create_job(object),
        "DaemonSet" => workload::daemon_set(object, None),
        "Secret" => encode_strings(object),
        "PersistentVolume" => object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": time::now()}),
        "CustomResourceDefinition" => crate::crd::prepare(object, None),
        _ => {}
    }
    // What is stored is filled in when it is read.
    defaults::fill(kind, object);
    Ok(())
}

/// Readies the next state of an object.
pub(crate) fn update(kind: &Kind, object: &mut Value, present: &Value, status: bool) -> Result<(), Refusal> {
    if kind.custom.is_some() {
        return Ok(());
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"] = present["spec"].clone();
            name_label(object);
        }
        "Pod" if status => pod::update_status(object, present),
        "Deployment" if status => match present["metadata"].get("labels") {
            Some(labels) => drop(meta::of(object).insert("labels".into(), labels.clone())),
            None => drop(meta::of(object).remove("labels")),
        },
        "Service" if !status => service::allocate(kind, object, Some(present))?,
        "DaemonSet" => workload::daemon_set(object, Some(present)),
        "Secret" => encode_strings(object),
        "CustomResourceDefinition" if !status => crate::crd::prepare(object, Some(present)),
        _ => {}
    }
    Ok(())
}

/// A namespace has its name as a label.
fn name_label(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    let labels = meta::of(namespace).entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = json!(name);
}

/// The strings of a secret become data.
fn encode_strings(secret: &mut Value) {
    let Some(entries) = secret.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = entries.remove("stringData") {
        for (key, text) in texts {
            let encoded = base64::encode(text.as_str().unwrap_or_default().as_bytes());
            secret["data"][key] = json!(encoded);
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
