//! The probe: would the API server accept a child if it did not exist?
//!
//! A refused update does not say whether the new fields are invalid, or whether only their change is forbidden. In the
//! latter case a new object with the same fields is accepted. Unless the server says that a field is immutable, this is
//! certain only if nothing differs but the object being new: neither ports and addresses that are allocated, nor entries of
//! other field managers.

use kooper_runtime::{Kind, ObjectKey};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::children::hash;
use super::conflicting_fields::field_errors;
use super::error::AccessError;
use super::grant::MayApplyOwned;
use super::owner::{mark, own};
use super::request::{Operation, body};
use super::{Access, Request};

impl<T: Kind + Serialize + Clone, V> Access<T, V> {
    /// Creates a child in a dry run, under another name of the same length, which may limit that of other objects. Returns
    /// `true` if it is certain that only the change of the existing object was `refused`.
    #[doc(hidden)]
    pub fn probe<'a, O>(&'a self, owner: &O, child: &T, is_marked: bool, refused: &'a AccessError) -> Request<'a, bool>
    where
        O: Resource<DynamicType = (), Scope: 'static>,
        V: MayApplyOwned<T>,
    {
        let objects = self.objects();
        let child = if is_marked { mark(owner, child.clone()) } else { own(owner, child.clone()) };
        let prepared = child.map_err(AccessError::from).and_then(|child| body(&child));
        Box::pin(async move {
            let mut body = prepared?;
            let key = objects.key_of(&mut body);
            let (name, is_immutable) = (another_name(key.name()), refused.is_immutable());
            if objects.kind.resource() == "services" {
                if !is_immutable && field_errors(refused).iter().any(|[_, _, field]| is_allocated(field)) {
                    return Ok(false);
                }
                remove_allocated(&mut body["spec"]);
            }
            let mut new = body.clone();
            new["metadata"]["name"] = name.as_str().into();
            objects.send(&ObjectKey::new(key.namespace(), &name), Operation::TryCreate(new)).await?;
            Ok(is_immutable || !objects.has_foreign_entries(&key, &body).await?)
        })
    }
}

/// The fields of a Service with what only one of them can have at a time.
const ALLOCATED: [&str; 4] = ["clusterIP", "clusterIPs", "healthCheckNodePort", "nodePort"];

/// Returns `true` if an error is about what is allocated to a Service, such as `spec.ports[0].nodePort`.
fn is_allocated(field: &str) -> bool {
    field.split('.').any(|part| ALLOCATED.contains(&part.split('[').next().unwrap_or(part)))
}

/// A name of the same length that hardly any object has.
fn another_name(name: &str) -> String {
    let digits = format!("{:016x}", hash(("probe", name)));
    // It begins with a letter, as the name of a Service does.
    "p".chars().chain(digits.chars().cycle()).take(name.len()).collect()
}

/// Removes what only one Service can have at a time. A Service without an address is not the same as one with another.
fn remove_allocated(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    if fields.get("clusterIP").is_some_and(|address| address != "None") {
        fields.remove("clusterIP");
        fields.remove("clusterIPs");
    }
    fields.remove("healthCheckNodePort");
    for port in fields.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().map(|port| port.remove("nodePort"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_other_name_has_the_same_length_and_is_valid() {
        for name in ["a", "web", &"s".repeat(253)] {
            let other = another_name(name);
            assert_eq!(other.len(), name.len());
            assert!(other.starts_with('p') && other.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert_eq!(other, another_name(name));
        }
    }

    #[test]
    fn an_error_about_what_is_allocated_is_recognized() {
        for field in ["spec.clusterIP", "spec.clusterIPs[0]", "spec.ports[1].nodePort", "spec.healthCheckNodePort"] {
            assert!(is_allocated(field), "{field}");
        }
        for field in ["spec.ports[0].port", "spec.selector.nodePortal", "metadata.name", ""] {
            assert!(!is_allocated(field), "{field}");
        }
    }

    #[test]
    fn what_is_allocated_to_a_service_is_left_out() {
        let mut spec = json!({
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30001,
            "ports": [{"port": 80, "nodePort": 30002}],
        });
        remove_allocated(&mut spec);
        assert_eq!(spec, json!({"ports": [{"port": 80}]}));
        let mut headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        remove_allocated(&mut headless);
        assert_eq!(headless, json!({"clusterIP": "None", "clusterIPs": ["None"]}));
    }
}
