//! Strategic merge patches of an object that only the dry run knows, which the API server cannot apply.
//!
//! Source: "Strategic merge patch" of the API conventions
//! (<https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>).

use serde_json::{Map, Value};

/// The lists of built-in kinds that are merged by a key of their entries, and the key: `x-kubernetes-patch-merge-key` in
/// the OpenAPI documents of Kubernetes 1.36. Ports have one in a container and one in a Service.
const KEYS: [(&str, &str); 27] = [
    ("addresses", "type"),
    ("allocatedResourcesStatus", "name"),
    ("conditions", "type"),
    ("containers", "name"),
    ("drivers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("hostIPs", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("matchConditions", "name"),
    ("ownerReferences", "uid"),
    ("podIPs", "ip"),
    ("ports", "containerPort"),
    ("ports", "port"),
    ("reservedFor", "uid"),
    ("resourceClaimStatuses", "name"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("secrets", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("variables", "name"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("webhooks", "name"),
];

/// The lists of values that get those of a patch in addition. All other lists are replaced.
const SETS: [&str; 2] = ["finalizers", "podCIDRs"];

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// Applies a strategic merge patch. The order of entries that it asks for is ignored.
pub(super) fn strategic_merge(onto: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return onto.clone_from(patch) };
    let directive = patch.get(DIRECTIVE).and_then(Value::as_str);
    if !onto.is_object() || directive.is_some_and(|directive| ["replace", "delete"].contains(&directive)) {
        *onto = Value::Object(Map::new());
    }
    let Value::Object(onto) = onto else { return };
    if directive == Some("delete") {
        return;
    }
    if let Some(retained) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        onto.retain(|field, _| retained.iter().any(|name| name == field));
    }
    for (field, patch) in patch {
        if let Some((DELETE_FROM, list)) = field.split_once('/') {
            let (values, gone) = (onto.get_mut(list).and_then(Value::as_array_mut), patch.as_array());
            values.zip(gone).into_iter().for_each(|(values, gone)| values.retain(|value| !gone.contains(value)));
        } else if patch.is_null() {
            onto.remove(field);
        } else if !field.starts_with('$') {
            let onto = onto.entry(field.clone()).or_insert(Value::Null);
            match patch {
                Value::Array(entries) => merge_list(field, onto, entries),
                patch => strategic_merge(onto, patch),
            }
        }
    }
}

fn merge_list(field: &str, onto: &mut Value, entries: &[Value]) {
    let replaces = entries.iter().any(|entry| entry[DIRECTIVE] == "replace");
    let has = |key: &&str| entries.iter().all(|entry| !entry[*key].is_null());
    let key = KEYS.iter().filter(|(list, _)| *list == field).map(|(_, key)| *key).find(has);
    let is_merged = !replaces && (key.is_some() || SETS.contains(&field));
    if !is_merged || !onto.is_array() {
        *onto = Value::Array(Vec::new());
    }
    let Value::Array(onto) = onto else { return };
    for entry in entries.iter().filter(|entry| entry[DIRECTIVE] != "replace") {
        let same = |one: &Value| key.map_or(one == entry, |key| one[key] == entry[key]);
        match onto.iter().position(same).filter(|_| is_merged) {
            Some(at) if entry[DIRECTIVE] == "delete" => drop(onto.remove(at)),
            Some(at) => strategic_merge(&mut onto[at], entry),
            None if entry[DIRECTIVE] == "delete" => {}
            None => {
                let mut new = Value::Null;
                strategic_merge(&mut new, entry);
                onto.push(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut onto: Value, patch: &Value) -> Value {
        strategic_merge(&mut onto, patch);
        onto
    }

    #[test]
    fn entries_are_merged_by_their_key_and_other_lists_are_replaced() {
        let pod = json!({
            "metadata": {"finalizers": ["a"]},
            "containers": [{"name": "a", "args": ["1", "2"], "image": "x"}, {"name": "b"}],
            "tolerations": [{"key": "a"}],
        });
        let patch = json!({
            "metadata": {"finalizers": ["a", "b"]},
            "containers": [{"name": "a", "args": ["3"], "image": null}, {"name": "c", "tty": null}],
            "tolerations": [{"key": "b"}],
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}, {"name": "b"}],
        });
        let expected = json!({
            "metadata": {"finalizers": ["a", "b"]},
            "containers": [{"name": "a", "args": ["3"]}, {"name": "b"}, {"name": "c"}],
            "tolerations": [{"key": "b"}],
        });
        assert_eq!(merged(pod, &patch), expected);
        let service = json!({"ports": [{"port": 1, "name": "a"}]});
        let both = json!({"ports": [{"port": 1, "name": "a"}, {"port": 2}]});
        assert_eq!(merged(service, &json!({"ports": [{"port": 2}]})), both);
        assert_eq!(
            merged(Value::Null, &json!({"containers": [{"name": "a"}]})),
            json!({"containers": [{"name": "a"}]})
        );
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let pod = || json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}], "metadata": {"finalizers": ["a", "b"]}});
        let volumes = |patch: &Value| merged(pod(), patch)["volumes"].take();
        assert_eq!(volumes(&json!({"volumes": [{"name": "a", "$patch": "delete"}]})), json!([{"name": "b"}]));
        assert_eq!(volumes(&json!({"volumes": [{"$patch": "replace"}, {"name": "c"}]})), json!([{"name": "c"}]));
        let other = json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]});
        assert_eq!(volumes(&other), json!([{"name": "a", "hostPath": {"path": "/"}}, {"name": "b"}]));
        let freed = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(merged(pod(), &freed)["metadata"], json!({"finalizers": ["b"]}));
        let alone = json!({"metadata": {"$patch": "replace", "labels": {"a": "b"}}});
        assert_eq!(merged(pod(), &alone)["metadata"], json!({"labels": {"a": "b"}}));
        assert_eq!(merged(pod(), &json!({"metadata": {"$patch": "delete"}}))["metadata"], json!({}));
    }
}
