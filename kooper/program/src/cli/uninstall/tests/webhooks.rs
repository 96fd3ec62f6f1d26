use std::sync::{Arc, Mutex};

use http::Request;
use kooper_webhooks::{FailurePolicy, Webhook};
use kube::client::Body;

use super::*;
use crate::cli::app::App;
use crate::cli::args::Settings;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Uninstalls a program with a webhook, from a server that responds with these codes to a request, by its method and the
/// number of earlier ones like it. Returns the requests that change something, and the end of the command.
fn uninstalled(code: impl Fn(&Method, usize) -> u16 + Send + 'static) -> (Vec<String>, Result<(), BoxError>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let earlier = Arc::clone(&requests);
    let answer = move |request: &Request<Body>| {
        let (method, path) = (request.method(), request.uri().path());
        let line = format!("{method} {path}");
        let mut earlier = earlier.lock().expect("the requests");
        let code = code(method, earlier.iter().filter(|one| **one == line).count());
        earlier.push(line);
        let metadata = json!({
            "name": "shop", "uid": "1", "resourceVersion": "7", "labels": {"kooper.rs/installation": "shop"},
        });
        match code {
            200 if path.ends_with("/pods") => {
                (200, json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}))
            }
            200 => (200, json!({"metadata": metadata, "spec": {}})),
            code => responses::rejection(code, "no"),
        }
    };
    let app = App::new("shop", "1.0.0").webhook(|| {
        let webhook = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Ignore);
        webhook.function(async |_: Arc<ConfigMap>| ())
    });
    let invocation = Invocation { app: &app, settings: Settings::default() };
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let ended = runtime.block_on(async {
        let client = responses::client("default", answer);
        let other = client.clone();
        let connection = Connection {
            client: client.clone(),
            lease_client: client.clone(),
            another: Arc::new(move || Ok(other.clone())),
            in_pod: false,
            server: String::new(),
        };
        let place = Place::shop(None, "default");
        let uninstall = Uninstall {
            client,
            connection: &connection,
            place,
            near: BTreeSet::new(),
            invocation: &invocation,
            chosen: &invocation.settings.uninstall,
            deadline: Instant::now() + invocation.settings.uninstall.timeout,
            runtime: &runtime,
            interrupted: CancellationToken::new(),
        };
        uninstall.everything(&[], Prometheus::new(&Registry::new())?).await
    });
    let mut requests = std::mem::take(&mut *requests.lock().expect("the requests"));
    requests.retain(|request| !request.starts_with("GET "));
    (requests, ended)
}

#[test]
fn each_request_of_a_program_with_webhooks_is_repeated_after_an_error_that_may_pass() {
    let (requests, ended) = uninstalled(|_, earlier| if earlier == 0 { 503 } else { 200 });
    ended.expect("each request succeeds the second time");
    let expected = [
        "DELETE /api/v1/namespaces/default/secrets/shop--webhook-ca".to_owned(),
        format!("DELETE {CONFIGURATIONS}/mutatingwebhookconfigurations/shop--webhooks.default"),
        format!("DELETE {CONFIGURATIONS}/validatingwebhookconfigurations/shop--webhooks.default"),
        "DELETE /apis/coordination.k8s.io/v1/namespaces/default/leases/shop--webhooks".to_owned(),
        "PATCH /apis/apps/v1/namespaces/default/deployments/shop/scale".to_owned(),
    ];
    let different: BTreeSet<_> = requests.iter().cloned().collect();
    assert_eq!(different, expected.into(), "{requests:#?}");
}

#[test]
fn the_configurations_are_removed_again_although_the_deployment_cannot_be_stopped() {
    let (requests, ended) = uninstalled(|method, _| if method == Method::PATCH { 403 } else { 200 });
    let error = ended.expect_err("the Deployment is not stopped");
    assert!(matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 403), "{error}");
    let kinds = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
    let [validating, mutating] = kinds.map(|kind| format!("DELETE {CONFIGURATIONS}/{kind}/shop--webhooks.default"));
    let stop = "PATCH /apis/apps/v1/namespaces/default/deployments/shop/scale".to_owned();
    assert_eq!(requests, [validating.clone(), mutating.clone(), stop, validating, mutating]);
}
