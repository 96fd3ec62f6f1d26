//! The names in a definition: of its group, its resource, its kinds and its versions.

use serde_json::Value;

use super::versions;
use crate::cause::Cause;
use crate::form;

/// The rules that the names of a definition violate. Names that are missing are reported elsewhere.
pub(super) fn check(object: &Value, present: Option<&Value>, causes: &mut Vec<Cause>) {
    let (spec, names) = (&object["spec"], &object["spec"]["names"]);
    if let Some(group) = given(&spec["group"]) {
        match form::dns_subdomain(group).join(",") {
            why if !why.is_empty() => causes.push(Cause::invalid("spec.group", &spec["group"], why)),
            _ if !group.contains('.') => {
                let why = "should be a domain with at least one dot";
                causes.push(Cause::invalid("spec.group", &spec["group"], why));
            }
            _ => {}
        }
    }
    for key in ["plural", "singular"] {
        if let Some(name) = given(&names[key]) {
            check_label(format!("spec.names.{key}"), name, causes);
        }
    }
    for key in ["kind", "listKind"] {
        let wrong = given(&names[key]).map(|name| form::dns_1035_label(&name.to_lowercase()).join(","));
        if let Some(wrong) = wrong.filter(|wrong| !wrong.is_empty()) {
            let why = format!("may have mixed case, but should otherwise match: {wrong}");
            causes.push(Cause::invalid(format!("spec.names.{key}"), &names[key], why));
        }
    }
    if given(&names["kind"]).is_some() && names["kind"] == names["listKind"] {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &names["listKind"], why));
    }
    for key in ["shortNames", "categories"] {
        for (index, name) in names[key].as_array().into_iter().flatten().enumerate() {
            check_label(format!("spec.names.{key}[{index}]"), name.as_str().unwrap_or_default(), causes);
        }
    }
    let known: Vec<&str> = versions(object).map(|version| version["name"].as_str().unwrap_or_default()).collect();
    for (index, name) in known.iter().enumerate() {
        check_label(format!("spec.versions[{index}].name"), name, causes);
    }
    if known.iter().enumerate().any(|(index, name)| known[..index].contains(name)) {
        causes.push(Cause::invalid("spec.versions", &spec["versions"], "must contain unique version names"));
    }
    // The real server validates an approval only if an update changes its state.
    let former = present.and_then(unapproved).map(|cause| cause.reason);
    causes.extend(unapproved(object).filter(|cause| former != Some(cause.reason)));
}

fn given(name: &Value) -> Option<&str> {
    name.as_str().filter(|name| !name.is_empty())
}

fn check_label(field: String, name: &str, causes: &mut Vec<Cause>) {
    let wrong = form::dns_1035_label(name);
    if !wrong.is_empty() {
        causes.push(Cause::invalid(field, &name.into(), wrong.join(",")));
    }
}

/// Why a definition in a group of Kubernetes lacks the approval of its API.
fn unapproved(object: &Value) -> Option<Cause> {
    const APPROVED: &str = "api-approved.kubernetes.io";
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = object["spec"]["group"].as_str().unwrap_or_default();
    let mut prefixes = ["k8s.io", "kubernetes.io"].into_iter().filter_map(|domain| group.strip_suffix(domain));
    if !prefixes.any(|prefix| prefix.is_empty() || prefix.ends_with('.')) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let approval = &object["metadata"]["annotations"][APPROVED];
    let Some(text) = given(approval) else {
        let why = format!("protected groups must have approval annotation {APPROVED:?}, {SEE}");
        return Some(Cause::required(field, why));
    };
    if is_url(text) || text.starts_with("unapproved") {
        return None;
    }
    let why = format!(
        "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
         \"unapproved\", {SEE}"
    );
    Some(Cause::invalid(field, approval, why))
}

/// Go's parser accepts spaces in a path, and letters of any alphabet.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let in_scheme = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.');
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(in_scheme)
        && !host.is_empty()
        && !host.contains(' ')
        && !text.contains(|char: char| char.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Cause, check};

    fn definition(group: &str) -> Value {
        let names = json!({"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"});
        json!({"metadata": {}, "spec": {"group": group, "names": names, "versions": [{"name": "v1"}]}})
    }

    fn mistakes(object: &Value, present: Option<&Value>) -> Vec<String> {
        let mut causes = Vec::new();
        check(object, present, &mut causes);
        causes.iter().map(Cause::text).collect()
    }

    #[test]
    fn a_name_is_a_label_and_a_group_a_domain() {
        assert_eq!(mistakes(&definition("example.com"), None), [""; 0]);
        for (pointer, wrong, field) in [
            ("/spec/group", json!("Example.com"), "spec.group"),
            ("/spec/group", json!("example"), "spec.group"),
            ("/spec/names/plural", json!("Shops"), "spec.names.plural"),
            ("/spec/names/singular", json!("1shop"), "spec.names.singular"),
            ("/spec/names/kind", json!("My_Shop"), "spec.names.kind"),
            ("/spec/names/listKind", json!("Shop"), "spec.names.listKind"),
            ("/spec/versions/0/name", json!("V1"), "spec.versions[0].name"),
            ("/spec/versions/0/name", Value::Null, "spec.versions[0].name"),
            ("/spec/versions", json!([{"name": "v1"}, {"name": "v1"}]), "spec.versions"),
            ("/spec/names", json!({"shortNames": ["s", "s_h"]}), "spec.names.shortNames[1]"),
        ] {
            let mut object = definition("example.com");
            *object.pointer_mut(pointer).expect("the definition has it") = wrong;
            let found = mistakes(&object, None);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{field}: Invalid value: ")), "{found:?}");
        }
    }

    #[test]
    fn a_group_of_kubernetes_needs_an_approval() {
        let missing = definition("shops.k8s.io");
        let required = "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have \
                        approval annotation \"api-approved.kubernetes.io\", see \
                        https://github.com/kubernetes/enhancements/pull/1111";
        assert_eq!(mistakes(&missing, None), [required]);
        assert_eq!(mistakes(&missing, Some(&missing)), [""; 0]);
        assert_eq!(mistakes(&definition("shops.notk8s.io"), None), [""; 0]);
        for (approval, mistaken) in [
            ("unapproved, a test", 0),
            ("https://example.com/1", 0),
            ("https://example.com/1 and 2", 0),
            ("https://example.com/1\n", 1),
            ("https:///1", 1),
            ("see https://example.com/1", 1),
            ("yes", 1),
        ] {
            let mut approved = missing.clone();
            approved["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": approval});
            assert_eq!(mistakes(&approved, Some(&missing)).len(), mistaken, "{approval}");
        }
    }
}
