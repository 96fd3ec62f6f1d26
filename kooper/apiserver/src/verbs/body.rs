//! From a body to an object of the kind that the path names.

use serde_json::Value;

use super::{Call, FieldValidation};
use crate::http::syntax;
use crate::kinds::Kind;
use crate::status::{Cause, Refusal};
use crate::{defaults, meta};

/// Decodes the body as an object of the call's kind. Warnings are what it has too much.
pub(super) fn decode(call: &Call<'_>, validation: FieldValidation) -> Result<(Value, Vec<String>), Refusal> {
    let object = parse(call, &call.kind.kind)?;
    admit(call, object, validation)
}

/// The object of a body, before it is held against its kind.
pub(crate) fn parse(call: &Call<'_>, kind: &str) -> Result<Value, Refusal> {
    let body = &call.request.body;
    match call.request.content_type() {
        "" | "application/json" | "*/*" => {}
        "application/yaml" => {
            return yaml(body).map_err(|error| {
                Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; yaml parse \
                     error: {error}"
                ))
            });
        }
        "application/vnd.kubernetes.protobuf" => return Err(Refusal::not_implemented("bodies in protobuf")),
        _ => {
            return Err(Refusal::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    }
    let unrecognized = |why: String| {
        let why = format!("couldn't get version/kind; json parse error: {why}");
        // Options are decoded on their own.
        if kind == "DeleteOptions" {
            return Refusal::bad_request(why.rsplit_once(" (").map_or(why.as_str(), |(why, _)| why));
        }
        Refusal::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    match serde_json::from_slice::<Value>(body) {
        Ok(object @ Value::Object(_)) => match ["kind", "apiVersion"].iter().find(|key| !is_text(&object[**key])) {
            Some(key) => Err(unrecognized(format!(
                "json: cannot unmarshal {} into Go struct field .{key} of type string ({})",
                json_type(&object[*key]),
                excerpt(body)
            ))),
            None => Ok(object),
        },
        Ok(Value::Null) => Ok(serde_json::json!({})),
        Ok(other) => {
            let what = json_type(&other);
            Err(unrecognized(format!(
                "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({})",
                excerpt(body)
            )))
        }
        Err(error) => {
            let why = syntax::error(body).unwrap_or_else(|| error.to_string());
            Err(unrecognized(format!("{why} ({})", excerpt(body))))
        }
    }
}

/// An object in YAML, of which JSON is a part.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    let value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_slice(body).map_err(|error| error.to_string())?,
    };
    if value.is_object() {
        Ok(value)
    } else {
        Err(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_type(&value)
        ))
    }
}

/// A header of an object: absent or a string.
fn is_text(value: &Value) -> bool {
    value.is_null() || value.is_string()
}

/// The beginning of a body, for a message.
fn excerpt(body: &[u8]) -> String {
    const LENGTH: usize = 30;
    let more = if body.len() > LENGTH { " ..." } else { "" };
    let beginning = &body[..body.len().min(LENGTH)];
    match beginning.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(beginning)),
        Some(_) => {
            let digits = beginning.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
            format!("{digits}{more}")
        }
    }
}

/// Decodes the body of a POST to a subresource, which is of a type of its own: group, version and kind.
pub(crate) fn posted(
    call: &Call<'_>,
    (group, version, kind): (&str, &str, &str),
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let mut object = parse(call, kind)?;
    let of = Type { group, version, kind, custom: false };
    of.check(call, &object)?;
    object["apiVersion"] = of.api_version().into();
    object["kind"] = kind.into();
    drop_nulls(&mut object);
    let unknown = match crate::schema::published::typed(group, version, kind) {
        Some(definition) => crate::schema::prune_builtin(&mut object, definition),
        None => Vec::new(),
    };
    check_namespace(call, &object)?;
    if let Some(namespace) = call.target.namespace.as_deref().filter(|_| call.kind.namespaced) {
        meta::of(&mut object).insert("namespace".into(), namespace.into());
    }
    of.report(unknown, validation).map(|warnings| (object, warnings))
}

/// Holds an object against the kind: names, metadata, and for custom kinds the schema.
pub(super) fn admit(
    call: &Call<'_>,
    mut object: Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let kind = &call.kind;
    let of = Type::of(kind);
    of.check(call, &object)?;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.as_str().into();
    let mut unknown = meta::normalize(kind, &mut object)?;
    match &kind.custom {
        Some(definition) => {
            whole_numbers(&mut object);
            unknown.extend(definition.prune(&mut object));
            definition.fill_defaults(&mut object);
        }
        None => {
            normalize_data(kind, &mut object)?;
            unknown.extend(crate::schema::prune_builtin(&mut object, &kind.typed().definition));
            defaults::decode(kind, &mut object);
        }
    }
    if call.request.method == http::Method::PATCH && kind.custom.is_none() {
        // What a patch leads to is in the order of its names.
        unknown.sort();
    }
    of.report(unknown, validation).map(|warnings| (object, warnings))
}

/// The namespace of the body, if there is one, is that of the path.
pub(super) fn check_namespace(call: &Call<'_>, object: &Value) -> Result<(), Refusal> {
    let found = meta::text(object, "namespace");
    let wanted = call.target.namespace.as_deref().unwrap_or_default();
    if !found.is_empty() && found != wanted && call.kind.namespaced {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The type that the path of a request names.
#[derive(Clone, Copy)]
struct Type<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    custom: bool,
}

impl<'a> Type<'a> {
    fn of(kind: &'a Kind) -> Self {
        Self { group: &kind.group, version: &kind.version, kind: &kind.kind, custom: kind.custom.is_some() }
    }

    fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Refuses an object that names another type.
    fn check(self, call: &Call<'_>, object: &Value) -> Result<(), Refusal> {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (found, version) = (text("kind"), text("apiVersion"));
        let expected = self.api_version();
        if version.matches('/').count() > 1 {
            return Err(Refusal::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {version} ({})",
                self.kind,
                excerpt(&call.request.body)
            )));
        }
        if self.custom {
            if found.is_empty() {
                let body = String::from_utf8_lossy(&call.request.body);
                return Err(Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({})",
                    self.kind,
                    excerpt(&call.request.body)
                )));
            }
        } else if !found.is_empty() || !version.is_empty() {
            let name = if found.is_empty() { self.kind } else { found };
            let given = if version.is_empty() { expected.as_str() } else { version };
            let (group, version) = crate::kinds::split_group_version(given);
            let registered = call.cluster.kinds().of(given, name).is_some_and(|kind| kind.custom.is_none())
                || crate::schema::published::typed(&group, &version, name).is_some()
                || name.ends_with("List");
            let why = if !registered {
                format!("no kind {name:?} is registered for version {given:?} in scheme {SCHEME:?}")
            } else if name != self.kind {
                let internal =
                    if self.group.is_empty() { "core" } else { self.group.split('.').next().unwrap_or_default() };
                format!("converting ({version}.{name}) to ({internal}.{}): unknown conversion", self.kind)
            } else {
                String::new()
            };
            if !why.is_empty() {
                let message = format!("{name} in version {version:?} cannot be handled as a {}: {why}", self.kind);
                return Err(Refusal::bad_request(message));
            }
        }
        if version != expected && (self.custom || !version.is_empty()) {
            return Err(Refusal::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if found != self.kind && self.custom {
            let cause = Cause::invalid("kind", &found.into(), format!("must be {}", self.kind));
            return Err(Refusal::invalid(self.group, found, meta::text(object, "name"), &[cause]));
        }
        Ok(())
    }

    /// Refuses unknown fields, or turns them into warnings.
    fn report(self, unknown: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, Refusal> {
        let unknown: Vec<_> = unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
        match validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                let message = format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                    self.kind,
                    self.version,
                    self.kind,
                    unknown.join(", ")
                );
                Err(Refusal::bad_request(message))
            }
            FieldValidation::Warn => Ok(unknown),
            _ => Ok(Vec::new()),
        }
    }
}

/// A null is the absence of a field.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Where the real server has its kinds.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// The data of ConfigMaps and Secrets: null is an empty string, and what is empty is absent.
fn normalize_data(kind: &Kind, object: &mut Value) -> Result<(), Refusal> {
    if !matches!(kind.kind.as_str(), "ConfigMap" | "Secret") {
        return Ok(());
    }
    let Value::Object(object) = object else { return Ok(()) };
    let refused = |why: String| {
        let (version, kind) = (&kind.version, &kind.kind);
        Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let wrong = |found: &Value, field: &str, wanted: &str| {
        let (found, kind) = (json_type(found), &kind.kind);
        refused(format!("json: cannot unmarshal {found} into Go struct field {kind}.{field} of type {wanted}"))
    };
    if let Some(flag) = object.get("immutable").filter(|flag| !flag.is_null() && !flag.is_boolean()) {
        return Err(wrong(flag, "immutable", "bool"));
    }
    for field in ["data", "binaryData", "stringData"] {
        let is_bytes = field == "binaryData" || field == "data" && kind.kind == "Secret";
        let (item, map) = if is_bytes { ("[]uint8", "map[string][]uint8") } else { ("string", "map[string]string") };
        let entries = match object.get_mut(field) {
            Some(Value::Object(entries)) => entries,
            None | Some(Value::Null) => continue,
            Some(other) => return Err(wrong(other, field, map)),
        };
        for value in entries.values() {
            match value {
                Value::String(text) if is_bytes => {
                    if let Some(at) = not_base64(text) {
                        return Err(refused(format!("illegal base64 data at input byte {at}")));
                    }
                }
                Value::String(_) | Value::Null => {}
                other => return Err(wrong(other, field, item)),
            }
        }
        entries.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
        if entries.is_empty() {
            object.remove(field);
        }
    }
    Ok(())
}

/// Where a string stops being base64.
fn not_base64(text: &str) -> Option<usize> {
    let text = text.replace(['\r', '\n'], "");
    let letters = text.trim_end_matches('=');
    let wrong = letters.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'+' && byte != b'/');
    if wrong.is_some() {
        return wrong;
    }
    let padded = text.len() - letters.len();
    match letters.len() % 4 {
        0 if padded == 0 => None,
        2 if padded == 2 => None,
        3 if padded == 1 => None,
        _ => Some(text.len()),
    }
}

/// A number without a fraction is written as a whole one, whatever it was.
fn whole_numbers(value: &mut Value) {
    /// Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT) {
                *value = Value::from(float as i64);
            }
        }
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// What Go calls the type of a JSON value.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
