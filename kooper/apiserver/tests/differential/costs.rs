//! Costs that are estimated for rules, one by one.
//!
//! A message about a rule that costs too much names by which factor. In lists of suitable lengths, each rule costs too
//! much, and the factor has its cost with three digits or more.

use serde_json::{Value, json};

use crate::expressions::{
    DEFINITIONS, causes, compare, definition, expressions, post, record, recorded, rule_of, schema,
};
use crate::real::Real;
use crate::server::Server;

/// Number of expressions in each definition.
const CHUNK: usize = 250;
/// The lengths of lists whose elements have the rules, the longest first.
const LENGTHS: [u64; 8] = [10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

fn all() -> Vec<String> {
    let mut all = expressions("costs.txt");
    all.extend(expressions("expressions.txt"));
    all
}

/// The schema of expressions, and fields whose sizes matter.
fn sizes() -> Value {
    let mut schema = schema();
    let text = json!({"type": "string", "maxLength": 20});
    let list = |items: Value| json!({"type": "array", "items": items});
    let short = |items: Value| json!({"type": "array", "maxItems": 5, "items": items});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let mut deep = object(json!({
        "a": text,
        "b": {"type": "string", "default": "x"},
        "c": short(object(json!({"d": text, "e": short(text.clone())}))),
    }));
    deep["required"] = json!(["a", "b"]);
    let more = json!({
        "long": {"type": "string"},
        "enum": {"type": "string", "enum": ["a", "bcdef"]},
        "limited": {"type": "string", "maxLength": 11, "enum": ["a"]},
        "eitherlim": {"x-kubernetes-int-or-string": true, "maxLength": 9},
        "longs": list(json!({"type": "string"})),
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 7}},
        "deep": {"type": "array", "maxItems": 7, "items": deep},
        "matrix": list(list(list(json!({"type": "integer"})))),
        "objs": list(object(json!({"name": text, "port": {"type": "integer"}}))),
    });
    schema["properties"]
        .as_object_mut()
        .expect("it is an object")
        .extend(more.as_object().cloned().unwrap_or_default());
    schema
}

/// The factors by which the expressions cost too much, in the longest lists for which they are named.
async fn factors(server: &Server, expressions: &[String]) -> Vec<String> {
    let mut all = vec![String::new(); expressions.len()];
    for length in LENGTHS {
        let open: Vec<_> = (0..all.len()).filter(|number| all[*number].is_empty()).collect();
        for numbers in open.chunks(CHUNK) {
            // The size of an expression is a part of the cost of its comparison with itself.
            let rule = |number: &usize| json!({"rule": format!("dyn({0}) == dyn({0})", expressions[*number])});
            let mut item = sizes();
            item["x-kubernetes-validations"] = numbers.iter().map(rule).collect();
            let list = json!({"type": "array", "maxItems": length, "items": item});
            let answer = post(server, &format!("{DEFINITIONS}?dryRun=All"), &definition("cost", &list)).await;
            for (field, message) in causes(&answer) {
                let Some(number) = rule_of(&field).and_then(|rule| numbers.get(rule)) else { continue };
                match message.split_once("estimated rule cost exceeds budget by factor of ") {
                    Some((_, factor)) if !factor.starts_with("more than") => {
                        all[*number] =
                            format!("{} × {length}", factor.split_once(' ').map_or(factor, |(number, _)| number));
                    }
                    Some(_) if length == 1 => all[*number] = "more than 100x × 1".to_owned(),
                    Some(_) => {}
                    // `expressions.txt` compares why.
                    None if message.starts_with("Invalid value") => all[*number] = "is refused".to_owned(),
                    None => {}
                }
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_have_the_costs_of_a_real_server() {
    let Some(real) = Real::start() else { return };
    let (_running, server) = Server::embedded().await;
    let expressions = all();
    let ours = factors(&server, &expressions).await;
    let theirs = factors(&real.server, &expressions).await;
    record("costs", &expressions, &theirs);
    compare(&expressions, &ours, &theirs);
}

#[tokio::test]
async fn expressions_have_the_recorded_costs() {
    let (known, theirs) = recorded("costs", &all());
    let (_running, server) = Server::embedded().await;
    compare(&known, &factors(&server, &known).await, &theirs);
}
