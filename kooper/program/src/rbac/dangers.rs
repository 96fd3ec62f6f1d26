//! Warnings about dangerous permissions in `rbac`.

use kooper_grammar::access::Rule;

use kooper_access::Controller;

/// A warning for each dangerous part of a rule in `rbac`.
pub(super) fn of(controller: &Controller) -> Vec<String> {
    let rules = controller.plan().rbac().unwrap_or_default();
    let warning = |rule: &Rule, danger: &str| {
        let rule = shown(rule);
        format!("`rbac(\"{rule}\")` of the controller `{}` {danger}", controller.name())
    };
    let has_all_namespaces = controller.namespaces().is_empty();
    let dangers = |rule| dangers(rule, has_all_namespaces).into_iter().map(move |danger| warning(rule, danger));
    rules.iter().flat_map(dangers).collect()
}

fn dangers(rule: &Rule, has_all_namespaces: bool) -> Vec<&'static str> {
    let Rule { group, resource, subresource, verbs, .. } = rule;
    let has = |verb: &str| verbs.iter().any(|one| one == verb);
    let is_core = |name: &str| group.is_empty() && resource == name;
    let mut dangers = Vec::new();
    if has("*") || resource == "*" || group == "*" {
        dangers.push(
            "also grants the verbs and resources that later versions add: list those that are needed instead of `*`",
        );
    }
    if has("escalate") || has("bind") {
        dangers.push("lets the program give itself every permission: leave `escalate` and `bind` to administrators");
    }
    if has("impersonate") {
        dangers.push("lets the program act as other users: leave `impersonate` to administrators");
    }
    if is_core("pods") && subresource.as_deref() == Some("exec") {
        dangers
            .push("lets the program run commands in every container that it reaches, with the permissions of that pod");
    }
    let reads = ["get", "list", "watch", "*"].into_iter().any(has);
    if is_core("secrets") && subresource.is_none() && reads && has_all_namespaces {
        dangers.push(
            "lets the program read the Secrets of all namespaces, including the tokens of others: limit it with \
             `namespaces`, or with a `Subset` that has names",
        );
    }
    dangers
}

/// In the syntax of `rbac`.
fn shown(rule: &Rule) -> String {
    let group = if rule.group.is_empty() { String::new() } else { format!("{}/", rule.group) };
    let subresource = rule.subresource.as_ref().map_or(String::new(), |subresource| format!("/{subresource}"));
    format!("{group}{}{subresource}: {}", rule.resource, rule.verbs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grants_more_than_it_seems_is_warned_of() {
        let rule = |group: &str, resource: &str, subresource: Option<&str>, verbs: &[&str]| {
            Rule::new(group, resource, subresource, verbs)
        };
        for (rule, expected) in [
            (rule("apps", "deployments", None, &["get", "*"]), "instead of `*`"),
            (rule("rbac.authorization.k8s.io", "clusterroles", None, &["escalate"]), "`escalate` and `bind`"),
            (rule("rbac.authorization.k8s.io", "roles", None, &["bind"]), "`escalate` and `bind`"),
            (rule("", "users", None, &["impersonate"]), "`impersonate`"),
            (rule("", "pods", Some("exec"), &["create"]), "run commands"),
            (rule("", "secrets", None, &["get"]), "the Secrets of all namespaces"),
        ] {
            let dangers = dangers(&rule, true);
            assert!(dangers.len() == 1 && dangers[0].contains(expected), "{rule:?}: {dangers:?}");
        }
        assert!(dangers(&rule("", "secrets", None, &["get"]), false).is_empty(), "it has namespaces");
        for harmless in [
            rule("", "secrets", None, &["create"]),
            rule("", "pods", Some("log"), &["get"]),
            rule("example.com", "secrets", None, &["get"]),
            rule("apps", "deployments", None, &["get", "list", "watch", "patch"]),
        ] {
            assert_eq!(dangers(&harmless, true), Vec::<&str>::new(), "{harmless:?}");
        }
    }
}
