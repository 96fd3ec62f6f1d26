//! Match conditions of webhooks: CEL about a request, which admission evaluates before it calls one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cause::aggregate;
use crate::cel::{self, Extent, Key, Program, Struct, Type};

/// The most that the conditions of one webhook may cost together.
const BUDGET: u64 = 2_500_000;

/// Compiles an expression. The error is that of kube-apiserver. The variable `authorizer` is not known.
pub(crate) fn compile(expression: &str) -> Result<Program, String> {
    let variables = [("object", Type::Dyn), ("oldObject", Type::Dyn), ("request", request())];
    let program = Program::compile(expression, &variables, &Extent::plain(0, 0))?;
    match program.of() {
        Type::Bool => Ok(program),
        other => Err(format!("must evaluate to bool but got {other}")),
    }
}

/// Returns whether a request meets all conditions, in the order of the list. The error lists those that cannot be
/// evaluated, if no other one is false.
pub(crate) fn are_met(conditions: &Value, object: &Value, old: &Value, request: &Value) -> Result<bool, String> {
    let mut errors = Vec::new();
    let mut budget = BUDGET;
    for condition in conditions.as_array().into_iter().flatten() {
        let expression = condition["expression"].as_str().unwrap_or_default();
        let failed = |why: &str| format!("expression '{expression}' resulted in error: {why}");
        let program = match compile(expression.trim()) {
            Ok(program) => program,
            Err(why) => {
                errors.push(failed(&why));
                continue;
            }
        };
        let variables = [("object", object), ("oldObject", old), ("request", request)];
        let (result, cost) = program.evaluate(variables.map(|(name, value)| (name.to_owned(), data(value))).into());
        let Some(left) = budget.checked_sub(cost) else {
            return Err("validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned());
        };
        budget = left;
        match result {
            Ok(cel::Value::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => errors.push(failed(&why)),
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(aggregate(&errors)) }
}

/// The type of the variable `request`.
fn request() -> Type {
    let texts = |name: &str, fields: &[&str]| structure(name, fields.iter().map(|field| (*field, Type::String)));
    let kind = texts("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = texts("kubernetes.GroupVersionResource", &["group", "version", "resource"]);
    let user = structure(
        "kubernetes.UserInfo",
        [
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", Type::list(Type::String)),
            ("extra", Type::map(Type::String, Type::list(Type::String))),
        ],
    );
    let text = |name| (name, Type::String);
    let fields = [
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("userInfo", user),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ];
    let names = ["subResource", "requestSubResource", "name", "namespace", "operation"].map(text);
    structure("kubernetes.AdmissionRequest", fields.into_iter().chain(names))
}

fn structure<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    Type::Struct(Arc::new(Struct { name: name.to_owned(), fields }))
}

/// JSON whose types are known only when it is read.
fn data(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => cel::Value::Int(number),
            None => cel::Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(data).collect::<Vec<_>>().into(),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (Key::String(key.as_str().into()), data(value)));
            cel::Value::Map(Arc::new(entries.collect::<BTreeMap<_, _>>()))
        }
    }
}
