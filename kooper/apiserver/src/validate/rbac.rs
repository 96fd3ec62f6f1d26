//! The rules of roles and bindings.

use serde_json::{Value, json};

use super::at::At;
use super::selector;
use crate::form;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &At<'_>, namespaced: bool) {
    for rule in object.field("rules").items() {
        self::rule(&rule, namespaced);
    }
    let aggregation = object.field("aggregationRule");
    if aggregation.is_set() {
        let selectors = aggregation.field("clusterRoleSelectors");
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
        selectors.items().iter().for_each(selector::validate);
    }
}

fn rule(rule: &At<'_>, namespaced: bool) {
    rule.field("verbs").required("verbs must contain at least one value");
    let paths = rule.field("nonResourceURLs");
    if paths.is_empty() {
        rule.field("apiGroups").required("resource rules must supply at least one api group");
        rule.field("resources").required("resource rules must supply at least one resource");
        return;
    }
    if namespaced {
        paths.invalid("namespaced rules cannot apply to non-resource URLs");
    }
    if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !rule.field(key).is_empty()) {
        paths.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}

pub(super) fn binding(object: &At<'_>, namespaced: bool, present: Option<&Value>) {
    let role = object.field("roleRef");
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !matches!(role.field("apiGroup").text(), "" | GROUP) {
        role.field("apiGroup").not_supported(&[GROUP]);
    }
    if !kinds.contains(&role.field("kind").text()) {
        role.field("kind").not_supported(kinds);
    }
    role.field("name").name(form::path_segment);
    for subject in object.field("subjects").items() {
        self::subject(&subject, namespaced);
    }
    if let Some(present) = present.filter(|present| present["roleRef"] != *role.value) {
        let text = |key: &str| role.field(key).text().to_owned();
        // The real server shows its own form of the reference.
        let shown = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        if present["roleRef"]["name"].is_string() {
            role.invalid_as(&shown, "cannot change roleRef");
        }
    }
}

fn subject(subject: &At<'_>, namespaced: bool) {
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
