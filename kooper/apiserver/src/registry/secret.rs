//! Secrets.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::validate::at::At;
use crate::validate::{Write, data};

pub(super) struct Secret;

impl Strategy for Secret {
    fn encoded_data(&self) -> Option<&'static str> {
        Some("data")
    }

    fn validate(&self, object: &At<'_>, write: Write<'_>) {
        let present = write.present();
        let entries = object.field("data");
        if let Some(present) = present {
            object.field("type").immutable(&present["type"]);
        }
        data::keys(&entries);
        if data::decoded_bytes(&entries) > data::MOST_BYTES {
            entries.add(data::too_long("data"));
        }
        let has = |key: &str| entries.value.get(key).is_some();
        let require = |keys: &[&str]| {
            for key in keys.iter().filter(|key| !has(key)) {
                entries.named(format!("data[{key}]")).require("");
            }
        };
        match object.field("type").text() {
            "kubernetes.io/service-account-token" => {
                let name = "kubernetes.io/service-account.name";
                if object.value["metadata"]["annotations"][name].as_str().unwrap_or_default().is_empty() {
                    entries.named(format!("metadata.annotations[{name}]")).require("");
                }
            }
            "kubernetes.io/dockercfg" => require(&[".dockercfg"]),
            "kubernetes.io/dockerconfigjson" => require(&[".dockerconfigjson"]),
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => require(&["username", "password"]),
            "kubernetes.io/ssh-auth" => require(&["ssh-privatekey"]),
            "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
            _ => {}
        }
        data::frozen(object, present, &["data"]);
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/type")), json!(row.count("/data")), row.age()])
    }
}
