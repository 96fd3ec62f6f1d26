//! Secrets.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::cel;
use crate::http::syntax;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, data};

pub(super) struct Secret;

impl Strategy for Secret {
    fn encoded_data(&self) -> Option<&'static str> {
        Some("data")
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
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
            of @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
                let key = of.replace("kubernetes.io/", ".");
                require(&[&*key]);
                check_json(&entries, &key);
            }
            "kubernetes.io/basic-auth" if !has("username") && !has("password") => require(&["username", "password"]),
            // Unlike other keys, an empty one is missing.
            "kubernetes.io/ssh-auth" if entries.value["ssh-privatekey"].as_str().unwrap_or_default().is_empty() => {
                entries.named("data[ssh-privatekey]".to_owned()).require("");
            }
            "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
            _ => {}
        }
        data::frozen(object, present, &["data"]);
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/type")), json!(row.count("/data")), row.age()])
    }
}

/// Reports an entry that is not a JSON object. It is secret, so no message shows it.
fn check_json(data: &FieldValue<'_>, key: &str) {
    let Some(encoded) = data.value.get(key).and_then(Value::as_str) else { return };
    let text = cel::bytes(encoded).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&text) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => syntax::not_a(&other, syntax::MAP),
        // Go accepts deeper objects, and strings that are not UTF-8.
        Err(_) => match syntax::error(&text) {
            Some(why) => why,
            None => return,
        },
    };
    data.named(format!("data[{key}]")).invalid_as(&json!("<secret contents redacted>"), why);
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::cause::Cause;
    use crate::validate::field_value::Causes;

    fn mistakes(of: &str, key: &str, text: &str) -> Vec<String> {
        let secret =
            json!({"metadata": {}, "type": format!("kubernetes.io/{of}"), "data": {key: STANDARD.encode(text)}});
        let causes = Causes::default();
        Secret.validate(&FieldValue::root(&secret, &causes), Write::Create);
        causes.into_inner().iter().map(Cause::text).collect()
    }

    #[test]
    fn the_file_of_a_registry_is_a_json_object() {
        let file = |text: &str| mistakes("dockerconfigjson", ".dockerconfigjson", text);
        assert_eq!(file(r#"{"auths": {}}"#), [""; 0]);
        assert_eq!(file(r#"{"auths": "\ud800"}"#), [""; 0]);
        let invalid = "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": ";
        let why = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(file("[]"), [format!("{invalid}{why}")]);
        assert_eq!(file(""), [format!("{invalid}unexpected end of JSON input")]);
        assert!(file("auths")[0].starts_with(invalid));
        assert_eq!(mistakes("dockercfg", ".dockercfg", "{").len(), 1);
        assert_eq!(mistakes("dockercfg", "other", "{}"), ["data[.dockercfg]: Required value"]);
    }

    #[test]
    fn an_empty_key_of_ssh_is_missing() {
        assert_eq!(mistakes("ssh-auth", "ssh-privatekey", ""), ["data[ssh-privatekey]: Required value"]);
        assert_eq!(mistakes("ssh-auth", "ssh-privatekey", "key"), [""; 0]);
        assert_eq!(mistakes("ssh-auth", "other", "key"), ["data[ssh-privatekey]: Required value"]);
    }
}
