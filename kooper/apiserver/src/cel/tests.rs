//! The limits of this server, which a comparison with a real one cannot show.

use super::{Extent, LIMIT, Program, Type, Value};

fn evaluated(source: &str) -> Result<Value, String> {
    Program::compile(source, &[("self", Type::Int)], &Extent::plain(0, 1))?
        .evaluate(vec![("self".to_owned(), Value::Int(1))])
        .0
}

#[test]
fn what_cannot_be_evaluated_as_the_real_server_does_is_refused() {
    for source in [
        "timestamp('2023-01-01T00:00:00Z').getHours('Europe/Berlin')",
        "google.protobuf.Duration{seconds: 1}",
        r"'a'.matches('\\C')",
        "'a-b'.matches('[a--b]')",
    ] {
        let why = evaluated(source).map(drop).unwrap_err();
        assert!(why.contains(LIMIT), "{source}: {why}");
    }
}

#[test]
fn an_expression_that_would_run_for_ever_is_cancelled() {
    let numbers = "lists.range(2000)";
    let why = evaluated(&format!("{numbers}.all(a, {numbers}.all(b, a + b + self > 0))")).map(drop).unwrap_err();
    assert_eq!(why, "operation cancelled: actual cost limit exceeded");
}

#[test]
fn a_thousand_terms_are_no_deep_tree() {
    let terms = vec!["self == 1"; 1_000].join(" && ");
    assert_eq!(evaluated(&terms), Ok(Value::Bool(true)));
}
