//! Configurations of webhooks.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;
use crate::validate::selector;
use crate::{form, match_conditions};

/// The most conditions that a webhook may have.
const MOST_CONDITIONS: usize = 64;
const URL_FORM: &str = "; desired format: https://host[/path]";

pub(super) struct WebhookConfiguration;

impl Strategy for WebhookConfiguration {
    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let mut names = HashSet::new();
        let present = write.present().map(|present| &present["webhooks"]);
        for webhook in object.field("webhooks").items() {
            validate_webhook(&webhook, present);
            webhook.field("name").unique(&mut names);
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.count("/webhooks")), row.age()])
    }
}

fn validate_webhook(webhook: &FieldValue<'_>, present: Option<&Value>) {
    let name = webhook.field("name");
    if name.required("") {
        name.form(form::dns_subdomain);
        if name.text().split('.').count() < 3 {
            name.invalid("should be a domain with at least three segments separated by dots");
        }
    }
    webhook.field("rules").items().iter().for_each(validate_rule);
    webhook.field("failurePolicy").one_of(&["Fail", "Ignore"]);
    webhook.field("matchPolicy").one_of(&["Equivalent", "Exact"]);
    webhook.field("reinvocationPolicy").one_of(&["IfNeeded", "Never"]);
    if webhook.field("sideEffects").required("must specify one of None, NoneOnDryRun") {
        webhook.field("sideEffects").one_of(&["None", "NoneOnDryRun"]);
    }
    if webhook.field("timeoutSeconds").number().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        webhook.field("timeoutSeconds").invalid("the timeout value must be between 1 and 30 seconds");
    }
    selector::validate(&webhook.field("namespaceSelector"));
    selector::validate(&webhook.field("objectSelector"));
    validate_client(&webhook.field("clientConfig"));
    validate_versions(&webhook.field("admissionReviewVersions"));
    validate_conditions(&webhook.field("matchConditions"), present);
}

fn validate_versions(versions: &FieldValue<'_>) {
    if !versions.required("must specify one of v1, v1beta1") {
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            version.invalid("duplicate version");
        } else {
            version.form_even_if_empty(form::dns_1035_label);
        }
    }
    versions.invalid_if(!seen.contains("v1") && !seen.contains("v1beta1"), "must include at least one of v1, v1beta1");
}

fn validate_client(config: &FieldValue<'_>) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(&url),
        (false, true) => validate_service(&service),
        _ => config.require("exactly one of url or service is required"),
    }
}

fn validate_url(url: &FieldValue<'_>) {
    let text = url.text();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    if scheme != "https" {
        url.invalid_as(&json!(scheme), format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    let authority = if scheme.is_empty() { "" } else { rest.split(['/', '?', '#']).next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        url.invalid_as(&json!(""), format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = user {
        url.invalid_as(&json!(user), "user information is not permitted in the URL");
    }
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    if !fragment.is_empty() {
        url.invalid_as(&json!(fragment), "fragments are not permitted in the URL");
    }
    if let Some((_, query)) = before.split_once('?').filter(|(_, query)| !query.is_empty()) {
        url.invalid_as(&json!(query), "query parameters are not permitted in the URL");
    }
}

fn validate_service(service: &FieldValue<'_>) {
    service.field("name").required("");
    service.field("namespace").required("");
    let port = service.field("port");
    if port.number().is_some_and(|port| !(1..=65535).contains(&port)) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    let path = service.field("path");
    let text = path.text();
    match text {
        "" | "/" => return,
        "//" => return path.invalid("segment[0] may not be empty"),
        _ => {}
    }
    path.invalid_if(!text.starts_with('/'), "must start with a '/'");
    let steps = text.get(1..).unwrap_or_default();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            path.invalid(format!("segment[{index}] may not be empty"));
        }
        for why in form::dns_subdomain(step).iter().filter(|_| !step.is_empty()) {
            path.invalid(format!("segment[{index}]: {why}"));
        }
    }
}

fn validate_rule(rule: &FieldValue<'_>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let all = |key: &str, what: &str| {
        let list = rule.field(key);
        list.required("");
        let items = list.items();
        if items.len() > 1 && items.iter().any(|item| item.text() == "*") {
            list.invalid(format!("if '*' is present, must not specify other {what}"));
        }
        items
    };
    for operation in all("operations", "operations") {
        if !OPERATIONS.contains(&operation.text()) {
            operation.not_supported(&OPERATIONS);
        }
    }
    all("apiGroups", "API groups");
    for version in all("apiVersions", "API versions") {
        version.required("");
    }
    validate_resources(&rule.field("resources"));
    rule.field("scope").one_of(&["*", "Cluster", "Namespaced"]);
}

fn validate_resources(resources: &FieldValue<'_>) {
    resources.required("");
    let (mut of_resource, mut of_subresource) = (HashSet::new(), HashSet::new());
    let (mut all, mut every, mut plain) = (false, false, false);
    let items = resources.items();
    for item in &items {
        let text = item.text();
        if !item.required("") {
            continue;
        }
        all |= text == "*/*";
        every |= text == "*";
        let Some((resource, subresource)) = text.split_once('/') else {
            plain |= text != "*";
            continue;
        };
        if of_resource.contains(resource) {
            item.invalid(format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if of_subresource.contains(subresource) {
            item.invalid(format!("if '*/{subresource}' is present, must not specify {text}"));
        }
        if subresource == "*" {
            of_resource.insert(resource);
        }
        if resource == "*" {
            of_subresource.insert(subresource);
        }
    }
    resources.invalid_if(items.len() > 1 && all, "if '*/*' is present, must not specify other resources");
    resources.invalid_if(every && plain, "if '*' is present, must not specify other resources without subresources");
}

fn validate_conditions(conditions: &FieldValue<'_>, present: Option<&Value>) {
    let items = conditions.items();
    if items.len() > MOST_CONDITIONS {
        let why = format!("Too many: {}: must have at most {MOST_CONDITIONS} items", items.len());
        conditions.add(crate::cause::Cause::other("FieldValueTooMany", conditions.path(), why));
    }
    let webhooks = present.and_then(Value::as_array).into_iter().flatten();
    let known = webhooks.flat_map(|webhook| webhook["matchConditions"].as_array().into_iter().flatten());
    // Conditions that are stored already were compiled by an earlier server, too.
    let known: HashSet<_> = known.map(|condition| condition["expression"].as_str().unwrap_or_default()).collect();
    let mut names = HashSet::new();
    for condition in &items {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        let text = expression.text().trim();
        if text.is_empty() {
            expression.require("");
        } else if !known.contains(expression.text())
            && let Err(why) = match_conditions::compile(text)
        {
            expression.invalid(why);
        }
        if name.required("") {
            name.form(form::qualified);
            name.unique(&mut names);
        }
    }
}
