//! From a body to an object of the kind that the path names.

use serde_json::Value;

use super::{Call, FieldValidation};
use crate::kinds::Kind;
use crate::status::Refusal;
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
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
             error: {why}"
        ))
    };
    match serde_json::from_slice::<Value>(body) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(other) => {
            let what = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => "bool",
            };
            Err(unrecognized(format!(
                "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({})",
                excerpt(body)
            )))
        }
        Err(error) if error.is_eof() => Err(unrecognized(format!(
            "unexpected end of JSON input ({})",
            if body.is_empty() { "<empty>".to_owned() } else { excerpt(body) }
        ))),
        Err(error) => Err(unrecognized(format!("{error} ({})", excerpt(body)))),
    }
}

/// An object in YAML, of which JSON is a part.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    let value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_slice(body).map_err(|error| error.to_string())?,
    };
    if value.is_object() { Ok(value) } else { Err("it is not an object".to_owned()) }
}

/// The beginning of a body, for a message.
fn excerpt(body: &[u8]) -> String {
    let beginning = &body[..body.len().min(1024)];
    match str::from_utf8(beginning) {
        Ok(text) if text.len() > 4 || text.starts_with('{') => text.to_owned(),
        _ => beginning.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Holds an object against the kind: names, metadata, and for custom kinds the schema.
pub(super) fn admit(
    call: &Call<'_>,
    mut object: Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Refusal> {
    let kind = &call.kind;
    check_kind(kind, &object)?;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.as_str().into();
    meta::normalize(kind, &mut object)?;
    let unknown;
    match &kind.custom {
        Some(definition) => {
            unknown = definition.prune(&mut object);
            definition.fill_defaults(&mut object);
        }
        None => {
            unknown = crate::schema::prune_builtin(&mut object, &kind.typed().definition);
            defaults::fill(kind, &mut object);
        }
    }
    let unknown: Vec<_> = unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.version,
                kind.kind,
                unknown.join(", ")
            );
            Err(Refusal::bad_request(message))
        }
        FieldValidation::Warn => Ok((object, unknown)),
        _ => Ok((object, Vec::new())),
    }
}

fn check_kind(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (found, version) = (text("kind"), text("apiVersion"));
    if !found.is_empty() && found != kind.kind {
        let given = if version.is_empty() { &kind.version } else { version };
        let message = if kind.custom.is_some() {
            format!("{found} in version {given:?} cannot be handled as a {}: unknown kind", kind.kind)
        } else {
            let internal =
                if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
            format!(
                "{found} in version {given:?} cannot be handled as a {}: converting ({}.{found}) to ({internal}.{}): \
                 unknown conversion",
                kind.kind, kind.version, kind.kind
            )
        };
        return Err(Refusal::bad_request(message));
    }
    if !version.is_empty() && version != kind.api_version() {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    if kind.custom.is_some() && (found.is_empty() || version.is_empty()) {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
            kind.kind
        )));
    }
    Ok(())
}
