//! One verb of one resource.

use std::fmt;

use serde_json::{Value, json};

/// One verb of one resource, in one namespace or the cluster, possibly limited to one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) verb: String,
    pub(super) name: Option<String>,
    /// The namespace; `None` for the whole cluster.
    pub(super) place: Option<String>,
    /// The document that contains it.
    pub(super) document: usize,
}

impl Rule {
    /// Every rule of a document.
    pub(super) fn all(document: usize, content: &Value) -> Vec<Self> {
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let place = content["metadata"]["namespace"].as_str().map(str::to_owned);
        let mut found = Vec::new();
        for rule in content["rules"].as_array().into_iter().flatten() {
            let names = texts(&rule["resourceNames"]);
            let names = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    for name in names.clone() {
                        let group = texts(&rule["apiGroups"]).concat();
                        let (resource, verb, place) = (resource.clone(), verb.clone(), place.clone());
                        found.push(Self { group, resource, verb, name, place, document });
                    }
                }
            }
        }
        found
    }

    /// The resource and the verb.
    pub fn access(&self) -> (&str, &str) {
        (&self.resource, &self.verb)
    }

    /// Returns whether the rule is about CRDs, which the program needs to install one.
    pub fn is_of_crd(&self) -> bool {
        self.resource == "customresourcedefinitions"
    }

    pub(super) fn json(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]});
        if let Some(name) = &self.name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    pub(super) fn pinned(&self) -> String {
        self.name.as_ref().map_or(String::new(), |name| format!(" (resourceNames: {name})"))
    }

    /// Returns whether a line advises to grant the rule: it contains the rule in the syntax of
    /// `rbac`, its verb and its namespace.
    pub(super) fn is_named_by(&self, line: &str) -> bool {
        let begin = format!(" the rule \"{}: ", self.path());
        line.match_indices(&begin).any(|(at, _)| {
            let rest = &line[at + begin.len()..];
            let Some((verbs, rest)) = rest.split_once('"') else { return false };
            let place = self.place.as_ref().is_none_or(|place| rest.contains(&format!(" in namespace `{place}`")));
            let name = self.name.as_ref().is_none_or(|name| rest.contains(&format!(" with resourceNames `{name}`")));
            verbs.split(", ").any(|verb| verb == self.verb) && place && name
        })
    }

    /// Returns whether a line contains the server's message that the rule is missing.
    pub(super) fn is_forbidden_in(&self, line: &str) -> bool {
        // A program with a subscriber of its own may escape quotes.
        let line = line.replace("\\\"", "\"");
        if self.resource.ends_with("/finalizers") {
            return line.contains("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't");
        }
        // Of a child that is kept, the owner reference is removed.
        let owned = format!("{}.{} \"", self.resource, self.group);
        if self.verb == "delete" && line.contains("cannot set an ownerRef on a resource you can't delete") {
            return line.contains(&owned);
        }
        line.contains(&format!("cannot {} resource \"{}\" in API group \"{}\"", self.verb, self.resource, self.group))
    }

    fn path(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}/{}", self.group, self.resource) }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path(), self.verb)
    }
}
