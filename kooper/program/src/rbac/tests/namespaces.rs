//! The roles of controllers of the namespaces that match a selector.

use kooper_access::controller::Builder;
use kooper_access::extract::Gone;

use super::*;

fn labelled() -> Builder<Pod> {
    Controller::builder::<Pod>("echo").namespace_selector("team=a").handler(async || {})
}

#[test]
fn a_selector_for_namespaces_needs_their_watch_and_all_objects() {
    let rules =
        ["ClusterRole -", "  /events [] create patch", "  /namespaces pods [] list watch", "ClusterRoleBinding -"];
    assert_eq!(lines(&[labelled().build().expect("a controller")])[1..], rules);
}

#[test]
fn names_from_the_command_line_need_neither() {
    let mut controller = labelled().deleted(async |_: Gone| {}).build().expect("a controller");
    assert!(controller.set_namespaces(vec!["shop".to_owned()]));
    let rules = ["Role shop", "  /events [] create patch", "  /pods [] list watch", "RoleBinding shop"];
    assert_eq!(lines(&[controller])[1..], rules);
}
