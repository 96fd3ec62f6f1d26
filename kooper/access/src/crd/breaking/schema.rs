//! Compares two schemas field by field: finds values that the new one no longer
//! accepts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use serde_json::Value;

use super::{AllowedBy, CrdChange, integer, schema_of};
use crate::crd::cel;

/// Limits, and whether a larger value accepts more.
const LIMITS: [(&str, bool); 8] = [
    ("minimum", false),
    ("maximum", true),
    ("minLength", false),
    ("maxLength", true),
    ("minItems", false),
    ("maxItems", true),
    ("minProperties", false),
    ("maxProperties", true),
];

/// Flags that accept less when they are `true`.
const FLAGS: [&str; 3] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems"];

/// Fields that may only be removed: their values cannot be compared.
const FIXED: [(&str, AllowedBy); 5] = [
    ("pattern", AllowedBy::Ratcheting),
    ("multipleOf", AllowedBy::Ratcheting),
    ("not", AllowedBy::Consent),
    ("x-kubernetes-list-map-keys", AllowedBy::Consent),
    ("patternProperties", AllowedBy::Consent),
];

/// Notes the changes from one version's schema to another's; `label` names the
/// version in messages.
pub(super) fn compare(
    label: &str,
    old: &CustomResourceDefinitionVersion,
    new: &CustomResourceDefinitionVersion,
    found: &mut Vec<CrdChange>,
) {
    let has_status = old.subresources.as_ref().is_some_and(|all| all.status.is_some());
    SchemaComparison { label, has_status, found }.node("", &schema_of(old), &schema_of(new));
}

struct SchemaComparison<'a> {
    label: &'a str,
    /// `true` if `status` is a subresource, which only controllers write.
    has_status: bool,
    found: &'a mut Vec<CrdChange>,
}

impl SchemaComparison<'_> {
    /// Notes a change that needs consent.
    fn change(&mut self, path: &str, what: &str) {
        self.note(path, what, AllowedBy::Consent);
    }

    /// Notes a restriction of values whose type does not change. The root and
    /// `status` change with every write, so ratcheting does not apply to them.
    fn limit(&mut self, path: &str, what: &str) {
        let changes_always = path.is_empty() || path == ".status" || path.starts_with(".metadata");
        self.note(path, what, if changes_always { AllowedBy::Consent } else { AllowedBy::Ratcheting });
    }

    fn note(&mut self, path: &str, what: &str, allowed_by: AllowedBy) {
        let path = if path.is_empty() { "the object" } else { path.trim_start_matches('.') };
        self.found.push(CrdChange { text: format!("`{path}` ({}) {what}", self.label), allowed_by });
    }

    fn node(&mut self, path: &str, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        self.types(path, old, new);
        self.values(path, old, new);
        self.required(path, old, new);
        self.fields(path, old, new);
        if let (Some(was), Some(is)) = (old.get("items"), new.get("items")) {
            self.node(&format!("{path}[]"), was, is);
        }
    }

    fn types(&mut self, path: &str, old: &Value, new: &Value) {
        let kind = |schema: &Value| match schema["type"].as_str() {
            _ if schema["x-kubernetes-int-or-string"] == true => Some("integer or string".to_owned()),
            kind => kind.filter(|kind| !kind.is_empty()).map(str::to_owned),
        };
        let (was, is) = (kind(old), kind(new));
        let fits = match (was.as_deref(), is.as_deref()) {
            (_, None) | (Some("integer"), Some("number")) => true,
            (Some("integer" | "string"), Some("integer or string")) => true,
            (was, is) => was == is,
        };
        if !fits {
            let name = |kind: Option<String>| kind.unwrap_or_else(|| "any type".to_owned());
            self.change(path, &format!("changes its type from {} to {}", name(was), name(is)));
        }
        if old["nullable"] == true && new["nullable"] != true {
            self.change(path, "no longer allows null");
        }
    }

    /// Compares the restrictions of a value.
    fn values(&mut self, path: &str, old: &Value, new: &Value) {
        if let Some(allowed) = new["enum"].as_array() {
            match old["enum"].as_array() {
                None => self.change(path, "is limited to an `enum`"),
                Some(before) => {
                    for gone in before.iter().filter(|value| !allowed.contains(value)) {
                        self.change(path, &format!("no longer allows {gone}"));
                    }
                }
            }
        }
        for (limit, larger_is_wider) in LIMITS {
            let Some(is) = new[limit].as_f64() else { continue };
            // A value with a fixed length may decode as another type: a character, an array.
            // The program could not decode values beyond the limits of its integer before.
            if integer::is_bound(old, limit, is) {
                continue;
            }
            let exact = [("minLength", "maxLength"), ("minItems", "maxItems")].iter().any(|(least, most)| {
                (limit == *least || limit == *most) && new[least].is_number() && new[least] == new[most]
            });
            let what = match old[limit].as_f64() {
                None if limit.starts_with("min") && limit != "minimum" && is == 0.0 => continue,
                None => format!("gets a `{limit}` of {is}"),
                Some(was) if (is < was) == larger_is_wider && is != was => {
                    format!("changes its `{limit}` from {was} to {is}")
                }
                Some(_) => continue,
            };
            if exact { self.change(path, &what) } else { self.limit(path, &what) }
        }
        for flag in FLAGS {
            if new[flag] == true && old[flag] != true {
                self.limit(path, &format!("gets `{flag}`"));
            }
        }
        if new["x-kubernetes-embedded-resource"] == true && old["x-kubernetes-embedded-resource"] != true {
            self.change(path, "gets `x-kubernetes-embedded-resource`");
        }
        for (field, allowed_by) in FIXED {
            let what = match (old.get(field), new.get(field)) {
                (_, None) => continue,
                (was, Some(is)) if was == Some(is) => continue,
                (None, Some(is)) => format!("gets a `{field}`: {is}"),
                (Some(was), Some(is)) => format!("changes its `{field}` from {was} to {is}"),
            };
            if allowed_by == AllowedBy::Ratcheting { self.limit(path, &what) } else { self.change(path, &what) }
        }
        let list = "x-kubernetes-list-type";
        if let Some(is @ ("set" | "map")) = new[list].as_str()
            && old[list] != is
        {
            self.change(path, &format!("becomes a list of type {is}, which cannot have duplicates"));
        }
        self.format(path, old, new);
        self.alternatives(path, old, new);
    }

    fn format(&mut self, path: &str, old: &Value, new: &Value) {
        let Some(is) = new["format"].as_str() else { return };
        let was = old["format"].as_str();
        let fits = match new["type"].as_str() {
            Some("integer" | "number") => integer::widens(old, new),
            _ => was == Some(is),
        };
        match was {
            _ if fits => {}
            Some(was) => self.change(path, &format!("changes its `format` from {was} to {is}")),
            None => self.change(path, &format!("gets a `format`: {is}")),
        }
    }

    /// Compares lists of rules. More entries of `allOf` and more CEL rules accept
    /// less, and so do fewer entries of `anyOf` and `oneOf`.
    fn alternatives(&mut self, path: &str, old: &Value, new: &Value) {
        let list = |schema: &Value, field: &str| schema[field].as_array().cloned().unwrap_or_default();
        let all = (list(old, "allOf"), list(new, "allOf"));
        if all.1.iter().any(|one| !all.0.contains(one)) {
            self.change(path, "gets another `allOf`");
        }
        for field in ["anyOf", "oneOf"] {
            let (was, is) = (list(old, field), list(new, field));
            if was.is_empty() && !is.is_empty() {
                self.change(path, &format!("is limited to an `{field}`"));
            } else if !is.is_empty() && was.iter().any(|one| !is.contains(one)) {
                self.change(path, &format!("loses or changes a choice of its `{field}`"));
            }
        }
        self.rules(path, old, new);
    }

    /// Compares CEL rules. A rule may be removed, or get another alternative.
    fn rules(&mut self, path: &str, old: &Value, new: &Value) {
        let rules = |schema: &Value| -> Vec<(String, bool)> {
            let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
            let text = |rule: &Value| rule["rule"].as_str().unwrap_or_default().to_owned();
            rules.iter().map(|rule| (text(rule), rule["optionalOldSelf"] == true)).collect()
        };
        let known = rules(old);
        let required = |schema: &Value, field: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field))
        };
        let present = |field: &str| required(old, field) && required(new, field);
        for (rule, optional) in rules(new) {
            if known.iter().any(|(old, also)| *also == optional && cel::loosens(old, &rule)) {
                continue;
            }
            let transition = cel::CelRule::parse(&rule);
            let transition = transition.map(|rule| (rule.is_transition(), rule.accepts_no_change(present)));
            let what = format!("gets the validation rule `{rule}`");
            match transition {
                Some((true, true)) if !optional => {}
                Some((false, _)) => self.limit(path, &what),
                // Even an unchanged object might no longer be accepted.
                _ => self.change(path, &what),
            }
        }
    }

    fn required(&mut self, path: &str, old: &Value, new: &Value) {
        let names = |schema: &Value| -> Vec<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let filled = |schema: &Value, name: &String| schema["properties"][name].get("default").is_some();
        let (before, after) = (names(old), names(new));
        for name in after.iter().filter(|name| !before.contains(name)) {
            if !filled(new, name) {
                self.change(&format!("{path}.{name}"), "becomes required and has no default");
            }
        }
        // Objects without it are stored without it.
        for name in before.iter().filter(|name| after.contains(name)) {
            if filled(old, name) && !filled(new, name) {
                self.change(&format!("{path}.{name}"), "loses its default and stays required");
            }
        }
    }

    fn fields(&mut self, path: &str, old: &Value, new: &Value) {
        let none = serde_json::Map::new();
        let (was, is) =
            (old["properties"].as_object().unwrap_or(&none), new["properties"].as_object().unwrap_or(&none));
        let keeps = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
        let any = |schema: &Value| schema.get("additionalProperties").filter(|any| **any != false).cloned();
        for (name, before) in was {
            let path = format!("{path}.{name}");
            match (is.get(name), any(new)) {
                (Some(after), _) => self.node(&path, before, after),
                (None, Some(Value::Bool(_))) => {}
                (None, Some(after)) => self.node(&path, before, &after),
                (None, None) if keeps(new) => {}
                // The controller writes it again with each call.
                (None, None) if self.has_status && path.starts_with(".status.") => {}
                (None, None) => self.change(&path, "is removed"),
            }
        }
        match (any(old), any(new)) {
            (Some(before), Some(after)) if before.is_object() && after.is_object() => {
                self.node(&format!("{path}.*"), &before, &after);
            }
            // They could have any value before.
            (before, Some(after))
                if after.is_object()
                    && (before.is_some() || keeps(old))
                    && !(keeps(&after) && after["type"].is_null()) =>
            {
                self.change(path, "limits the values of its fields");
            }
            (Some(_), None) if !keeps(new) => self.change(path, "no longer accepts fields of any name"),
            _ => {}
        }
        if keeps(old) && !keeps(new) && any(new).is_none() {
            self.change(path, "no longer keeps unknown fields");
        }
        let any_before = any(old);
        for (name, after) in is.iter().filter(|(name, _)| !was.contains_key(*name)) {
            let path = format!("{path}.{name}");
            match &any_before {
                Some(before) if before.is_object() => self.node(&path, before, after),
                None if !keeps(old) => {}
                _ => self.change(&path, "may already be stored without a schema, and gets one"),
            }
        }
    }
}
