//! The rules of `x-kubernetes-validations`: compiled with the types of the schema, and evaluated for objects.

mod data;
mod declare;
mod evaluate;
mod mistakes;
mod path;
mod ratchet;

use std::collections::BTreeMap;

use serde_json::Value;

use self::declare::{Declared, declare};
pub(crate) use self::mistakes::{Candidate, mistakes};
use self::path::field_path;
use crate::cel::{Extent, Program, Type};

const RULES: &str = "x-kubernetes-validations";

/// The rules of a schema and of what is below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    others: Option<Box<Rules>>,
}

#[derive(Debug)]
struct Rule {
    /// Its message, or its source, by which errors name it.
    name: String,
    program: Result<Program, String>,
    message: String,
    message_program: Option<Program>,
    message_expression: String,
    reason: Option<String>,
    field_path: Option<String>,
    optional_old_self: bool,
}

/// Compiles the rules of a schema; `None` where it has none.
pub(super) fn compile(schema: &Value) -> Option<Rules> {
    Rules::of(schema, true)
}

fn rules_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema[RULES].as_array().into_iter().flatten()
}

/// The variables of a rule.
fn variables(of: &Type, optional_old_self: bool) -> [(&'static str, Type); 2] {
    let old = if optional_old_self { Type::optional(of.clone()) } else { of.clone() };
    [("self", of.clone()), ("oldSelf", old)]
}

fn compiled(source: &str, variables: &[(&str, Type)], extent: &Extent) -> Result<Program, String> {
    let program = Program::compile(source, variables, extent)?;
    if *program.of() == Type::Bool { Ok(program) } else { Err("cel expression must evaluate to a bool".to_owned()) }
}

fn message_program(rule: &Value, variables: &[(&str, Type)], extent: &Extent) -> Option<Result<Program, String>> {
    let source = rule["messageExpression"].as_str().filter(|source| !source.is_empty())?;
    let program = Program::compile(source, variables, extent);
    Some(match program {
        Ok(program) if *program.of() == Type::String => Ok(program),
        Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
        Err(why) => Err(format!("messageExpression {}", why.strip_prefix("program ").unwrap_or(&why))),
    })
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

impl Rule {
    fn of(rule: &Value, schema: &Value, declared: Option<&Declared>) -> Self {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().trim();
        let optional_old_self = rule["optionalOldSelf"] == true;
        let known = declared.map(|declared| (variables(&declared.of, optional_old_self), &declared.extent));
        let missing = || Err("failed to convert to declType for CEL validation rules".to_owned());
        let source = rule["rule"].as_str().unwrap_or_default();
        let name = if text("message").is_empty() { text("rule") } else { text("message") };
        Self {
            name: name.to_owned(),
            program: known.as_ref().map_or_else(missing, |(variables, extent)| compiled(source, variables, extent)),
            message: if text("message").is_empty() { format!("failed rule: {name}") } else { name.to_owned() },
            message_program: known
                .and_then(|(variables, extent)| message_program(rule, &variables, extent))
                .and_then(Result::ok),
            message_expression: rule["messageExpression"].as_str().unwrap_or_default().to_owned(),
            reason: rule["reason"].as_str().map(ToOwned::to_owned),
            field_path: rule["fieldPath"].as_str().and_then(|path| field_path(path, schema)),
            optional_old_self,
        }
    }
}

impl Rules {
    /// The rules of a schema and of what is below it; `root` is whether its values are whole objects.
    fn of(schema: &Value, root: bool) -> Option<Self> {
        let declared = schema.get(RULES).and_then(|_| declare(schema, root));
        let below = |key: &str| {
            let schema = schema.get(key)?;
            Self::of(schema, is_embedded(schema)).map(Box::new)
        };
        let mut properties = BTreeMap::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            properties.extend(Self::of(schema, is_embedded(schema)).map(|rules| (name.clone(), rules)));
        }
        let rules = Self {
            own: rules_of(schema).map(|rule| Rule::of(rule, schema, declared.as_ref())).collect(),
            properties,
            items: below("items"),
            others: below("additionalProperties"),
        };
        let none =
            rules.own.is_empty() && rules.properties.is_empty() && rules.items.is_none() && rules.others.is_none();
        (!none).then_some(rules)
    }
}
