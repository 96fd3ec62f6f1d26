//! The Go types that values are decoded into, from published schemas.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::schema::published;

/// Name of the Go type of a JSON patch operation, and of its definition here.
const OPERATION: &str = "handlers.jsonPatchOp";
static OPERATIONS: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    json!({"items": {"$ref": OPERATION}, "properties": {"op": text, "path": text, "from": text, "value": true}})
});

/// The members of a struct.
pub(super) fn properties(of: &str) -> Option<&'static Map<String, Value>> {
    let definition = if of == OPERATION { Some(&*OPERATIONS) } else { published::definition(of) };
    definition?["properties"].as_object()
}

/// Type that a value is decoded into.
#[derive(Clone)]
pub(super) enum Expected {
    /// Anything, which is kept as it is: nothing is looked for.
    Raw,
    /// Anything, in which no field comes twice.
    Free,
    Typed {
        of: ExpectedType,
        go: String,
    },
}

#[derive(Clone, Copy)]
pub(super) enum ExpectedType {
    Struct(&'static str),
    List(&'static Value),
    Map(&'static Value),
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Float,
    Time { micros: bool },
    Quantity,
    IntOrString,
}

impl Expected {
    /// The operations of a JSON patch.
    pub(super) fn operations() -> Self {
        Self::Typed { of: ExpectedType::List(&OPERATIONS["items"]), go: format!("[]{OPERATION}") }
    }

    /// Returns the type that a published schema describes. `go` is the name of the Go type, if it
    /// has another one.
    pub(super) fn of(schema: &'static Value, go: Option<String>) -> Self {
        if *schema == Value::Bool(true) {
            return Self::Free;
        }
        let (of, plain) = match published::reference(schema) {
            Some(OPERATION) => (ExpectedType::Struct(OPERATION), OPERATION.to_owned()),
            Some(name) => match published::definition_named(name) {
                Some((name, definition)) => match name.rsplit('.').next().unwrap_or_default() {
                    "Time" => (ExpectedType::Time { micros: false }, "string".to_owned()),
                    "MicroTime" => (ExpectedType::Time { micros: true }, "string".to_owned()),
                    "Quantity" => (ExpectedType::Quantity, "resource.Quantity".to_owned()),
                    "IntOrString" => (ExpectedType::IntOrString, "int32".to_owned()),
                    _ if definition.get("properties").is_none() => return Self::Raw,
                    _ => (ExpectedType::Struct(name), published::go_name(name)),
                },
                None => return Self::Raw,
            },
            None => match (schema["type"].as_str(), schema["format"].as_str()) {
                (Some("string"), Some("byte")) => (ExpectedType::Bytes, "[]uint8".to_owned()),
                (Some("string"), _) => (ExpectedType::Text, "string".to_owned()),
                (Some("boolean"), _) => (ExpectedType::Bool, "bool".to_owned()),
                (Some("integer"), Some("int32")) => (ExpectedType::Int32, "int32".to_owned()),
                (Some("integer"), _) => (ExpectedType::Int64, "int64".to_owned()),
                (Some("number"), _) => (ExpectedType::Float, "float64".to_owned()),
                (Some("array"), _) => {
                    let item = &schema["items"];
                    (ExpectedType::List(item), format!("[]{}", Self::of(item, None).go()))
                }
                (Some("object"), _) if schema["additionalProperties"].is_object() => {
                    let item = &schema["additionalProperties"];
                    (ExpectedType::Map(item), format!("map[string]{}", Self::of(item, None).go()))
                }
                _ => return Self::Raw,
            },
        };
        Self::Typed { of, go: go.unwrap_or(plain) }
    }

    pub(super) fn go(&self) -> &str {
        match self {
            Self::Typed { go, .. } => go,
            _ => "interface {}",
        }
    }
}
