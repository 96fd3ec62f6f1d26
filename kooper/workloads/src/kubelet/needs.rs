//! The objects that a pod cannot start without.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use serde_json::Value;

use kooper_access::Getter;
use kooper_runtime::{ObjectKey, Result};

const CONFIG: &str = "configmap";
const SECRET: &str = "secret";
const CLAIM: &str = "persistentvolumeclaim";

/// An object that a pod names, and a key in it that must exist.
struct ReferencedObject {
    kind: &'static str,
    name: String,
    key: Option<String>,
}

/// Reading the objects that pods need.
pub(super) struct Stock {
    pub(super) configs: Getter<ConfigMap>,
    pub(super) secrets: Getter<Secret>,
    pub(super) claims: Getter<PersistentVolumeClaim>,
}

impl Stock {
    /// Why a pod cannot start, in the words of a kubelet; `None` if it can.
    pub(super) async fn why_not(&self, pod: &Pod) -> Result<Option<String>> {
        let namespace = pod.metadata.namespace.as_deref();
        for ReferencedObject { kind, name, key } in needs(&serde_json::to_value(&pod.spec)?) {
            let object = ObjectKey::new(namespace, &name);
            let key = key.as_deref();
            let found = match kind {
                CONFIG => self
                    .configs
                    .fetch(&object)
                    .await?
                    .map(|config| has(config.data.as_ref(), key) || has(config.binary_data.as_ref(), key)),
                SECRET => self.secrets.fetch(&object).await?.map(|secret| has(secret.data.as_ref(), key)),
                _ => self.claims.fetch(&object).await?.map(|_| true),
            };
            match found {
                Some(true) => {}
                Some(false) => {
                    return Ok(Some(format!("couldn't find key {} in {kind} {object}", key.unwrap_or_default())));
                }
                None => return Ok(Some(format!("{kind} {name:?} not found"))),
            }
        }
        Ok(None)
    }
}

fn has<T>(data: Option<&BTreeMap<String, T>>, key: Option<&str>) -> bool {
    key.is_none_or(|key| data.is_some_and(|data| data.contains_key(key)))
}

/// The needs of the spec of a pod.
fn needs(spec: &Value) -> Vec<ReferencedObject> {
    let mut needs = Vec::new();
    for volume in items(&spec["volumes"]) {
        needs.extend(need(CLAIM, &volume["persistentVolumeClaim"]));
        for source in [volume].into_iter().chain(items(&volume["projected"]["sources"])) {
            needs.extend(mounted(CONFIG, &source["configMap"]));
            needs.extend(mounted(SECRET, &source["secret"]));
        }
    }
    for container in items(&spec["initContainers"]).chain(items(&spec["containers"])) {
        for source in items(&container["envFrom"]) {
            needs.extend(need(CONFIG, &source["configMapRef"]));
            needs.extend(need(SECRET, &source["secretRef"]));
        }
        for variable in items(&container["env"]) {
            needs.extend(need(CONFIG, &variable["valueFrom"]["configMapKeyRef"]));
            needs.extend(need(SECRET, &variable["valueFrom"]["secretKeyRef"]));
        }
    }
    needs
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The content that a volume mounts: the whole object, or some keys of it.
fn mounted(kind: &'static str, source: &Value) -> impl Iterator<Item = ReferencedObject> {
    let key_of = move |item: &Value| {
        Some(ReferencedObject { key: item["key"].as_str().map(ToOwned::to_owned), ..need(kind, source)? })
    };
    let keys: Vec<_> = items(&source["items"]).filter_map(key_of).collect();
    let whole = need(kind, source).filter(|_| keys.is_empty());
    whole.into_iter().chain(keys)
}

fn need(kind: &'static str, source: &Value) -> Option<ReferencedObject> {
    let text = |field: &str| source[field].as_str().map(ToOwned::to_owned);
    let name = text("name").or_else(|| text("secretName")).or_else(|| text("claimName"))?;
    // Every cluster has that of the authority in each namespace, but a server alone may not.
    let is_needed = source["optional"] != true && name != "kube-root-ca.crt";
    is_needed.then(|| ReferencedObject { kind, name, key: text("key") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_what_it_names_unless_it_is_optional() {
        let spec = json!({
            "volumes": [
                {"name": "a", "secret": {"secretName": "one"}},
                {"name": "b", "configMap": {"name": "two", "optional": true}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "three"}},
                {"name": "d", "emptyDir": {}},
                {"name": "e", "projected": {"sources": [
                    {"configMap": {"name": "kube-root-ca.crt"}}, {"secret": {"name": "four"}}
                ]}},
                {"name": "f", "secret": {"secretName": "seven", "items": [
                    {"key": "a", "path": "a"}, {"key": "b", "path": "c"}
                ]}},
                {"name": "g", "secret": {"secretName": "eight", "optional": true, "items": [{"key": "a", "path": "a"}]}}
            ],
            "initContainers": [{"name": "init", "envFrom": [{"configMapRef": {"name": "five"}}]}],
            "containers": [{"name": "main", "env": [
                {"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "six", "key": "b"}}}
            ]}]
        });
        let found = needs(&spec);
        let found: Vec<_> = found.iter().map(|need| (need.kind, need.name.as_str(), need.key.as_deref())).collect();
        assert_eq!(
            found,
            [
                (SECRET, "one", None),
                (CLAIM, "three", None),
                (SECRET, "four", None),
                (SECRET, "seven", Some("a")),
                (SECRET, "seven", Some("b")),
                (CONFIG, "five", None),
                (SECRET, "six", Some("b")),
            ]
        );
    }
}
