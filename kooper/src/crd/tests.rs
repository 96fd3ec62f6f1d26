use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::*;

fn crd_of(versions: &Value) -> CustomResourceDefinition {
    let crd = json!({
        "metadata": {"name": "gadgets.crd.example.com"},
        "spec": {
            "group": "crd.example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": versions
        },
    });
    serde_json::from_value(crd).expect("a CRD")
}

fn version(name: &str, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn object(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}})
}

fn crd(schema: &Value) -> CustomResourceDefinition {
    crd_of(&json!([version("v1", true, schema)]))
}

fn stored(mut crd: CustomResourceDefinition, versions: &[&str]) -> CustomResourceDefinition {
    crd.status.get_or_insert_default().stored_versions = Some(versions.iter().map(|one| (*one).to_owned()).collect());
    crd
}

/// What is said of a change of the field `spec.a`, less its name.
fn said(old: &Value, new: &Value) -> Vec<String> {
    let changes = breaking::changes(&crd(&object(old)), &crd(&object(new)));
    changes.iter().map(|change| change.replace("`spec.a", "`").replace("`` (v1) ", "")).collect()
}

#[test]
fn what_tightens_a_schema_is_told_with_its_field() {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let map = |of: Value| json!({"type": "object", "additionalProperties": of});
    let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let with = |mut schema: Value, field: &str, value: Value| {
        schema[field] = value;
        schema
    };
    let list = |of: Value| json!({"type": "array", "items": of});
    let fields = |of: Value| json!({"type": "object", "properties": of});
    for (old, new, expected) in [
        (text(), number(), "changes its type from string to integer"),
        (json!({"type": "number"}), number(), "changes its type from number to integer"),
        (json!({"x-kubernetes-int-or-string": true}), text(), "changes its type from integer or string to string"),
        (with(text(), "nullable", json!(true)), text(), "may not be null any more"),
        (text(), with(text(), "enum", json!(["x"])), "is limited to an `enum`"),
        (with(text(), "enum", json!(["x", "y"])), with(text(), "enum", json!(["x"])), "may not be \"y\" any more"),
        (number(), with(number(), "minimum", json!(0)), "gets a `minimum` of 0"),
        (with(number(), "minimum", json!(1)), with(number(), "minimum", json!(2)), "changes its `minimum` from 1 to 2"),
        (with(number(), "maximum", json!(2)), with(number(), "maximum", json!(1)), "changes its `maximum` from 2 to 1"),
        (text(), with(text(), "maxLength", json!(3)), "gets a `maxLength` of 3"),
        (text(), with(text(), "minLength", json!(1)), "gets a `minLength` of 1"),
        (list(text()), with(list(text()), "maxItems", json!(3)), "gets a `maxItems` of 3"),
        (map(text()), with(map(text()), "minProperties", json!(1)), "gets a `minProperties` of 1"),
        (text(), with(text(), "pattern", json!("^a")), "gets a `pattern`: \"^a\""),
        (
            with(text(), "pattern", json!("^a")),
            with(text(), "pattern", json!("^b")),
            "changes its `pattern` from \"^a\" to \"^b\"",
        ),
        (text(), with(text(), "format", json!("date-time")), "gets a `format`: date-time"),
        (
            with(number(), "format", json!("int64")),
            with(number(), "format", json!("int32")),
            "changes its `format` from int64 to int32",
        ),
        (number(), with(number(), "exclusiveMinimum", json!(true)), "gets `exclusiveMinimum`"),
        (
            list(text()),
            with(list(text()), "x-kubernetes-list-type", json!("set")),
            "becomes a list of type set, without duplicates",
        ),
        (list(text()), list(number()), "`[]` (v1) changes its type from string to integer"),
        (map(text()), map(number()), "`.*` (v1) changes its type from string to integer"),
        (map(text()), fields(json!({"b": text()})), "takes no fields of any name any more"),
        (map(json!(true)), map(text()), "limits the values of its fields"),
        (open(), fields(json!({})), "keeps unknown fields no more"),
        (
            open(),
            with(open(), "properties", json!({"b": text()})),
            "`.b` (v1) may be stored already, and gets a schema",
        ),
        (fields(json!({"b": text()})), fields(json!({})), "`.b` (v1) is removed"),
        (fields(json!({"b": text()})), map(number()), "`.b` (v1) changes its type from string to integer"),
        (
            fields(json!({"b": text()})),
            with(fields(json!({"b": text()})), "required", json!(["b"])),
            "`.b` (v1) becomes required and has no default",
        ),
        (
            text(),
            with(text(), "x-kubernetes-validations", json!([{"rule": "self != ''"}])),
            "gets the validation rule \"self != ''\"",
        ),
        (
            with(open(), "oneOf", json!([{"required": ["a"]}, {"required": ["b"]}])),
            with(open(), "oneOf", json!([{"required": ["a"]}])),
            "loses or changes a choice of its `oneOf`",
        ),
        (text(), with(text(), "allOf", json!([{"minLength": 1}])), "gets a further `allOf`"),
        (text(), with(text(), "not", json!({"minLength": 1})), "gets a `not`: {\"minLength\":1}"),
    ] {
        assert_eq!(said(&old, &new), [expected], "{old} to {new}");
    }
}

#[test]
fn what_only_loosens_a_schema_is_fine() {
    let text = || json!({"type": "string"});
    for (old, new) in [
        (json!({"type": "integer"}), json!({"type": "number"})),
        (json!({"type": "integer", "format": "int32"}), json!({"type": "integer", "format": "int64"})),
        (text(), json!({"x-kubernetes-int-or-string": true})),
        (text(), json!({"type": "string", "nullable": true, "description": "a", "default": "b"})),
        (json!({"type": "string", "enum": ["a"]}), json!({"type": "string", "enum": ["b", "a"]})),
        (json!({"type": "string", "enum": ["a"]}), text()),
        (json!({"type": "string", "pattern": "^a", "maxLength": 3, "minLength": 1}), text()),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 2}),
            json!({"type": "integer", "minimum": 0, "maximum": 3}),
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": text()}}),
            json!({"type": "object", "properties": {"b": text(), "c": text()}}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string", "default": "x"}}}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"type": "object", "properties": {"b": text()}}),
            json!({"type": "object", "additionalProperties": true}),
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}]}),
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ),
        (text(), text()),
    ] {
        assert_eq!(said(&old, &new), Vec::<String>::new(), "{old} to {new}");
    }
}

#[test]
fn a_stored_version_may_not_go_and_another_may() {
    let schema = object(&json!({"type": "string"}));
    let two = json!([version("v1beta1", false, &schema), version("v1", true, &schema)]);
    let one = crd(&schema);
    assert_eq!(breaking::changes(&stored(crd_of(&two), &["v1"]), &one), Vec::<String>::new());
    assert_eq!(
        breaking::changes(&stored(crd_of(&two), &["v1beta1", "v1"]), &one),
        ["the version `v1beta1` goes, and objects are stored in it (`status.storedVersions`)"]
    );
}

#[test]
fn what_is_stored_in_an_old_version_is_read_as_the_new_one() {
    let (old, new) = (object(&json!({"type": "string"})), object(&json!({"type": "integer"})));
    let two = json!([version("v1", false, &old), version("v2", true, &new)]);
    let changes = breaking::changes(&stored(crd(&old), &["v1"]), &crd_of(&two));
    assert_eq!(changes, ["`spec.a` (v1 as v2) changes its type from string to integer"]);
    let mut converted = crd_of(&two);
    converted.spec.conversion.get_or_insert_default().strategy = "Webhook".to_owned();
    assert_eq!(breaking::changes(&crd(&old), &converted), Vec::<String>::new());
}

#[test]
fn names_and_scope_stay() {
    let old = crd(&object(&json!({})));
    let mut new = old.clone();
    new.spec.scope = "Cluster".to_owned();
    new.spec.names.kind = "Widget".to_owned();
    assert_eq!(
        breaking::changes(&old, &new),
        ["`scope` changes from Namespaced to Cluster", "`names.kind` changes from Gadget to Widget"]
    );
}

#[test]
fn of_many_changes_the_first_are_told() {
    let fields: serde_json::Map<_, _> = ('a'..='h').map(|name| (name.to_string(), json!({"type": "string"}))).collect();
    let told = said(&json!({"type": "object", "properties": fields}), &json!({"type": "object"}));
    assert_eq!((told.len(), told.last().map(String::as_str)), (6, Some("and 3 more")));
}

#[test]
fn what_the_server_fills_in_or_leaves_out_is_no_difference() {
    let schema = object(&json!({"type": "integer", "minimum": 0}));
    let mut ours = crd(&schema);
    ours.spec.names.short_names = Some(Vec::new());
    ours.spec.versions[0].additional_printer_columns = Some(Vec::new());
    let mut theirs = crd(&schema);
    theirs.spec.names.list_kind = Some("GadgetList".to_owned());
    theirs.spec.names.singular = Some("gadget".to_owned());
    theirs.spec.conversion.get_or_insert_default().strategy = "None".to_owned();
    theirs.annotations_mut().insert("somebody".to_owned(), "else".to_owned());
    assert!(same(&ours, &theirs));
    theirs.spec.names.short_names = Some(vec!["g".to_owned()]);
    assert!(!same(&ours, &theirs));
}

#[test]
fn a_crd_carries_its_version_and_a_hash_that_only_its_content_changes() {
    let annotation = |crd: &CustomResourceDefinition, name: &str| crd.annotations()[name].clone();
    let one = annotated(crd(&object(&json!({"type": "integer"}))), "1.2.3");
    assert_eq!(annotation(&one, VERSION), "1.2.3");
    let again = annotated(one.clone(), "1.2.4");
    assert_eq!(annotation(&one, "kooper.rs/schema-hash"), annotation(&again, "kooper.rs/schema-hash"));
    assert_eq!(annotation(&one, "kooper.rs/schema-hash").len(), 16);
    let other = annotated(crd(&object(&json!({"type": "number"}))), "1.2.3");
    assert_ne!(annotation(&one, "kooper.rs/schema-hash"), annotation(&other, "kooper.rs/schema-hash"));
}

#[test]
fn versions_are_ordered_as_semantic_versioning_does() {
    let order =
        ["0.0.0", "0.9.12", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.1", "v2"];
    for (at, older) in order.iter().enumerate() {
        for newer in &order[at + 1..] {
            assert!(is_newer(newer, older) && !is_newer(older, newer), "{older} < {newer}");
        }
    }
    assert!(!is_newer("1.0", "1.0.0+build"));
    assert!(!is_newer("latest", "1.0.0") && !is_newer("1.0.0", "latest"));
}

#[test]
fn names_that_are_taken_are_no_matter_of_waiting() {
    let of = |conditions: Value| {
        let mut one = crd(&object(&json!({})));
        one.status.get_or_insert_default().conditions = serde_json::from_value(conditions).expect("conditions");
        let mut last = String::new();
        let ready = state(&one, &mut last).map(|state| matches!(state, State::Ready));
        (ready, last)
    };
    let accepted = json!({"type": "NamesAccepted", "status": "True", "message": "no conflicts found"});
    let installing =
        json!({"type": "Established", "status": "False", "message": "the initial names have been accepted"});
    let established = json!({"type": "Established", "status": "True"});
    let taken = json!({"type": "NamesAccepted", "status": "False", "message": "\"gadgets\" is already in use"});
    assert_eq!(of(json!([])), (Ok(false), String::new()));
    assert_eq!(of(json!([accepted, installing])), (Ok(false), "the initial names have been accepted".to_owned()));
    assert_eq!(of(json!([accepted, established])), (Ok(true), String::new()));
    let error = of(json!([taken, installing])).0.expect_err("it never gets the name");
    assert!(error.starts_with("\"gadgets\" is already in use: delete the other CRD"), "{error}");
}

#[test]
fn types_of_several_versions_share_a_crd() {
    let of = |name: &str| crd_of(&json!([version(name, true, &object(&json!({"type": "string"})))]));
    let merged = merged(["v1beta1", "v2", "v1", "v2", "v2alpha1"].map(of));
    let versions = &merged["gadgets.crd.example.com"].spec.versions;
    let told: Vec<_> = versions.iter().map(|version| (&*version.name, version.storage)).collect();
    assert_eq!(told, [("v2", true), ("v1", false), ("v1beta1", false), ("v2alpha1", false)]);
}

/// A server that has a CRD, about which it never says anything more.
fn silent(there: &CustomResourceDefinition) -> Client {
    let mut there = serde_json::to_value(there).expect("JSON");
    there["metadata"]["resourceVersion"] = json!("1");
    let answer = move |request: http::Request<kube::client::Body>| {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = there.to_string();
        async move {
            if watches {
                std::future::pending::<()>().await;
            }
            Ok::<_, crate::BoxError>(http::Response::new(kube::client::Body::from(body.into_bytes())))
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_is_never_established_is_told_in_the_end() {
    let ours = crd(&object(&json!({"type": "string"})));
    let mut there = annotated(ours.clone(), "1.0.0");
    let installing = json!([{"type": "Established", "status": "False", "message": "not yet"}]);
    there.status.get_or_insert_default().conditions = serde_json::from_value(installing).expect("conditions");
    let began = tokio::time::Instant::now();
    let error = Installer::new("shop", "1.0.0", []).install(&silent(&there), ours).await.expect_err("it never is");
    assert_eq!(error.to_string(), "the CRD `gadgets.crd.example.com` is not established: not within 30 s: not yet");
    assert_eq!(began.elapsed(), PATIENCE);
}

/// A server without a CRD, which takes a second for each request and establishes a CRD at once; `most` is how many
/// requests it has had at the same time.
fn slow(most: &Arc<AtomicUsize>) -> Client {
    let (most, now) = (most.clone(), Arc::new(AtomicUsize::new(0)));
    let answer = move |request: http::Request<kube::client::Body>| {
        let (most, now) = (most.clone(), now.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let (code, body) = if request.method() == http::Method::GET {
                (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": ""}))
            } else {
                let mut made = serde_json::to_value(crd(&json!({"type": "string"})))?;
                let is = |condition: &str| json!({"type": condition, "status": "True"});
                made["status"] = json!({"conditions": [is("NamesAccepted"), is("Established")]});
                (200, made)
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            Ok::<_, crate::BoxError>(http::Response::builder().status(code).body(body)?)
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn several_crds_are_applied_at_once_up_to_a_limit() {
    let most = Arc::new(AtomicUsize::new(0));
    let (client, installer) = (slow(&most), Installer::new("shop", "1.0.0", []));
    let installs = (0..AT_A_TIME + 2).map(|number| {
        let mut crd = crd(&json!({"type": "string"}));
        crd.metadata.name = Some(format!("gadgets-{number}.crd.example.com"));
        installer.install(&client, crd)
    });
    for installed in join_all(installs).await {
        installed.expect("it is installed");
    }
    assert_eq!(most.load(Ordering::SeqCst), AT_A_TIME);
}
