use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use http::Method;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

pub(super) fn crd_of(versions: &Value) -> CustomResourceDefinition {
    let crd = json!({
        "metadata": {"name": "gadgets.crd.example.com"},
        "spec": {
            "group": "crd.example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": versions
        },
    });
    serde_json::from_value(crd).expect("a CRD")
}

pub(super) fn version(name: &str, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

pub(super) fn object(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}})
}

pub(super) fn crd(schema: &Value) -> CustomResourceDefinition {
    crd_of(&json!([version("v1", true, schema)]))
}

fn advice(command: Option<&str>) -> Advice {
    Advice { manager: "my-shop".to_owned(), command: command.map(str::to_owned) }
}

fn installer() -> Installer {
    Installer::new(advice(Some("shop")), "1.0.0", [], Vec::new())
}

fn change(number: usize, allowed_by: AllowedBy) -> breaking::CrdChange {
    breaking::CrdChange { text: format!("`a{number}` is removed"), allowed_by }
}

#[test]
fn a_message_lists_the_first_of_many_fields_and_what_to_do() {
    let many: Vec<_> = (0..8).map(|number| change(number, AllowedBy::Consent)).collect();
    let text = advice(Some("my_shop")).breaking("gadgets.x", "00ff", &many).to_string();
    assert!(text.contains("`a4` is removed; and 3 more; "), "{text}");
    assert!(text.ends_with("start the program with `--allow-crd-change gadgets.x@00ff`"), "{text}");
    let text = advice(None).breaking("gadgets.x", "00ff", &many).to_string();
    assert!(text.ends_with("build the operator with `.allow_crd_change(\"gadgets.x@00ff\")`"), "{text}");
    // Consent does not help if the server rejects the change.
    let text = advice(Some("my_shop")).breaking(
        "gadgets.x",
        "00ff",
        &[change(0, AllowedBy::Consent), change(1, AllowedBy::Migration)],
    );
    assert!(!text.to_string().contains("--allow-crd-change"), "{text}");
}

#[test]
fn the_printed_command_has_the_name_of_the_program_and_the_field_manager() {
    let text = advice(Some("my_shop")).foreign("gadgets.x", "`helm`".to_owned()).to_string();
    let line = "`my_shop crd | kubectl apply --server-side --force-conflicts --field-manager=my-shop -f -`";
    assert!(text.ends_with(line), "{text}");
    let text = advice(None).foreign("gadgets.x", "`helm`".to_owned()).to_string();
    assert!(
        text.ends_with("`kubectl apply --server-side --force-conflicts --field-manager=my-shop -f FILE`"),
        "{text}"
    );
    assert_eq!(advice(Some("my_shop")).by_user(), "`my_shop crd | kubectl apply --server-side -f -`");
}

#[test]
fn defaults_and_omissions_of_the_server_are_not_differences() {
    let schema = object(&json!({"type": "integer", "minimum": 0}));
    let mut ours = crd(&schema);
    ours.spec.names.short_names = Some(Vec::new());
    ours.spec.versions[0].additional_printer_columns = Some(Vec::new());
    let mut theirs = crd(&schema);
    theirs.spec.names.list_kind = Some("GadgetList".to_owned());
    theirs.spec.names.singular = Some("gadget".to_owned());
    theirs.spec.conversion.get_or_insert_default().strategy = "None".to_owned();
    theirs.annotations_mut().insert("example.com/team".to_owned(), "web".to_owned());
    assert!(same(&ours, &theirs));
    theirs.spec.names.short_names = Some(vec!["g".to_owned()]);
    assert!(!same(&ours, &theirs));
}

#[test]
fn zeros_that_the_server_omits_and_numbers_that_it_writes_in_another_form_are_not_differences() {
    let of = |number: Value, column: Value| {
        let schema = object(&json!({"type": "number", "minimum": 0, "default": number, "enum": [number]}));
        let mut version = version("v1", true, &schema);
        version["additionalPrinterColumns"] = json!([column]);
        crd_of(&json!([version]))
    };
    let column = json!({"name": "A", "type": "number", "jsonPath": ".spec.a"});
    let mut zeros = column.clone();
    (zeros["priority"], zeros["description"]) = (json!(0), json!(""));
    let theirs = of(json!(2), column);
    assert!(same(&of(json!(2.0), zeros.clone()), &theirs));
    assert!(!same(&of(json!(2.5), zeros.clone()), &theirs));
    zeros["priority"] = json!(1);
    assert!(!same(&of(json!(2.0), zeros), &theirs));
}

#[test]
fn an_empty_default_is_a_difference_and_a_field_of_this_name_is_none() {
    let of = |default: Value| crd(&object(&json!({"type": "object", "default": default})));
    let all = [Value::Null, json!([]), json!({}), json!({"a": []}), json!({"a": null})].map(of);
    for (at, one) in all.iter().enumerate() {
        assert!(all.iter().enumerate().all(|(other, it)| same(one, it) == (at == other)), "{at}");
    }
    let named = |field: &Value| crd(&json!({"type": "object", "properties": {"default": field}}));
    assert!(same(&named(&json!({"type": "object", "required": []})), &named(&json!({"type": "object"}))));
}

#[test]
fn a_crd_carries_its_version_and_a_hash_that_only_its_content_changes() {
    let annotation = |crd: &CustomResourceDefinition, name: &str| crd.annotations()[name].clone();
    let one = annotated(crd(&object(&json!({"type": "integer"}))), "shop", "1.2.3");
    assert_eq!(annotation(&one, VERSION), "1.2.3");
    let again = annotated(one.clone(), "shop", "1.2.4");
    assert_eq!(annotation(&one, "kooper.rs/schema-hash"), annotation(&again, "kooper.rs/schema-hash"));
    assert_eq!(annotation(&one, "kooper.rs/schema-hash").len(), 16);
    let other = annotated(crd(&object(&json!({"type": "number"}))), "shop", "1.2.3");
    assert_ne!(annotation(&one, "kooper.rs/schema-hash"), annotation(&other, "kooper.rs/schema-hash"));
}

#[test]
fn versions_are_ordered_by_semantic_versioning() {
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
fn a_name_that_is_taken_is_an_error_without_waiting() {
    let of = |conditions: Value| {
        let mut one = crd(&object(&json!({})));
        one.status.get_or_insert_default().conditions = serde_json::from_value(conditions).expect("conditions");
        let mut last = String::new();
        let ready = state(one.status.as_ref(), &mut last);
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

#[tokio::test]
async fn a_crd_that_is_served_is_used_although_an_update_added_a_name_that_is_taken() {
    let ours = crd(&object(&json!({"type": "string"})));
    let mut there = annotated(ours.clone(), "shop", "1.0.0");
    let mut conditions = vec![
        json!({"type": "NamesAccepted", "status": "False", "message": "\"g\" is already in use"}),
        json!({"type": "Established", "status": "True", "message": "the initial names have been accepted"}),
    ];
    for _ in 0..2 {
        conditions.reverse();
        there.status.get_or_insert_default().conditions =
            serde_json::from_value(json!(conditions)).expect("conditions");
        assert_eq!((is_established(&there), taken_names(&there)), (Ok(()), Some("\"g\" is already in use")));
        installer().install(&silent(&there), ours.clone()).await.expect("the API server serves it");
    }
}

#[test]
fn types_of_several_versions_share_a_crd() {
    let of = |name: &str| crd_of(&json!([version(name, true, &object(&json!({"type": "string"})))]));
    let merged = merged(["v1beta1", "v2", "v1", "v2", "v2alpha1"].map(of));
    let versions = &merged["gadgets.crd.example.com"].spec.versions;
    let merged: Vec<_> = versions.iter().map(|version| (&*version.name, version.storage)).collect();
    assert_eq!(merged, [("v2", true), ("v1", false), ("v1beta1", false), ("v2alpha1", false)]);
}

#[test]
fn the_names_of_a_kind_are_those_of_its_stored_version() {
    let of = |version_name: &str| {
        let schema = object(&json!({"type": "string"}));
        let mut crd = crd_of(&json!([version(version_name, true, &schema)]));
        crd.spec.names.short_names = Some(vec![format!("short-{version_name}")]);
        crd
    };
    for versions in [["v1beta1", "v1"], ["v1", "v1beta1"]] {
        let merged = merged(versions.map(of));
        let names = &merged["gadgets.crd.example.com"].spec.names;
        assert_eq!(names.short_names, Some(vec!["short-v1".to_owned()]), "{versions:?}");
    }
}

#[tokio::test]
async fn a_conversion_that_another_client_has_set_is_not_a_difference_and_converts_to_a_new_version() {
    let (old, new) = (object(&json!({"type": "string"})), object(&json!({"type": "integer"})));
    let ours = crd_of(&json!([version("v1", false, &old), version("v2", true, &new)]));
    let installer = installer();
    let plan = async |mut there: CustomResourceDefinition| {
        there.spec.conversion.get_or_insert_default().strategy = "Webhook".to_owned();
        installer.predict(&silent(&there), ours.clone()).await
    };
    let same = plan(ours.clone()).await;
    assert!(matches!(same, Ok(InstallPlan::Keep { .. })), "{same:?}");
    let of_one_version = plan(crd(&old)).await;
    assert!(matches!(of_one_version, Ok(InstallPlan::Replace(_))), "{of_one_version:?}");
}

/// A client of a server that responds with these codes and texts.
fn client<A>(answer: impl Fn(http::Request<Body>) -> A + Send + 'static) -> Client
where
    A: Future<Output = (u16, String)> + Send + 'static,
{
    let server = move |request| {
        let answer = answer(request);
        async move {
            let (code, text) = answer.await;
            http::Response::builder().status(code).body(Body::from(text.into_bytes()))
        }
    };
    Client::new(tower::service_fn(server), "default")
}

fn rejected(code: u16, reason: &str, message: &str) -> (u16, String) {
    let status = json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": message});
    (code, status.to_string())
}

/// A CRD that the server serves, in JSON.
fn established(crd: &CustomResourceDefinition) -> Value {
    let mut crd = serde_json::to_value(crd).expect("JSON");
    let is = |condition: &str| json!({"type": condition, "status": "True"});
    crd["status"] = json!({"conditions": [is("NamesAccepted"), is("Established")]});
    crd
}

/// A server with a CRD that never changes.
fn silent(there: &CustomResourceDefinition) -> Client {
    let mut there = serde_json::to_value(there).expect("JSON");
    there["metadata"]["resourceVersion"] = json!("1");
    client(move |request| {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let crd = there.to_string();
        async move { if watches { pending().await } else { (200, crd) } }
    })
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_is_never_established_is_reported() {
    let ours = crd(&object(&json!({"type": "string"})));
    let mut there = annotated(ours.clone(), "shop", "1.0.0");
    let installing = json!([{"type": "Established", "status": "False", "message": "not yet"}]);
    there.status.get_or_insert_default().conditions = serde_json::from_value(installing).expect("conditions");
    let began = tokio::time::Instant::now();
    let error = installer().install(&silent(&there), ours).await.expect_err("it never is");
    assert_eq!(
        error.to_string(),
        "the CRD `gadgets.crd.example.com` is not established: timed out after 30 s: not yet"
    );
    assert_eq!(began.elapsed(), TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_watched_crd_that_cannot_be_decoded_is_read() {
    let ours = crd(&object(&json!({"type": "string"})));
    let there = serde_json::to_value(annotated(ours.clone(), "shop", "1.0.0")).expect("JSON");
    let reads = Arc::new(AtomicUsize::new(0));
    let client = client(move |request| {
        let mut there = there.clone();
        let text = if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            there["status"] = json!({"conditions": "none"});
            ["MODIFIED", "DELETED"].map(|event| json!({"type": event, "object": there}).to_string()).join("\n")
        } else {
            let established = if reads.fetch_add(1, Ordering::SeqCst) == 0 { "False" } else { "True" };
            there["status"] = json!({"conditions": [{"type": "Established", "status": established}]});
            there.to_string()
        };
        ready((200, text))
    });
    installer().install(&client, ours).await.expect("it is established");
}

/// A server without a CRD that takes a second for each request and establishes a CRD at once; `most` is set to the
/// highest number of concurrent requests.
fn slow(most: &Arc<AtomicUsize>) -> Client {
    let (most, now) = (most.clone(), Arc::new(AtomicUsize::new(0)));
    client(move |request| {
        let (most, now) = (most.clone(), now.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            match *request.method() {
                Method::GET => rejected(404, "NotFound", ""),
                _ => (200, established(&crd(&json!({"type": "string"}))).to_string()),
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn several_crds_are_applied_at_once_up_to_a_limit() {
    let most = Arc::new(AtomicUsize::new(0));
    let (client, installer) = (slow(&most), installer());
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

/// A server of a minor version that has a CRD.
fn of_version(minor: &'static str, there: &CustomResourceDefinition) -> Client {
    let there = established(there);
    client(move |request| {
        let body = match request.uri().path() {
            "/version" => json!({
                "major": "1", "minor": minor, "gitVersion": "", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": ""
            }),
            _ => there.clone(),
        };
        ready((200, body.to_string()))
    })
}

#[tokio::test]
async fn a_restriction_needs_consent_if_the_server_might_not_ratchet() {
    let of = |schema: Value| crd(&object(&schema));
    let (old, new) = (of(json!({"type": "string"})), of(json!({"type": "string", "maxLength": 3})));
    let install = async |minor, allowed: Vec<String>| {
        let installer = Installer::new(advice(Some("shop")), "1.0.0", [], allowed);
        installer.install(&of_version(minor, &old), new.clone()).await.map_err(|error| error.to_string())
    };
    for minor in ["33", "36", "40+"] {
        assert_eq!(install(minor, Vec::new()).await, Ok(()), "{minor}");
    }
    for minor in ["32", "9", "", "x"] {
        let rejected = install(minor, Vec::new()).await.expect_err("it is rejected");
        assert!(rejected.contains("`spec.a` (v1) gets a `maxLength` of 3; "), "{rejected}");
        let consent = rejected.split("--allow-crd-change ").nth(1).and_then(|rest| rest.split('`').next());
        let consent = consent.expect("the flag").to_owned();
        let other = consent.replace("gadgets", "widgets");
        assert!(install(minor, vec![other]).await.is_err());
        assert_eq!(install(minor, vec![consent]).await, Ok(()));
    }
}

#[tokio::test]
async fn a_newer_crd_that_was_applied_meanwhile_is_not_replaced() {
    let of = |version: &str, schema: Value| {
        let mut crd = established(&annotated(crd(&object(&schema)), "my-shop", version));
        crd["metadata"]["resourceVersion"] = version[..1].into();
        crd
    };
    let (old, new) = (of("1.0.0", json!({"type": "string"})), of("3.0.0", json!({"type": "string", "title": "3"})));
    let applied = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let sent = applied.clone();
    let client = client(move |request| {
        let (sent, old, new) = (sent.clone(), old.clone(), new.clone());
        async move {
            if request.method() != Method::PATCH {
                let now = if sent.lock().is_empty() { old } else { new };
                return (200, now.to_string());
            }
            let body = request.into_body().collect_bytes().await.expect("a body");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            sent.lock().push(body["metadata"]["resourceVersion"].clone());
            rejected(409, "Conflict", "")
        }
    });
    let ours = crd(&object(&json!({"type": "string", "title": "2"})));
    Installer::new(advice(Some("shop")), "2.0.0", [], Vec::new()).install(&client, ours).await.expect("it is kept");
    assert_eq!(*applied.lock(), ["1"], "the version that was compared");
}

#[tokio::test]
async fn a_rejection_by_a_webhook_is_not_the_write_of_another_client_whatever_its_code() {
    let applied = Arc::new(AtomicUsize::new(0));
    let sent = applied.clone();
    let client = client(move |request| {
        if request.method() != Method::PATCH {
            return ready(rejected(404, "NotFound", ""));
        }
        sent.fetch_add(1, Ordering::SeqCst);
        let denied = "admission webhook \"crds.example.com\" denied the request: they are frozen";
        ready(rejected(409, "Conflict", denied))
    });
    let ours = crd(&json!({"type": "string"}));
    let error = installer().install(&client, ours).await.expect_err("it is rejected");
    assert!(error.leaves_crd(), "{error}");
    assert_eq!(applied.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn crds_whose_requests_have_no_response_do_not_hold_up_others_for_ever() {
    let (client, ours) = (client(|_| pending()), crd(&json!({"type": "string"})));
    let installer = installer();
    let all = join_all((0..=AT_A_TIME).map(|_| installer.install(&client, ours.clone()))).await;
    for installed in all {
        let error = installed.expect_err("there is no response").to_string();
        assert!(error.contains("it was not compared and applied within 30 s"), "{error}");
    }
}
