use super::*;

fn slot(name: &str, inputs: &[&str], after: &[&str]) -> SlotSpec {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    SlotSpec {
        name: name.to_owned(),
        kind: "ConfigMap".to_owned(),
        inputs: owned(inputs),
        after: owned(after),
        ..SlotSpec::default()
    }
}

fn error(slots: Vec<SlotSpec>) -> String {
    Graph::new(slots).unwrap_err().to_string()
}

#[test]
fn the_depth_of_a_slot_is_its_longest_way_from_the_start() {
    let graph = Graph::new(vec![
        slot("front", &["config"], &["web"]),
        slot("web", &["config"], &[]),
        slot("config", &[], &[]),
        slot("alone", &[], &[]),
    ])
    .unwrap();
    let depths: Vec<_> = graph.nodes().iter().map(|node| (node.spec.name.as_str(), node.depth())).collect();
    assert_eq!(depths, [("front", 2), ("web", 1), ("config", 0), ("alone", 0)]);
    assert_eq!(graph.order(), [2, 1, 0, 3]);
    assert_eq!(graph.nodes()[2].dependents, [0, 1]);
    assert!(graph.nodes()[0].dependents.is_empty());
}

#[test]
fn a_mistake_names_the_slots_and_says_what_to_do() {
    assert_eq!(
        error(vec![slot("web", &[], &[]), slot("web", &[], &[])]),
        "two slots have the name `web`: list each function once"
    );
    assert_eq!(
        error(vec![slot("web", &["config"], &[])]),
        "the slot `web` depends on `config`, which is not declared: add it to the children"
    );
    assert_eq!(
        error(vec![slot("d", &["a"], &[]), slot("a", &["b"], &[]), slot("b", &[], &["c"]), slot("c", &["a"], &[])]),
        "the slots `a`, `b`, `c` wait for each other: remove one of these dependencies"
    );
    let kept = Flags { keep: true, recreate: Some(Recreate::Foreground), ..Flags::default() };
    assert_eq!(
        error(vec![SlotSpec { flags: kept, ..slot("web", &[], &[]) }]),
        "the slot `web` cannot be both `keep` and `recreate`: remove one of them"
    );
    let flags = Flags { once: true, recreate: Some(Recreate::Orphan), ..Flags::default() };
    assert_eq!(
        error(vec![SlotSpec { flags, ..slot("web", &[], &[]) }]),
        "the slot `web` cannot be both `once` and `recreate`: remove one of them"
    );
    let flags = Flags { external: true, adopt: true, ..Flags::default() };
    assert_eq!(
        error(vec![SlotSpec { flags, ..slot("tls", &[], &[]) }]),
        "the slot `tls` cannot be both `external` and `adopt`: remove one of them"
    );
}

#[test]
fn a_graph_is_drawn_as_text_and_as_a_diagram() {
    let external = Flags { external: true, ..Flags::default() };
    let graph = Graph::new(vec![
        SlotSpec { returns: Returns::Maybe, ..slot("front", &["tls"], &["web"]) },
        SlotSpec { flags: Flags { once: true, keep: true, ..Flags::default() }, ..slot("web", &[], &[]) },
        SlotSpec { flags: external, ..slot("tls", &[], &[]) },
    ])
    .unwrap();
    assert_eq!(
        graph.to_text(),
        "web      ConfigMap   once keep\ntls      ConfigMap   external\n  front  ConfigMap?  (tls) after web\n"
    );
    assert_eq!(
        graph.to_mermaid(),
        "flowchart TD\n  s1[\"<b>web</b><br/>ConfigMap<br/><i>once, keep</i>\"]\n  \
         s2([\"<b>tls</b><br/>ConfigMap<br/><i>external</i>\"])\n  s0[\"<b>front</b><br/>ConfigMap?\"]\n  \
         s2 --> s0\n  s1 -.-> s0\n"
    );
}
