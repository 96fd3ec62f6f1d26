//! The least role of a program: enough, and not a verb too much.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::Subject;
use serde_json::json;

fn permissions(namespace: &'static str) -> Subject<'static> {
    Subject {
        program: env!("CARGO_BIN_EXE_permissions"),
        namespace,
        args: &[],
        objects: vec![json!({
            "apiVersion": "permissions.example.com/v1", "kind": "Gadget",
            "metadata": {"namespace": namespace, "name": "lamp"}, "spec": {}
        })],
        done: &["everything is done"],
    }
}

#[test]
fn the_printed_role_is_enough_with_streaming_lists() {
    let Some(cluster) = ControlPlane::shared() else { return };
    permissions("least-role").install(cluster).is_enough();
}

#[test]
fn without_streaming_lists_it_is_enough_and_each_verb_of_it_is_needed() {
    let Some(cluster) = ControlPlane::start_with(&["--without-streaming-lists"]) else { return };
    let subject = permissions("least-role");
    let installed = subject.install(&cluster);
    installed.is_enough();
    let rules = installed.rules();
    assert_eq!(rules.len(), 15, "{rules:#?}");
    for rule in &rules {
        installed.needs(rule);
    }
}
