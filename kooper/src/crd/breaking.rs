//! Which changes of a CRD stored objects might not outlive. Whatever only
//! loosens a schema is fine; where it cannot be told, it counts as a change.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

/// More than these help nobody.
const TOLD: usize = 5;

/// Limits, and whether a larger value is the wider one.
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

/// What, once it is `true`, allows less.
const FLAGS: [&str; 4] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "x-kubernetes-embedded-resource"];

/// What may only be taken away: no two values can be compared.
const FIXED: [&str; 5] = ["pattern", "multipleOf", "not", "x-kubernetes-list-map-keys", "patternProperties"];

/// The changes from the CRD of the cluster to a new one, each with the path of
/// its field.
pub(crate) fn changes(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> Vec<String> {
    let mut found = Vec::new();
    let (was, is) = (&old.spec, &new.spec);
    for (field, was, is) in [
        ("group", &was.group, &is.group),
        ("scope", &was.scope, &is.scope),
        ("names.plural", &was.names.plural, &is.names.plural),
        ("names.kind", &was.names.kind, &is.names.kind),
    ] {
        if was != is {
            found.push(format!("`{field}` changes from {was} to {is}"));
        }
    }
    let stored: Vec<_> = old.status.iter().flat_map(|status| status.stored_versions.iter().flatten()).collect();
    for before in &was.versions {
        match is.versions.iter().find(|after| after.name == before.name) {
            Some(after) => compare(&before.name, &schema(before), &schema(after), &mut found),
            None if stored.contains(&&before.name) => {
                found.push(format!(
                    "the version `{}` goes, and objects are stored in it (`status.storedVersions`)",
                    before.name
                ));
            }
            None => {}
        }
    }
    // Without a conversion, what is stored is read as the new version.
    let storage = |versions: &[CustomResourceDefinitionVersion]| versions.iter().find(|one| one.storage).cloned();
    if let (Some(before), Some(after)) = (storage(&was.versions), storage(&is.versions))
        && is.conversion.as_ref().is_none_or(|conversion| conversion.strategy == "None")
        && !was.versions.iter().any(|one| one.name == after.name)
    {
        compare(&format!("{} as {}", before.name, after.name), &schema(&before), &schema(&after), &mut found);
    }
    let more = found.len().saturating_sub(TOLD);
    found.truncate(TOLD);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found
}

fn schema(version: &CustomResourceDefinitionVersion) -> Value {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.and_then(|schema| serde_json::to_value(schema).ok());
    // Without a schema everything is kept.
    schema.unwrap_or_else(|| serde_json::json!({"x-kubernetes-preserve-unknown-fields": true}))
}

fn compare(version: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    Comparison { version, found }.node("", old, new);
}

struct Comparison<'a> {
    version: &'a str,
    found: &'a mut Vec<String>,
}

impl Comparison<'_> {
    fn say(&mut self, path: &str, what: &str) {
        let path = if path.is_empty() { "the object" } else { path.trim_start_matches('.') };
        self.found.push(format!("`{path}` ({}) {what}", self.version));
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
            self.say(path, &format!("changes its type from {} to {}", name(was), name(is)));
        }
        if old["nullable"] == true && new["nullable"] != true {
            self.say(path, "may not be null any more");
        }
    }

    /// What a value has to be like.
    fn values(&mut self, path: &str, old: &Value, new: &Value) {
        if let Some(allowed) = new["enum"].as_array() {
            match old["enum"].as_array() {
                None => self.say(path, "is limited to an `enum`"),
                Some(before) => {
                    for gone in before.iter().filter(|value| !allowed.contains(value)) {
                        self.say(path, &format!("may not be {gone} any more"));
                    }
                }
            }
        }
        for (limit, larger_is_wider) in LIMITS {
            let Some(is) = new[limit].as_f64() else { continue };
            match old[limit].as_f64() {
                None if limit.starts_with("min") && limit != "minimum" && is == 0.0 => {}
                None => self.say(path, &format!("gets a `{limit}` of {is}")),
                Some(was) if (is < was) == larger_is_wider && is != was => {
                    self.say(path, &format!("changes its `{limit}` from {was} to {is}"));
                }
                Some(_) => {}
            }
        }
        for flag in FLAGS {
            if new[flag] == true && old[flag] != true {
                self.say(path, &format!("gets `{flag}`"));
            }
        }
        for field in FIXED {
            match (old.get(field), new.get(field)) {
                (_, None) => {}
                (was, Some(is)) if was == Some(is) => {}
                (None, Some(is)) => self.say(path, &format!("gets a `{field}`: {is}")),
                (Some(was), Some(is)) => self.say(path, &format!("changes its `{field}` from {was} to {is}")),
            }
        }
        let list = |schema: &Value| schema["x-kubernetes-list-type"].as_str().map(str::to_owned);
        if let (was, Some(is @ ("set" | "map"))) = (list(old), list(new).as_deref())
            && was.as_deref() != Some(is)
        {
            self.say(path, &format!("becomes a list of type {is}, without duplicates"));
        }
        self.format(path, old, new);
        self.alternatives(path, old, new);
    }

    fn format(&mut self, path: &str, old: &Value, new: &Value) {
        let Some(is) = new["format"].as_str() else { return };
        let wider = |was: &str| matches!((was, is), ("int32", "int64") | ("float", "double"));
        match old["format"].as_str() {
            Some(was) if was == is || wider(was) => {}
            Some(was) => self.say(path, &format!("changes its `format` from {was} to {is}")),
            // A width says what a number was meant to be all along.
            None if matches!(is, "int64" | "double" | "uint64") => {}
            None => self.say(path, &format!("gets a `format`: {is}")),
        }
    }

    /// Rules that are lists: each new one of `allOf` and CEL allows less, each
    /// one that goes from `anyOf` and `oneOf` too.
    fn alternatives(&mut self, path: &str, old: &Value, new: &Value) {
        let list = |schema: &Value, field: &str| schema[field].as_array().cloned().unwrap_or_default();
        let all = (list(old, "allOf"), list(new, "allOf"));
        if all.1.iter().any(|one| !all.0.contains(one)) {
            self.say(path, "gets a further `allOf`");
        }
        for field in ["anyOf", "oneOf"] {
            let (was, is) = (list(old, field), list(new, field));
            if was.is_empty() && !is.is_empty() {
                self.say(path, &format!("is limited to an `{field}`"));
            } else if !is.is_empty() && was.iter().any(|one| !is.contains(one)) {
                self.say(path, &format!("loses or changes a choice of its `{field}`"));
            }
        }
        let rules = |schema: &Value| -> Vec<Value> {
            list(schema, "x-kubernetes-validations").iter().map(|rule| rule["rule"].clone()).collect()
        };
        let known = rules(old);
        for rule in rules(new).iter().filter(|rule| !known.contains(rule)) {
            self.say(path, &format!("gets the validation rule {rule}"));
        }
    }

    fn required(&mut self, path: &str, old: &Value, new: &Value) {
        let names = |schema: &Value| -> Vec<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let before = names(old);
        for name in names(new).iter().filter(|name| !before.contains(name)) {
            let filled = new["properties"][name].get("default").is_some();
            if !filled {
                self.say(&format!("{path}.{name}"), "becomes required and has no default");
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
                (None, None) => self.say(&path, "is removed"),
            }
        }
        match (any(old), any(new)) {
            (Some(before), Some(after)) if before.is_object() && after.is_object() => {
                self.node(&format!("{path}.*"), &before, &after);
            }
            (Some(Value::Bool(_)), Some(Value::Object(_))) => self.say(path, "limits the values of its fields"),
            (Some(_), None) if !keeps(new) => self.say(path, "takes no fields of any name any more"),
            _ => {}
        }
        if keeps(old) && !keeps(new) && any(new).is_none() {
            self.say(path, "keeps unknown fields no more");
        }
        if keeps(old) {
            for name in is.keys().filter(|name| !was.contains_key(*name)) {
                self.say(&format!("{path}.{name}"), "may be stored already, and gets a schema");
            }
        }
    }
}
