//! RoleBindings and ClusterRoleBindings.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;
use crate::form;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A RoleBinding, or a ClusterRoleBinding.
pub(super) struct RoleBinding {
    pub(super) namespaced: bool,
}

impl Strategy for RoleBinding {
    fn name_form(&self) -> form::Check {
        form::path_segment
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let role = object.field("roleRef");
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        if !matches!(role.field("apiGroup").text(), "" | GROUP) {
            role.field("apiGroup").not_supported(&[GROUP]);
        }
        if !kinds.contains(&role.field("kind").text()) {
            role.field("kind").not_supported(kinds);
        }
        role.field("name").name(form::path_segment);
        for subject in object.field("subjects").items() {
            validate_subject(&subject, self.namespaced);
        }
        if let Some(present) = write.present().filter(|present| present["roleRef"] != *role.value) {
            let text = |key: &str| role.field(key).text().to_owned();
            // The real server shows its own form of the reference.
            let shown = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
            if present["roleRef"]["name"].is_string() {
                role.invalid_as(&shown, "cannot change roleRef");
            }
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let subjects = |kind: &str| {
            let all = row.items("/subjects").iter().filter(|subject| subject["kind"] == kind);
            let names: Vec<_> = all
                .map(|subject| {
                    let name = plain(&subject["name"]);
                    if kind == "ServiceAccount" { format!("{}/{name}", plain(&subject["namespace"])) } else { name }
                })
                .collect();
            json!(names.join(", "))
        };
        let role = format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"));
        Some(vec![row.name(), json!(role), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")])
    }
}

fn validate_subject(subject: &FieldValue<'_>, namespaced: bool) {
    let (name, group) = (subject.field("name"), subject.field("apiGroup"));
    name.required("");
    match subject.field("kind").text() {
        "ServiceAccount" => {
            name.form(form::dns_subdomain);
            if !group.is_empty() {
                group.not_supported(&[""]);
            }
            if !namespaced {
                subject.field("namespace").required("");
            }
        }
        "User" | "Group" => group.one_of(&[GROUP]),
        _ => subject.field("kind").not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
