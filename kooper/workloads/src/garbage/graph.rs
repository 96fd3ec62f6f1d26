//! Owners and dependents, and the writes that follow from them.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PropagationPolicy;

/// The finalizers by which owners wait.
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The metadata of an object that ownership depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// The index of its resource.
    pub(super) resource: usize,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) deleting: bool,
}

/// One write.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    Delete {
        node: &'a Node,
        policy: PropagationPolicy,
        /// `true` if its owners wait for its deletion, `false` if none of them exists.
        awaited: bool,
    },
    /// Keeps no owner waiting any more: it is in a circle of owners that would wait for each other forever.
    Unblock { node: &'a Node },
    /// Removes the references to these owners.
    Disown { node: &'a Node, owners: Vec<&'a str> },
    /// Removes a finalizer of an owner, which waits for nothing any more.
    Release { node: &'a Node, finalizer: &'static str },
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

impl Node {
    fn waits_by(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|one| one == finalizer)
    }
}

/// Returns the next writes. `would_list` returns `true` if the owner of an object would be among
/// the nodes if it existed.
pub(super) fn steps<'a>(nodes: &'a [Node], would_list: impl Fn(&OwnerReference, &Node) -> bool) -> Vec<Step<'a>> {
    let by_uid: HashMap<&str, &Node> = nodes.iter().map(|node| (node.uid.as_str(), node)).collect();
    // The objects that have dependents, and `true` if one of these waits for its own.
    let mut owners: HashMap<&str, bool> = HashMap::new();
    for node in nodes {
        for owner in &node.owners {
            *owners.entry(&owner.uid).or_default() |= node.waits_by(FOREGROUND);
        }
    }
    let mut steps = Vec::new();
    for node in nodes {
        if node.waits_by(ORPHAN) || node.waits_by(FOREGROUND) {
            steps.extend(release(node, nodes));
        }
        // Objects that are being deleted are not deleted again.
        if !node.deleting && !node.owners.is_empty() {
            steps.extend(collect(node, &by_uid, &owners, &would_list));
        }
    }
    steps
}

fn blocks(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion == Some(true)
}

/// Releases an owner that is being deleted, if its dependents allow it.
fn release<'a>(owner: &'a Node, nodes: &'a [Node]) -> Vec<Step<'a>> {
    let uid = owner.uid.as_str();
    let dependents = || nodes.iter().filter(|node| node.owners.iter().any(|one| one.uid == uid));
    if owner.waits_by(ORPHAN) {
        let disowned: Vec<_> = dependents().map(|node| Step::Disown { node, owners: vec![uid] }).collect();
        return if disowned.is_empty() { vec![Step::Release { node: owner, finalizer: ORPHAN }] } else { disowned };
    }
    let holds = |node: &Node| node.owners.iter().any(|one| one.uid == uid && blocks(one));
    if dependents().any(holds) { Vec::new() } else { vec![Step::Release { node: owner, finalizer: FOREGROUND }] }
}

/// Deletes a dependent without an owner that stays, or removes its references to the owners that do not.
fn collect<'a>(
    node: &'a Node,
    by_uid: &HashMap<&str, &Node>,
    owners: &HashMap<&str, bool>,
    would_list: impl Fn(&OwnerReference, &Node) -> bool,
) -> Option<Step<'a>> {
    let (mut staying, mut waiting, mut leaving) = (false, false, Vec::new());
    for owner in &node.owners {
        // An owner is in the same namespace or in none.
        let found = by_uid.get(owner.uid.as_str()).filter(|found| {
            found.name == owner.name && (found.namespace.is_none() || found.namespace == node.namespace)
        });
        match found {
            // One that orphans its dependents removes the reference itself.
            Some(found) if found.waits_by(FOREGROUND) && !found.waits_by(ORPHAN) => {
                waiting = true;
                leaving.push(owner.uid.as_str());
            }
            Some(_) => staying = true,
            None if would_list(owner, node) => leaving.push(owner.uid.as_str()),
            // The owner may exist.
            None => staying = true,
        }
    }
    if staying {
        return (!leaving.is_empty()).then_some(Step::Disown { node, owners: leaving });
    }
    let has = |finalizer: &str| node.finalizers.iter().any(|one| one == finalizer);
    let dependents = owners.get(node.uid.as_str()).filter(|_| waiting);
    if dependents == Some(&true) && node.owners.iter().any(blocks) {
        return Some(Step::Unblock { node });
    }
    let policy = if dependents.is_some() {
        PropagationPolicy::Foreground
    } else if has(ORPHAN) {
        PropagationPolicy::Orphan
    } else if has(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Some(Step::Delete { node, policy, awaited: waiting })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, owners: &[&str]) -> Node {
        let owner = |name: &&str| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: (*name).to_owned(),
            uid: format!("uid-{name}"),
            block_owner_deletion: Some(true),
            controller: None,
        };
        Node {
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            owners: owners.iter().map(owner).collect(),
            ..Node::default()
        }
    }

    fn waiting(name: &str, owners: &[&str], finalizer: &str) -> Node {
        Node { deleting: true, finalizers: vec![finalizer.to_owned()], ..node(name, owners) }
    }

    fn described(nodes: &[Node]) -> Vec<String> {
        let describe = |step: Step<'_>| match step {
            Step::Delete { node, policy, .. } => format!("delete {} {policy:?}", node.name),
            Step::Unblock { node } => format!("unblock {}", node.name),
            Step::Disown { node, owners } => format!("disown {} {}", node.name, owners.join(",")),
            Step::Release { node, finalizer } => format!("release {} {finalizer}", node.name),
        };
        steps(nodes, |owner, _| owner.name != "unserved").into_iter().map(describe).collect()
    }

    #[test]
    fn a_dependent_without_owners_is_deleted() {
        assert_eq!(described(&[node("child", &["gone"])]), ["delete child Background"]);
        assert_eq!(described(&[node("owner", &[]), node("child", &["owner"])]), [""; 0]);
        // An owner in another namespace is not an owner.
        let elsewhere = Node { namespace: Some("other".to_owned()), ..node("owner", &[]) };
        assert_eq!(described(&[elsewhere, node("child", &["owner"])]), ["delete child Background"]);
        let above = Node { namespace: None, ..node("owner", &[]) };
        assert_eq!(described(&[above, node("child", &["owner"])]), [""; 0]);
    }

    #[test]
    fn one_owner_that_stays_is_enough() {
        assert_eq!(described(&[node("owner", &[]), node("child", &["owner", "gone"])]), ["disown child uid-gone"]);
        assert_eq!(described(&[node("child", &["unserved"])]), [""; 0]);
    }

    #[test]
    fn an_owner_waits_for_its_dependents_in_the_foreground() {
        let nodes = [waiting("owner", &[], FOREGROUND), node("child", &["owner"]), node("grandchild", &["child"])];
        assert_eq!(described(&nodes), ["delete child Foreground"]);
        let nodes = [waiting("owner", &[], FOREGROUND), waiting("child", &["owner"], "example.com/held")];
        assert_eq!(described(&nodes), [""; 0]);
        assert_eq!(described(&[waiting("owner", &[], FOREGROUND)]), ["release owner foregroundDeletion"]);
        let mut free = waiting("child", &["owner"], "example.com/held");
        free.owners[0].block_owner_deletion = None;
        assert_eq!(described(&[waiting("owner", &[], FOREGROUND), free]), ["release owner foregroundDeletion"]);
    }

    #[test]
    fn owners_in_a_circle_do_not_wait_for_each_other() {
        let nodes = [waiting("one", &["other"], FOREGROUND), node("other", &["one"])];
        assert_eq!(described(&nodes), ["unblock other"]);
        let [one, mut other] = nodes;
        other.owners[0].block_owner_deletion = Some(false);
        assert_eq!(described(&[one, other]), ["release one foregroundDeletion", "delete other Foreground"]);
    }

    #[test]
    fn an_owner_leaves_orphans_behind() {
        let nodes = [waiting("owner", &[], ORPHAN), node("child", &["owner"])];
        assert_eq!(described(&nodes), ["disown child uid-owner"]);
        assert_eq!(described(&[waiting("owner", &[], ORPHAN)]), ["release owner orphan"]);
    }
}
