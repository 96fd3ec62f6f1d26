//! Roles and ClusterRoles.

use super::strategy::Strategy;
use crate::form;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, selector};

/// A Role, or a ClusterRole.
pub(super) struct Role {
    pub(super) namespaced: bool,
}

impl Strategy for Role {
    fn name_form(&self) -> form::Check {
        form::path_segment
    }

    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        for rule in object.field("rules").items() {
            validate_rule(&rule, self.namespaced);
        }
        let aggregation = object.field("aggregationRule");
        if aggregation.is_set() {
            let selectors = aggregation.field("clusterRoleSelectors");
            selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
            selectors.items().iter().for_each(selector::validate);
        }
    }
}

fn validate_rule(rule: &FieldValue<'_>, namespaced: bool) {
    rule.field("verbs").required("verbs must contain at least one value");
    let paths = rule.field("nonResourceURLs");
    if paths.is_empty() {
        rule.field("apiGroups").required("resource rules must supply at least one api group");
        rule.field("resources").required("resource rules must supply at least one resource");
        return;
    }
    paths.invalid_if(namespaced, "namespaced rules cannot apply to non-resource URLs");
    if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !rule.field(key).is_empty()) {
        paths.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}
