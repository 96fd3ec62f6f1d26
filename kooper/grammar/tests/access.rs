//! RBAC rules, and suggestions for misspelled words.

use kooper_grammar::access::Rule;
use kooper_grammar::suggest::nearest;
use proptest::prelude::*;

fn of(text: &str) -> (String, String, Option<String>, Vec<String>) {
    let rule = Rule::parse(text).expect(text);
    (rule.group, rule.resource, rule.subresource, rule.verbs)
}

#[test]
fn segments_are_distinguished() {
    for (text, group, resource, subresource) in [
        ("pods: get", "", "pods", None),
        ("pods/log: get", "", "pods", Some("log")),
        ("*/scale: update", "", "*", Some("scale")),
        ("apps/deployments: get, patch", "apps", "deployments", None),
        ("apps/deployments/scale: update", "apps", "deployments", Some("scale")),
        ("example.com/shops: *", "example.com", "shops", None),
        ("example.com/*: get", "example.com", "*", None),
        ("certificates.k8s.io/signers: approve, sign", "certificates.k8s.io", "signers", None),
    ] {
        let rule = of(text);
        assert_eq!((rule.0.as_str(), rule.1.as_str(), rule.2.as_deref()), (group, resource, subresource));
    }
    assert_eq!(of("pods:get , list").3, ["get", "list"]);
}

#[test]
fn cluster_scoped_resources_are_known_or_marked() {
    for (text, cluster) in [
        ("pods: get", false),
        ("nodes: get", true),
        ("namespaces/finalize: update", true),
        ("rbac.authorization.k8s.io/clusterroles: get", true),
        ("rbac.authorization.k8s.io/roles: get", false),
        ("example.com/nodes: get", false),
        ("example.com/issuers (cluster): get", true),
        ("example.com/issuers/status(cluster) : get", true),
    ] {
        assert_eq!(Rule::parse(text).expect(text).cluster, cluster, "{text}");
    }
    let marked = Rule::parse("example.com/issuers  (cluster): get").expect("a rule");
    assert_eq!(marked.to_string(), "example.com/issuers (cluster): get");
    assert_eq!(Rule::parse("nodes (cluster): get").expect("a rule").to_string(), "nodes: get");
    assert!(Rule::parse("example.com/issuers (clutser): get").is_err());
}

#[test]
fn errors_name_the_problem_and_what_to_write() {
    for (text, message) in [
        ("pods", "the rule \"pods\" has no verb: write them after a colon, such as \"pods: get, list\""),
        ("pods: ", "the rule \"pods: \" has no verb: write them after a colon, such as \"pods: get, list\""),
        (
            "core/pods: get",
            "the rule \"core/pods: get\" has a name for the core group, which has none: write `pods` alone",
        ),
        (
            "Pod: get",
            "the rule \"Pod: get\" has `Pod`, with a capital: \
             write the resource as the API does, plural and in lower case, such as `pods`",
        ),
        (
            "networking/ingresses: get",
            "the rule \"networking/ingresses: get\" has `networking`, which is no resource of the core group: \
             write its plural, or the whole name of the API group, such as `networking.k8s.io`",
        ),
        (
            "pods/*: get",
            "the rule \"pods/*: get\" has no resource: write \"pods: get\", \"pods/log: get\" \
             or \"apps/deployments: get, patch\"",
        ),
        ("pods: gte", "the rule \"pods: gte\" has the unknown verb `gte`: write `get`"),
        ("pods: lists", "the rule \"pods: lists\" has the unknown verb `lists`: write `list`"),
        (
            "pods: get,",
            "the rule \"pods: get,\" has ``, which is not a verb: \
             write get, list, watch, create, update, patch, delete, deletecollection or *",
        ),
        ("pods: get, get", "the rule \"pods: get, get\" has the verb `get` twice: write it once"),
        (
            "a/b/c/d: get",
            "the rule \"a/b/c/d: get\" has no resource: write \"pods: get\", \"pods/log: get\" \
             or \"apps/deployments: get, patch\"",
        ),
    ] {
        assert_eq!(Rule::parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
fn the_nearest_word_is_suggested() {
    let keys = ["resource", "resync", "retries", "metadata_only", "workers"];
    for (word, meant) in [
        ("resorce", Some("resource")),
        ("metadataOnly", Some("metadata_only")),
        ("metadata-only", Some("metadata_only")),
        ("worker", Some("workers")),
        ("rersync", Some("resync")),
        ("wrokers", Some("workers")),
        ("banana", None),
        ("", None),
    ] {
        assert_eq!(nearest(word, keys), meant, "{word}");
    }
}

proptest! {
    #[test]
    fn a_formatted_rule_is_parsed_to_the_same_one(
        place in "((pods|nodes)(/[a-z]{1,6})?|[a-z]{1,6}|(apps|[a-z]{1,4}\\.io)/[a-z]{1,6}(/[a-z]{1,6})?)( ?\\(cluster\\))?",
        verbs in prop::collection::btree_set("get|list|watch|bind|use|\\*", 1..4),
    ) {
        let verbs: Vec<_> = verbs.into_iter().collect();
        prop_assume!(!place.starts_with("core/"));
        let rule = Rule::parse(&format!("{place}: {}", verbs.join(",")))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
    }

    #[test]
    fn no_input_makes_the_parser_panic(text in "[a-zA-Z/:,.* ]{0,24}|\\PC*") {
        if let Ok(rule) = Rule::parse(&text) {
            prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn a_word_is_nearest_to_itself(words in prop::collection::hash_set("[a-z]{1,8}", 1..6)) {
        for word in &words {
            prop_assert_eq!(nearest(word, words.iter().map(String::as_str)), Some(word.as_str()));
        }
    }
}
