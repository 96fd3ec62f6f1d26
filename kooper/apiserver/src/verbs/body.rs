//! From a body to an object of the kind that the path names.

mod named;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub(super) use self::named::SCHEME;
use self::named::Type;
use super::{Call, FieldValidation};
use crate::decode::{self, Findings};
use crate::http::syntax;
pub(super) use crate::http::syntax::{HEADER, MAP, json_type, not_a};
use crate::kinds::{Kind, split_group_version};
use crate::patch::merge::drop_nulls;
use crate::status::StatusError;
use crate::{cel, defaults, meta, protobuf, registry};

/// Decodes the body as an object of the call's kind. Warnings are what it has too much.
pub(super) fn decode(call: &Call<'_>, validation: FieldValidation) -> Result<(Value, Vec<String>), StatusError> {
    let object = parse(call, &call.kind.api_version(), &call.kind.kind)?;
    let definition = call.kind.typed().name;
    let findings = match call.request.content_type() {
        "" | "application/json" | "*/*" => {
            decode::check(&mut serde_json::Deserializer::from_slice(&call.request.body), definition)
        }
        _ => decode::check(&object, definition),
    };
    admit(call, Type::of(&call.kind), object, findings, validation)
}

/// Holds what a patch leads to against the kind; `strict` has the unknown and duplicate fields of the patch itself, and
/// `text` the object where fields come twice in it.
pub(super) fn patched(
    call: &Call<'_>,
    object: Value,
    text: Option<String>,
    mut strict: Vec<String>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), StatusError> {
    let definition = call.kind.typed().name;
    let mut findings = match text {
        Some(text) => decode::check(&mut serde_json::Deserializer::from_str(&text), definition),
        None => decode::check(&object, definition),
    };
    strict.append(&mut findings.strict);
    findings.strict = strict;
    admit(call, Type { patched: true, ..Type::of(&call.kind) }, object, findings, validation)
}

/// Refuses a body in an encoding that is not known. A POST is refused before its options are read.
pub(super) fn check_media(call: &Call<'_>) -> Result<(), StatusError> {
    match call.request.content_type() {
        "" | "application/json" | "*/*" | "application/yaml" | protobuf::CONTENT_TYPE => Ok(()),
        _ => Err(StatusError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// The object of a body, before it is held against its kind.
pub(crate) fn parse(call: &Call<'_>, api_version: &str, kind: &str) -> Result<Value, StatusError> {
    check_media(call)?;
    let body = &call.request.body;
    match call.request.content_type() {
        "application/yaml" => {
            return yaml(body).map_err(|error| {
                StatusError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; yaml parse \
                     error: {error}"
                ))
            });
        }
        protobuf::CONTENT_TYPE => {
            let custom = call.kind.custom.is_some() && kind == call.kind.kind;
            return protobuf::read(body, api_version, kind, custom).map_err(|wrong| match wrong {
                protobuf::BodyError::Unrecognized(why) if kind == "DeleteOptions" => StatusError::bad_request(why),
                protobuf::BodyError::Unrecognized(why) => StatusError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                    excerpt(body)
                )),
                protobuf::BodyError::Kind { why, .. } if kind == "DeleteOptions" => StatusError::bad_request(why),
                protobuf::BodyError::Kind { kind: found, version, why } => StatusError::bad_request(format!(
                    "{found} in version {version:?} cannot be handled as a {kind}: {why}"
                )),
            });
        }
        _ => {}
    }
    let unrecognized = |why: String| {
        let why = format!("couldn't get version/kind; json parse error: {why}");
        // Options are decoded on their own.
        if kind == "DeleteOptions" {
            return StatusError::bad_request(why.rsplit_once(" (").map_or(why.as_str(), |(why, _)| why));
        }
        StatusError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
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
        Ok(other) => Err(unrecognized(format!("{} ({})", not_a(&other, HEADER), excerpt(body)))),
        Err(error) => {
            let why = syntax::error(body).unwrap_or_else(|| error.to_string());
            Err(unrecognized(format!("{why} ({})", excerpt(body))))
        }
    }
}

/// An object in YAML, of which JSON is a part.
pub(super) fn yaml(body: &[u8]) -> Result<Value, String> {
    let mut value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(_) => {
            // In the YAML of the real server, `0644` is octal.
            let options = serde_saphyr::options! { legacy_octal_numbers: true };
            serde_saphyr::from_slice_with_options(body, options).map_err(|error| error.to_string())?
        }
    };
    // The real server makes JSON of it first.
    crate::schema::whole_numbers(&mut value);
    if value.is_object() {
        Ok(value)
    } else {
        Err(format!("error unmarshaling JSON: while decoding JSON: {}", not_a(&value, MAP)))
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
) -> Result<(Value, Vec<String>), StatusError> {
    let of = Type { group, version, kind, custom: false, patched: false };
    let mut object = parse(call, &of.api_version(), kind)?;
    of.check(call, &object)?;
    object["apiVersion"] = of.api_version().into();
    object["kind"] = kind.into();
    // A null is the absence of a field.
    drop_nulls(&mut object);
    let mut findings = Findings::default();
    if let Some(name) = crate::schema::published::name_of(group, version, kind) {
        findings = decode::check(&object, Some(name));
        if let Some(error) = findings.error {
            let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
            return Err(StatusError::bad_request(message));
        }
        if let Some(definition) = crate::schema::published::definition(name) {
            drop(crate::schema::prune_builtin(&mut object, definition));
        }
    }
    check_namespace(call, &object)?;
    if let Some(namespace) = call.target.namespace.as_deref().filter(|_| call.kind.namespaced) {
        meta::of(&mut object).insert("namespace".into(), namespace.into());
    }
    of.report(findings.strict, validation).map(|warnings| (object, warnings))
}

/// Holds an object against the kind: names, metadata, and for custom kinds the schema.
fn admit(
    call: &Call<'_>,
    of: Type<'_>,
    mut object: Value,
    findings: Findings,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), StatusError> {
    let kind = &call.kind;
    of.check(call, &object)?;
    // A custom object of another type is refused when it is validated.
    if kind.custom.is_none() {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.as_str().into();
    }
    if let Some(error) = findings.error {
        let (version, kind) = (&kind.version, &kind.kind);
        let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
        return Err(StatusError::bad_request(message));
    }
    let mut strict = findings.strict;
    let unknown = meta::normalize(kind, &mut object)?;
    match &kind.custom {
        Some(_) if object["kind"] != kind.kind.as_str() || object["apiVersion"] != kind.api_version().as_str() => {
            let unknown = without_schema(call, &mut object).into_iter();
            strict.extend(unknown.map(|field| format!("unknown field \"{field}\"")));
        }
        Some(definition) => {
            let mut unknown = unknown;
            let pruned = definition.prune(&mut object);
            // The real server validates the nulls of an apply, and does not warn about pruned fields.
            if call.request.content_type() != "application/apply-patch+yaml" {
                unknown.extend(pruned);
                definition.drop_nulls(&mut object);
            }
            strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
            definition.fill_defaults(&mut object);
        }
        None => {
            normalize_data(kind, &mut object);
            let empty = empty_data(kind, &object);
            // The dropped fields were already reported.
            drop(crate::schema::prune_builtin(&mut object, &kind.typed().definition));
            defaults::decode(kind, &mut object);
            // The data of a Secret may have come from strings by now.
            if let Some(field) = empty.filter(|field| object[*field].is_null()) {
                object[field] = serde_json::json!({});
            }
        }
    }
    of.report(strict, validation).map(|warnings| (object, warnings))
}

/// Prunes a custom object whose version does not exist. What is of another group or kind stays as it is.
fn without_schema(call: &Call<'_>, object: &mut Value) -> Vec<String> {
    let kind = &call.kind;
    let version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let is_of_kind = split_group_version(&version).0 == kind.group && object["kind"] == kind.kind.as_str();
    let Some(fields) = object.as_object_mut().filter(|_| is_of_kind) else { return Vec::new() };
    if call.cluster.kinds().of(&version, &kind.kind).is_some() {
        return Vec::new();
    }
    let known = ["apiVersion", "kind", "metadata"];
    let unknown: Vec<_> = fields.keys().filter(|field| !known.contains(&field.as_str())).cloned().collect();
    fields.retain(|field, _| known.contains(&field.as_str()));
    unknown
}

/// The namespace of the body, if there is one, is that of the path.
pub(super) fn check_namespace(call: &Call<'_>, object: &Value) -> Result<(), StatusError> {
    let found = meta::text(object, "namespace");
    let wanted = call.target.namespace.as_deref().unwrap_or_default();
    if !found.is_empty() && found != wanted && call.kind.namespaced {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The data of ConfigMaps and Secrets: null is an empty string, and base64 has one form.
fn normalize_data(kind: &Kind, object: &mut Value) {
    let Some(encoded) = registry::of(kind).encoded_data() else { return };
    let Value::Object(object) = object else { return };
    for field in ["data", "binaryData", "stringData"] {
        let Some(Value::Object(entries)) = object.get_mut(field) else { continue };
        for value in entries.values_mut() {
            match value {
                Value::Null => *value = "".into(),
                Value::String(text) if field == encoded => canonicalize(text),
                _ => {}
            }
        }
    }
}

/// Re-encodes base64 that was accepted leniently: removes line breaks and clears unused bits.
fn canonicalize(text: &mut String) {
    if let Some(bytes) = cel::bytes(text) {
        *text = STANDARD.encode(bytes);
    }
}

/// The data that a client has sent empty, which is not absent until it is stored. Of the texts of a ConfigMap it is.
fn empty_data(kind: &Kind, object: &Value) -> Option<&'static str> {
    let is_empty = |field: &&str| object[*field].as_object().is_some_and(serde_json::Map::is_empty);
    registry::of(kind).encoded_data().filter(is_empty)
}

/// Leaves out the data that a client has sent empty. The answer is what was left out.
pub(super) fn drop_empty_data(kind: &Kind, object: &mut Value) -> Option<&'static str> {
    let empty = empty_data(kind, object)?;
    if let Value::Object(object) = object {
        object.remove(empty);
    }
    Some(empty)
}

/// Why something cannot be handled as a kind, without the words that say so.
pub(super) fn reason<'a>(refusal: &'a StatusError, kind: &str) -> &'a str {
    let before = format!("cannot be handled as a {kind}: ");
    refusal.message().split_once(&before).map_or(refusal.message(), |(_, why)| why)
}

/// Why what a patch leads to is not of the type of a subresource.
pub(super) fn misfit(call: &Call<'_>, object: &Value, (group, version, kind): (&str, &str, &str)) -> Option<String> {
    let of = Type { group, version, kind, custom: false, patched: true };
    if let Err(refusal) = of.check(call, object) {
        return Some(reason(&refusal, kind).to_owned());
    }
    decode::check(object, crate::schema::published::name_of(group, version, kind)).error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{canonicalize, yaml};

    #[test]
    fn the_mode_of_a_file_is_octal_in_yaml() {
        let modes = yaml(b"defaultMode: 0644\nmode: 420\ntext: \"0644\"\n");
        assert_eq!(modes, Ok(json!({"defaultMode": 420, "mode": 420, "text": "0644"})));
    }

    #[test]
    fn lenient_base64_gets_one_form() {
        assert_eq!(
            ["", "YQ==", "Y\nR==", "YWJ=", "YWJj", "YWJj\r\nYQ=="].map(|text| {
                let mut text = text.to_owned();
                canonicalize(&mut text);
                text
            }),
            ["", "YQ==", "YQ==", "YWI=", "YWJj", "YWJjYQ=="]
        );
    }
}
