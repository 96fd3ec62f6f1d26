//! Names.

use kooper_grammar::name::{finalizer, kebab, label, label_value, object, qualified, subdomain};
use proptest::prelude::*;

#[test]
fn labels_are_checked() {
    let longest = "a".repeat(63);
    for good in ["a", "0", "echo-pod", "a--b", longest.as_str()] {
        assert_eq!(label(good), Ok(()), "{good}");
    }
    let too_long = "a".repeat(64);
    for bad in ["", "-a", "a-", "Echo", "echo_pod", "echo.pod", "é", too_long.as_str()] {
        assert!(label(bad).is_err(), "{bad}");
    }
}

#[test]
fn subdomains_qualified_names_and_label_values_are_checked() {
    let long_prefix = format!("{}/a", "a.".repeat(127) + "a");
    let long_name = format!("example.com/{}", "a".repeat(64));
    assert!(subdomain("a.b-c.example.com").is_ok());
    assert!(subdomain(&"a".repeat(253)).is_ok() && subdomain(&"a".repeat(254)).is_err());
    assert!(subdomain("a..b").is_err());
    assert!(object("system:node").is_ok() && object("a.b-c").is_ok());
    for bad in ["", ".", "A", "a/b", "a:", &"a".repeat(254)] {
        assert!(object(bad).is_err(), "{bad}");
    }
    assert!(qualified("example.com/App_1.x").is_ok());
    for bad in ["", "/a", "a/", "a/b/c", "Example.com/a", "a b", &long_prefix, &long_name] {
        assert!(qualified(bad).is_err(), "{bad}");
    }
    assert!(label_value("").is_ok());
    assert!(label_value("a_B.c-1").is_ok());
    assert!(label_value("_a").is_err());
}

#[test]
fn finalizers_are_checked() {
    assert_eq!(finalizer("shop.example.com/Clean_up.1"), Ok(()));
    let long_name = format!("example.com/{}", "a".repeat(64));
    for bad in ["", "cleanup", "/a", "a/", "a/b/c", "Example.com/a", "example.com/a b", &long_name] {
        assert!(finalizer(bad).is_err(), "{bad}");
    }
    assert_eq!(
        finalizer("cleanup").map_err(|error| error.to_string()),
        Err("\"cleanup\" is not a finalizer: write your own domain, a slash and a name, such as \
             `shop.example.com/cleanup`"
            .to_owned())
    );
}

#[test]
fn errors_name_the_problem_and_what_to_write() {
    assert_eq!(
        label("Echo").map_err(|error| error.to_string()),
        Err("\"Echo\" is not a DNS label: write lower-case letters, digits and `-`, \
             beginning and ending with a letter or digit"
            .to_owned())
    );
    let long = "a".repeat(64);
    for (checked, form) in [(label(&long), "DNS label"), (qualified(&long), "label key")] {
        assert_eq!(
            checked.map_err(|error| error.to_string()),
            Err(format!("\"{long}\" is too long for a {form}: write at most 63 characters, it has 64"))
        );
    }
    let (before, after) = (format!("{}/app", "a.".repeat(126) + "aa"), format!("example.com/{long}"));
    for (text, side) in [(&before, "253 characters before"), (&after, "63 characters after")] {
        assert_eq!(
            qualified(text).map_err(|error| error.to_string()),
            Err(format!("\"{text}\" is too long for a label key: write at most {side} the `/`"))
        );
    }
}

#[test]
fn identifiers_are_converted_to_kebab_case() {
    for (ident, name) in [
        ("echo", "echo"),
        ("echo_pod", "echo-pod"),
        ("EchoPod", "echo-pod"),
        ("HTTPServer", "http-server"),
        ("r#type", "type"),
        ("__echo__pod_", "echo-pod"),
        ("v1Beta2", "v1-beta2"),
    ] {
        assert_eq!(kebab(ident), name);
    }
}

proptest! {
    #[test]
    fn the_kebab_case_of_an_ascii_identifier_is_a_label(ident in "(r#)?[a-zA-Z][a-zA-Z0-9_]{0,30}") {
        let name = kebab(&ident);
        prop_assert_eq!(label(&name), Ok(()));
        prop_assert_eq!(kebab(&name), name);
    }

    #[test]
    fn a_label_is_a_subdomain_and_a_value(text in "[a-z0-9-]{0,66}") {
        if label(&text).is_ok() {
            prop_assert!(subdomain(&text).is_ok() && label_value(&text).is_ok());
        }
    }
}
