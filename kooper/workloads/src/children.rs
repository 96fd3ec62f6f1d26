//! The objects that an owner controls: found by their owner reference, and adopted
//! or released by its selector.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kooper_grammar::selector::Selector;
use serde_json::json;

use super::versions::Field as _;
use kooper_access::capability::{PatchBody, by, owned_by};
use kooper_access::{AccessError, Patcher, Reader};
use kooper_runtime::{Kind, ObjectKey, Result};

/// A kind whose objects select their children.
pub(super) trait Selects: Kind {
    fn selector(&self) -> Option<&LabelSelector>;
}

macro_rules! selects {
    ($($kind:ty),*) => {
        $(impl Selects for $kind {
            fn selector(&self) -> Option<&LabelSelector> {
                self.spec.field().map(|spec| &spec.selector)
            }
        })*
    };
}

selects!(DaemonSet, Deployment, ReplicaSet, StatefulSet);

impl Selects for Job {
    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.as_ref().and_then(|spec| spec.selector.as_ref())
    }
}

pub(super) fn expression(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().flatten().map(|one| {
        let (key, values) = (&one.key, one.values.iter().flatten().cloned().collect::<Vec<_>>().join(","));
        match one.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    equal.chain(others).collect::<Vec<_>>().join(",")
}

/// Returns `true` if a selector of a workload or a Service matches labels. An empty one matches
/// nothing.
pub(super) fn matches(expression: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    let label = |key: &str| labels?.get(key).map(String::as_str);
    !expression.is_empty() && Selector::parse(expression).is_ok_and(|selector| selector.matches(label))
}

pub(super) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

fn is_controlled_by(metadata: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller_of(metadata).is_some_and(|one| Some(&one.uid) == owner.uid.as_ref())
}

/// The objects that the owner controls, whatever their labels are.
pub(super) fn controlled<O: Kind, T: Kind>(owner: &Arc<O>, children: &Reader<T>) -> Result<Vec<Arc<T>>> {
    let mut found = children.select(by::owner(owner)).collect::<Result<Vec<_>, _>>()?;
    found.retain(|child| is_controlled_by(child.meta(), owner.meta()));
    Ok(found)
}

/// The objects that the owner controls, after it has released those that its selector
/// no longer matches and adopted those that no owner controls.
pub(super) async fn claim<O: Selects, T: Kind>(
    owner: &Arc<O>,
    children: &Reader<T>,
    patcher: &Patcher<T>,
) -> Result<Vec<Arc<T>>> {
    claim_if(owner, children, patcher, |_, _| true).await
}

/// Like [`claim`], but only of those that also pass this test.
pub(super) async fn claim_if<O: Selects, T: Kind>(
    owner: &Arc<O>,
    children: &Reader<T>,
    patcher: &Patcher<T>,
    is_own: fn(&O, &T) -> bool,
) -> Result<Vec<Arc<T>>> {
    let expression = owner.selector().map(expression).unwrap_or_default();
    let mut kept = Vec::new();
    for child in controlled(owner, children)? {
        let meta = child.meta();
        if meta.deletion_timestamp.is_some() || (matches(&expression, meta.labels.as_ref()) && is_own(owner, &child)) {
            kept.push(child);
            continue;
        }
        let others = meta.owner_references.iter().flatten().filter(|one| Some(&one.uid) != owner.meta().uid.as_ref());
        let patch = json!({"metadata": {"ownerReferences": others.collect::<Vec<_>>()}});
        unless_gone(patcher.patch_object(&child, PatchBody::merge(patch)).await)?;
    }
    if owner.meta().deletion_timestamp.is_some() || expression.is_empty() {
        return Ok(kept);
    }
    let selected = by::labels(&expression)?.namespace(owner.meta().namespace.as_deref().unwrap_or_default());
    for child in children.select(selected) {
        let child = child?;
        let meta = child.meta();
        if controller_of(meta).is_some() || meta.deletion_timestamp.is_some() || !is_own(owner, &child) {
            continue;
        }
        let mut adopted = meta.owner_references.clone().unwrap_or_default();
        adopted.extend(reference(owner)?);
        let patch = json!({"metadata": {"ownerReferences": adopted}});
        if let Some(child) = unless_gone(patcher.patch_object(&child, PatchBody::merge(patch)).await)? {
            kept.push(Arc::new(child));
        }
    }
    Ok(kept)
}

/// The owner reference of children.
fn reference<O: Kind>(owner: &Arc<O>) -> Result<Vec<OwnerReference>> {
    let child: k8s_openapi::api::core::v1::Pod = owned_by(owner, Default::default())?;
    Ok(child.metadata.owner_references.unwrap_or_default())
}

/// The owners that would adopt an object: a function for `watches`.
pub(super) fn adopters<O: Selects, T: Kind>(child: &T, owners: &Reader<O>) -> Vec<ObjectKey> {
    let meta = child.meta();
    if controller_of(meta).is_some() || meta.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let all = owners.select(by::namespace(meta.namespace.as_deref().unwrap_or_default())).flatten();
    let selecting =
        all.filter(|owner| matches(&owner.selector().map(expression).unwrap_or_default(), meta.labels.as_ref()));
    selecting.map(|owner| key_of(owner.meta())).collect()
}

pub(super) fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

/// Removes a finalizer from an object that has it.
pub(super) async fn remove_finalizer<T: Kind>(object: &Arc<T>, finalizer: &str, patcher: &Patcher<T>) -> Result<()> {
    let finalizers = object.meta().finalizers.iter().flatten();
    let rest: Vec<_> = finalizers.clone().filter(|one| *one != finalizer).collect();
    if rest.len() < finalizers.count() {
        let patch = PatchBody::merge(json!({"metadata": {"finalizers": rest}}));
        unless_gone(patcher.patch_object(object, patch).await)?;
    }
    Ok(())
}

/// The result of a write, or `None` if the object does not exist any more.
pub(super) fn unless_gone<T>(written: Result<T, AccessError>) -> Result<Option<T>, AccessError> {
    match written {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    #[test]
    fn a_label_selector_is_written_as_a_string() {
        let requirement = |operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(ToString::to_string).collect()),
        };
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: Some(vec![
                requirement("In", &["a", "b"]),
                requirement("NotIn", &["c"]),
                requirement("Exists", &[]),
                requirement("DoesNotExist", &[]),
            ]),
        };
        assert_eq!(expression(&selector), "app=web,tier in (a,b),tier notin (c),tier,!tier");
    }

    #[test]
    fn an_empty_selector_matches_nothing() {
        let labels = [("app".to_owned(), "web".to_owned())].into();
        assert!(matches("app=web", Some(&labels)));
        assert!(!matches("app=shop", Some(&labels)));
        assert!(!matches("app=web", None));
        assert!(!matches("", Some(&labels)));
    }
}
