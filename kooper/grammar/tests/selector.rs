//! Label and field selectors.

use kooper_grammar::selector::{FieldSelector, Selector};
use proptest::prelude::*;

fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
    let selector = Selector::parse(selector).expect(selector);
    selector.matches_labels(labels.iter().copied())
}

#[test]
fn selectors_match_as_in_the_api_server() {
    let web = [("app", "web"), ("tier", "edge"), ("size", "3"), ("empty", "")];
    for selector in [
        "",
        " ",
        "app",
        "app=web",
        "app == web",
        "app!=api",
        "app in (web,api)",
        "app notin (api)",
        "none!=x",
        "none notin (x)",
        "!none",
        "size>2",
        "size<4",
        "empty=",
        "empty in (,x)",
        "app=web, tier in ( front , edge )",
        "in!=notin",
        "example.com/app notin (in)",
    ] {
        assert!(selects(selector, &web), "{selector}");
    }
    for selector in [
        "none",
        "app=api",
        "app!=web",
        "app in (api)",
        "app notin (web,api)",
        "!app",
        "size>3",
        "app>1",
        "none<1",
        "none=",
    ] {
        assert!(!selects(selector, &web), "{selector}");
    }
}

#[test]
fn selectors_have_one_canonical_form() {
    for (text, written) in [
        ("b == c ,a", "a,b=c"),
        ("x notin (b,a,b)", "x notin (a,b)"),
        ("x in (a)", "x=a"),
        ("x notin (a)", "x!=a"),
        ("a,a", "a"),
        ("! a", "!a"),
    ] {
        assert_eq!(Selector::parse(text).expect(text).to_string(), written);
    }
}

#[test]
fn errors_name_the_problem_and_what_to_write() {
    for (text, message) in [
        ("a,", "the selector \"a,\" ends too early: expected a label key"),
        ("a in", "the selector \"a in\" ends too early: expected values in parentheses, such as `(a, b)`"),
        ("a in (b", "the selector \"a in (b\" ends too early: expected `,` or `)`"),
        ("a is b", "the selector \"a is b\" has an unexpected `is`: expected `=`, `!=`, `in (…)` or `notin (…)`"),
        ("a=b c", "the selector \"a=b c\" has an unexpected `c`: expected `,` or the end"),
        ("=b", "the selector \"=b\" has an unexpected `=`: expected a label key"),
        ("a>b", "the selector \"a>b\" compares with `b`: write an integer after `>` and `<`"),
        (
            "a=-b",
            "the selector \"a=-b\" is invalid: \"-b\" is not a label value: write letters, digits, `-`, `_` and `.`, \
             beginning and ending with a letter or digit",
        ),
        (
            "/a",
            "the selector \"/a\" is invalid: \"/a\" is not a label key: write a name such as `app` or `example.com/app`",
        ),
    ] {
        assert_eq!(Selector::parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
fn field_selectors_are_parsed_formatted_and_matched() {
    let field = |name: &str| match name {
        "status.phase" => Some("Running"),
        "metadata.name" => Some("a,b=c\\"),
        _ => None,
    };
    for (text, written) in [
        ("status.phase==Running", "status.phase=Running"),
        ("status.phase!=Failed,spec.nodeName=", "spec.nodeName=,status.phase!=Failed"),
        ("metadata.name=a\\,b\\=c\\\\", "metadata.name=a\\,b\\=c\\\\"),
    ] {
        let selector = FieldSelector::parse(text).expect(text);
        assert_eq!(selector.to_string(), written);
        assert!(selector.matches(field), "{text}");
    }
    assert!(!FieldSelector::parse("status.phase!=Running").expect("valid").matches(field));
    for text in ["status.phase", "=x", ",", "a=b,", "a b=c", "a=b=c", "a=\\x", "a=\\"] {
        assert!(FieldSelector::parse(text).is_err(), "{text}");
    }
}

fn requirement() -> impl Strategy<Value = String> {
    let key = "([a-z]{1,4}\\.[a-z]{1,4}/)?[a-zA-Z]([-a-z0-9_.]{0,4}[a-z0-9])?";
    let value = "([a-z0-9]([-a-z0-9_.]{0,3}[a-z0-9])?)?";
    prop_oneof![
        key,
        key.prop_map(|key| format!("!{key}")),
        (key, "==?|!=", value).prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
        (key, "in|notin", prop::collection::vec(value, 1..4))
            .prop_map(|(key, operator, values)| format!("{key} {operator} ({})", values.join(", "))),
        (key, "[<>]", any::<u32>()).prop_map(|(key, operator, bound)| format!("{key} {operator} {bound}")),
    ]
}

proptest! {
    #[test]
    fn a_formatted_selector_is_parsed_to_the_same_one(terms in prop::collection::vec(requirement(), 0..5)) {
        let selector = Selector::parse(&terms.join(",")).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn a_requirement_and_its_negation_share_no_object(
        key in "[a-c]", values in prop::collection::vec("[x-z]", 1..3),
        labels in prop::collection::btree_map("[a-c]", "[x-z]", 0..3),
    ) {
        let values = values.join(",");
        let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        for (one, other) in [
            (format!("{key} in ({values})"), format!("{key} notin ({values})")),
            (key.clone(), format!("!{key}")),
        ] {
            prop_assert_ne!(selects(&one, &labels), selects(&other, &labels));
        }
    }

    #[test]
    fn no_input_makes_the_parser_panic(text in "[a-z=!<>(), ./\\\\-]{0,24}|\\PC*") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
