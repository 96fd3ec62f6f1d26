//! The roles of tasks.

use std::time::Duration;

use kooper_access::Deleter;
use kooper_access::controller::{Builder, Task};

use super::*;

async fn sweep(_: Reader<ConfigMap>, _: Deleter<Pod>, _: Reader<Node>) {}

fn task() -> Builder<Task> {
    Task::builder("sweep", Duration::from_secs(600)).handler(sweep)
}

const CLUSTER: [&str; 4] = ["ServiceAccount shops", "ClusterRole -", "  /nodes [] list watch", "ClusterRoleBinding -"];

fn role(namespace: &str) -> Vec<String> {
    let rules = ["  /configmaps [] list watch".to_owned(), "  /pods [] delete".to_owned()];
    let role = std::iter::once(format!("Role {namespace}")).chain(rules);
    role.chain([format!("RoleBinding {namespace}")]).collect()
}

#[test]
fn a_task_has_a_role_in_each_of_its_namespaces() {
    let task = task().namespaces(["a", "b"]).build().expect("a task");
    assert_eq!(lines(&[task]), [CLUSTER.map(str::to_owned).to_vec(), role("a"), role("b")].concat());
}

#[test]
fn a_task_of_the_operators_namespace_has_a_role_there() {
    let mut task = task().own_namespace().build().expect("a task");
    assert_eq!(task.namespaces(), ["default"], "before it is known, not all");
    task.set_own_namespace("shops");
    assert_eq!(lines(&[task]), [CLUSTER.map(str::to_owned).to_vec(), role("shops")].concat());
}

#[test]
fn a_task_of_all_namespaces_has_a_cluster_role() {
    let lines = lines(&[task().build().expect("a task")]);
    assert!(lines.iter().all(|line| !line.starts_with("Role")), "{lines:?}");
}
