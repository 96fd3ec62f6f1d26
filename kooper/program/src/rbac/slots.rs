//! The slots of declared children, as what needs a permission.

use kooper_children::graph::Graph;

/// The argument that needs a permission, with the slots of its kind: a user of declared children has not written it.
pub(super) fn needed_by(graph: &Graph, because: &str) -> String {
    let kind = because.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
    let slots = graph.nodes().iter().filter(|node| Some(node.spec.kind.as_str()) == kind);
    let slots: Vec<_> = slots.map(|node| format!("`{}`", node.spec.name)).collect();
    let is_previous = || graph.previous().iter().any(|previous| Some(previous.kind.as_str()) == kind);
    match &slots[..] {
        [] if is_previous() => format!("{because} of `previous_children`"),
        [] => because.to_owned(),
        [slot] => format!("{because} of the slot {slot}"),
        slots => format!("{because} of the slots {}", slots.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use kooper_children::graph::{PreviousKind, SlotSpec};

    use super::*;

    #[test]
    fn the_slots_of_a_kind_are_named() {
        let slot =
            |name: &str, kind: &str| SlotSpec { name: name.to_owned(), kind: kind.to_owned(), ..SlotSpec::default() };
        let slots = vec![slot("config", "Secret"), slot("password", "Secret"), slot("web", "Deployment")];
        let previous = |kind: &str| PreviousKind { kind: kind.to_owned(), resource: kind.into() };
        let graph = Graph::new(slots).expect("valid").with_previous(vec![previous("Secret"), previous("Ingress")]);
        for (because, expected) in [
            ("OwnedApplier<Deployment>", "OwnedApplier<Deployment> of the slot `web`"),
            ("Reader<Secret>", "Reader<Secret> of the slots `config`, `password`"),
            ("Deleter<Ingress>", "Deleter<Ingress> of `previous_children`"),
            ("Reader<Pod>", "Reader<Pod>"),
            ("resource = Secret", "resource = Secret"),
        ] {
            assert_eq!(needed_by(&graph, because), expected);
        }
        assert_eq!(needed_by(&Graph::default(), "Reader<Secret>"), "Reader<Secret>");
    }
}
