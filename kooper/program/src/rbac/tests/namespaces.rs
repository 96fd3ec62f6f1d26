//! The roles of controllers of the namespaces that match a selector.

use super::*;

fn labelled() -> Controller {
    let builder = Controller::builder::<Pod>("echo").namespace_selector("team=a").handler(async || {});
    builder.build().expect("a controller")
}

#[test]
fn a_selector_for_namespaces_needs_their_watch_and_all_objects() {
    let rules =
        ["ClusterRole -", "  /events [] create patch", "  /namespaces pods [] list watch", "ClusterRoleBinding -"];
    assert_eq!(lines(&[labelled()])[1..], rules);
}

#[test]
fn names_from_the_command_line_need_neither() {
    let mut controller = labelled();
    assert!(controller.set_namespaces(vec!["shop".to_owned()]));
    let rules = ["Role shop", "  /events [] create patch", "  /pods [] list watch", "RoleBinding shop"];
    assert_eq!(lines(&[controller])[1..], rules);
}
