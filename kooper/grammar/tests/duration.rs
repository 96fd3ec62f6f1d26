//! Durations.

use std::time::Duration;

use kooper_grammar::duration::{DurationError, format, parse};
use proptest::prelude::*;

#[test]
fn durations_are_parsed_as_in_go() {
    for (text, nanos) in [
        ("3m", 180_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("100ms", 100_000_000),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("2μs", 2_000),
        ("7ns", 7),
        ("1h1h", 7_200_000_000_000),
        ("1.0000000000000000001s", 1_000_000_000),
        ("9223372036854775807ns", i64::MAX as u64),
    ] {
        assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn errors_name_the_problem_and_what_to_write() {
    for (text, message) in [
        ("", "an empty duration: write a number and a unit, such as \"30s\""),
        ("30", "the duration \"30\" has no unit: write \"30s\" for seconds, \"30m\" for minutes"),
        ("-3m", "the duration \"-3m\" has a sign: write it without, such as \"30s\""),
        ("0s", "the duration \"0s\" is zero: write a longer one, such as \"1s\""),
        ("3 m", "the duration \"3 m\" has a space: write it without, such as \"1h30m\""),
        ("1d", "the duration \"1d\" has the unknown unit `d`: the units are ns, us, ms, s, m and h"),
        (
            "9223372036854775808ns",
            "the duration \"9223372036854775808ns\" is too long: write one shorter than 292 years",
        ),
    ] {
        assert_eq!(parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
    for text in ["m", ".s", "1..s", "3m4", "soon"] {
        let error = parse(text).expect_err(text);
        assert!(matches!(error, DurationError::NotADuration(_) | DurationError::NoUnit(_)), "{error}");
    }
}

#[test]
fn durations_are_formatted_in_the_usual_form() {
    for text in ["3m", "1h30m", "1.5s", "100ms", "2µs", "7ns", "16m40s", "5ms", "1h0.5s"] {
        assert_eq!(parse(text).map(format).as_deref(), Ok(text));
    }
}

proptest! {
    #[test]
    fn a_formatted_duration_is_parsed_to_the_same_one(nanos in 1..=i64::MAX as u64) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(parse(&format(duration)), Ok(duration));
    }

    #[test]
    fn no_input_makes_the_parser_panic(text in "[-+0-9.nuµmshd ]{0,24}|\\PC*") {
        if let Ok(duration) = parse(&text) {
            prop_assert!(duration > Duration::ZERO);
        }
    }
}
