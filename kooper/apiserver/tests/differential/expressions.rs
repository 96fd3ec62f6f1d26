//! Expressions of CEL, one by one: each is a rule of a custom resource, and its value is in the message.
//!
//! `expressions.txt` has them, below the object that they read. The real server's answers are kept in
//! `recorded/expressions.jsonl`.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::Step;
use crate::real::Real;
use crate::recorded::place;
use crate::server::{Answer, Server};

/// Number of expressions in each definition.
const CHUNK: usize = 120;
/// Maximum time until a real server serves a new kind.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn expressions(name: &str) -> Vec<String> {
    let text = fs::read_to_string(place(name)).expect("there are expressions");
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(ToOwned::to_owned).collect()
}

/// The schema of what `self` is.
pub(crate) fn schema() -> Value {
    let text = json!({"type": "string", "maxLength": 20});
    let list = |items: Value| json!({"type": "array", "maxItems": 5, "items": items});
    let typed = |kind: &str, extra: Value| {
        let mut list = list(extra);
        list["x-kubernetes-list-type"] = kind.into();
        list
    };
    let port =
        json!({"type": "object", "required": ["name"], "properties": {"name": text, "port": {"type": "integer"}}});
    let mut ports = typed("map", port);
    ports["x-kubernetes-list-map-keys"] = json!(["name"]);
    json!({"type": "object", "properties": {
        "text": text,
        "absent": text,
        "number": {"type": "integer"},
        "double": {"type": "number"},
        "flag": {"type": "boolean"},
        "time": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "duration": {"type": "string", "format": "duration"},
        "bytes": {"type": "string", "format": "byte", "maxLength": 20},
        "either": {"x-kubernetes-int-or-string": true},
        "other": {"x-kubernetes-int-or-string": true},
        "list": list(json!({"type": "integer"})),
        "texts": list(text.clone()),
        "empty": list(json!({"type": "number"})),
        "set": typed("set", text.clone()),
        "reversed": typed("set", text.clone()),
        "ports": ports.clone(),
        "moved": ports,
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "inner": {"type": "object", "properties": {
            "name": text, "a-b": text, "a_b": text, "a__b": text, "a.b": text, "namespace": text, "for": text,
            "none": {"type": "object", "properties": {"value": text}},
        }},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": text}},
    }})
}

fn object() -> Value {
    json!({
        "text": "häuser", "number": 7, "double": 2.5, "flag": true, "time": "2026-02-28T23:30:15.5Z",
        "day": "2024-02-29", "duration": "1h30m", "bytes": "a29vcGVy", "either": 8, "other": "25%",
        "list": [3, 1, 2], "texts": ["b", "a"], "empty": [], "set": ["x", "y"], "reversed": ["y", "x"],
        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
        "moved": [{"name": "b", "port": 2}, {"name": "a", "port": 1}],
        "map": {"one": 1, "two": 2},
        "inner": {"name": "n", "a-b": "dash", "a_b": "one", "a__b": "two", "a.b": "dot", "namespace": "ns", "for": "f"},
        "open": {"known": "k", "unknown": [1]},
    })
}

/// The rule for an expression. It never holds: the message has the value, or the number of the expression.
fn rule(number: usize, expression: &str) -> Value {
    json!({
        "rule": format!("'%s'.format([{expression}]) == 'no value'"),
        "message": format!("#{number}"),
        "messageExpression": format!("'#{number} = %s'.format([{expression}])"),
    })
}

/// The definition of a kind whose objects have this schema of `spec`.
pub(crate) fn definition(kind: &str, spec: &Value) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{kind}s.cel.example")},
        "spec": {
            "group": "cel.example", "scope": "Cluster", "names": {"plural": format!("{kind}s"), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

pub(crate) async fn post(server: &Server, path: &str, body: &Value) -> Answer {
    server.send(&Step::post(path, body.to_string())).await
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The causes of a refusal: the fields and the messages.
pub(crate) fn causes(answer: &Answer) -> Vec<(String, String)> {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
}

/// The number of the rule that a cause is about.
pub(crate) fn rule_of(field: &str) -> Option<usize> {
    field.split("x-kubernetes-validations[").nth(1)?.split(']').next()?.parse().ok()
}

/// Summarizes the error of an expression in one line, because the sources and the names of types
/// differ.
fn refusal(message: &str) -> String {
    // The type of `self` has a number, which is another one each time.
    let named = |part: &str| format!("selfType{}", part.trim_start_matches(|char: char| char.is_ascii_digit()));
    let mut parts = message.split("selfType");
    let first = parts.next().unwrap_or_default().to_owned();
    let message = &parts.map(named).fold(first, |all, part| all + &part);
    let errors = message.split("ERROR: ").skip(1).filter_map(|part| part.lines().next());
    let errors: Vec<_> = errors.map(|line| if line.contains("Syntax error") { "syntax" } else { line }).collect();
    match errors.as_slice() {
        [] => message.rsplit("}: ").next().unwrap_or(message).to_owned(),
        // Where a parser gives up is its own affair.
        [first, ..] if *first == "syntax" => "a syntax error".to_owned(),
        errors => errors.join("; "),
    }
}

/// Returns a server's result for each expression.
async fn answers(server: &Server, expressions: &[String]) -> Vec<String> {
    let mut all = vec![String::new(); expressions.len()];
    for (chunk, start) in (0..expressions.len()).step_by(CHUNK).enumerate() {
        let mut numbers: Vec<_> = (start..expressions.len().min(start + CHUNK)).collect();
        let kind = format!("chunk{chunk}");
        loop {
            let mut spec = schema();
            spec["x-kubernetes-validations"] =
                numbers.iter().map(|number| rule(*number, &expressions[*number])).collect();
            let answer = post(server, DEFINITIONS, &definition(&kind, &spec)).await;
            if answer.status == 201 {
                break;
            }
            let mut refused = Vec::new();
            for (field, message) in causes(&answer) {
                // The sum of the costs, of which the largest have errors of their own.
                if !field.contains("x-kubernetes-validations[") {
                    continue;
                }
                let number = rule_of(&field).and_then(|rule| numbers.get(rule)).copied();
                let number = number.unwrap_or_else(|| panic!("{field}: {message}"));
                all[number] = format!("refused: {}", refusal(&message));
                refused.push(number);
            }
            assert!(!refused.is_empty(), "{}", answer.body);
            numbers.retain(|number| !refused.contains(number));
        }
        for (number, answer) in values(server, &kind, &numbers).await {
            all[number] = answer;
        }
    }
    all
}

/// The values of the expressions of a definition, or why they have none.
async fn values(server: &Server, kind: &str, numbers: &[usize]) -> Vec<(usize, String)> {
    let body = json!({"apiVersion": "cel.example/v1", "kind": kind, "metadata": {"name": "a"}, "spec": object()});
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let answer = loop {
        let answer = post(server, &format!("/apis/cel.example/v1/{kind}s"), &body).await;
        if answer.status != 404 || tokio::time::Instant::now() > deadline {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let causes = causes(&answer);
    let value = |number: usize| {
        let (made, failed) = (format!("#{number} = "), format!(" evaluating rule: #{number}"));
        let found = causes.iter().find_map(|(_, message)| {
            if let Some((_, value)) = message.split_once(&made) {
                return Some(format!("is {value}"));
            }
            let message = message.strip_prefix("Invalid value: \"object\": ")?;
            let other = message.ends_with(&format!("for rule: #{number}"));
            let why = message.strip_suffix(&failed).or_else(|| message.split("': ").next().filter(|_| other));
            why.map(|why| format!("fails: {why}"))
        });
        found.unwrap_or_else(|| "has no value".to_owned())
    };
    numbers.iter().map(|number| (*number, value(*number))).collect()
}

pub(crate) fn compare(expressions: &[String], ours: &[String], theirs: &[String]) {
    let differing: Vec<_> = expressions
        .iter()
        .zip(ours.iter().zip(theirs))
        .filter(|(_, (ours, theirs))| ours != theirs)
        .map(|(expression, (ours, theirs))| format!("{expression}\n    here:  {ours}\n    there: {theirs}"))
        .collect();
    assert!(differing.is_empty(), "{} of {} differ:\n{}", differing.len(), expressions.len(), differing.join("\n"));
}

/// Keeps the real server's answers, if that was asked for.
pub(crate) fn record(name: &str, expressions: &[String], theirs: &[String]) {
    if crate::recording() {
        let line = |(expression, answer)| format!("{}\n", json!([expression, answer]));
        let text: String = expressions.iter().zip(theirs).map(line).collect();
        fs::write(place(&format!("recorded/{name}.jsonl")), text).expect("the answers can be written");
    }
}

/// The recorded expressions, which must be these, and the real server's answers.
pub(crate) fn recorded(name: &str, expressions: &[String]) -> (Vec<String>, Vec<String>) {
    let text = fs::read_to_string(place(&format!("recorded/{name}.jsonl"))).unwrap_or_default();
    let recorded =
        text.lines().map(|line| serde_json::from_str::<(String, String)>(line).expect("a line has two texts"));
    let (known, theirs): (Vec<_>, Vec<_>) = recorded.unzip();
    assert_eq!(known, expressions, "run with KOOPER_RECORD=1 and a real server");
    (known, theirs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_have_the_values_of_a_real_server() {
    let Some(real) = Real::start() else { return };
    let (_running, server) = Server::embedded().await;
    let expressions = expressions("expressions.txt");
    let ours = answers(&server, &expressions).await;
    let theirs = answers(&real.server, &expressions).await;
    record("expressions", &expressions, &theirs);
    compare(&expressions, &ours, &theirs);
}

#[tokio::test]
async fn expressions_have_the_recorded_values() {
    let (known, theirs) = recorded("expressions", &expressions("expressions.txt"));
    let (_running, server) = Server::embedded().await;
    compare(&known, &answers(&server, &known).await, &theirs);
}
