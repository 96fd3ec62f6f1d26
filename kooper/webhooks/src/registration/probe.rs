//! The probe: whether the API server reaches the webhooks.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kooper_runtime::internal::error::refusal::is_conflict;
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Error};

use super::{RegisterError, Registration};
use crate::admission::Admission;
use crate::webhook::{FailurePolicy, Webhook};

/// The warning by which the server says that it was reached.
fn warning(mutates: bool) -> &'static str {
    if mutates { "kooper: the mutating webhooks are reached" } else { "kooper: the validating webhooks are reached" }
}

async fn validate(_: Arc<Lease>, request: Admission) {
    request.warn(warning(false));
}

async fn mutate(lease: Lease, request: Admission) -> Lease {
    request.warn(warning(true));
    lease
}

/// The webhooks of both probes, which the server serves beside the others.
pub(crate) fn webhooks() -> [Webhook; 2] {
    [webhook(false), webhook(true)]
}

pub(super) fn webhook(mutates: bool) -> Webhook {
    let operations = [crate::Operation::Update];
    let built = if mutates {
        let builder = Webhook::mutate::<Lease>("probe").failure(FailurePolicy::Ignore).operations(operations);
        builder.function(mutate).build()
    } else {
        let builder = Webhook::validate::<Lease>("probe").failure(FailurePolicy::Ignore).operations(operations);
        builder.function(validate).build()
    };
    #[expect(clippy::expect_used, reason = "its description is constant")]
    built.expect("a webhook")
}

/// Writes the own Lease as a dry run. Returns whether the response has the server's warning.
pub(super) async fn is_reached(
    client: &Client,
    registration: &Registration,
    mutates: bool,
) -> Result<bool, RegisterError> {
    let Registration { namespace, lease: name, .. } = registration;
    let failed = |error| RegisterError::Probe { name: name.clone(), error };
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get(name).await.map_err(failed)?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let body = serde_json::to_vec(&lease).map_err(|error| failed(Error::SerdeError(error)))?;
    let request = Request::new(leases.resource_url()).replace(name, &params, body);
    let request = request.map_err(|error| failed(Error::BuildRequest(error)))?;
    let (head, body) = client.send(request.map(Body::from)).await.map_err(failed)?.into_parts();
    if !head.status.is_success() {
        let body = body.collect_bytes().await.map_err(failed)?;
        match serde_json::from_slice::<Status>(&body) {
            // The holder may have renewed it meanwhile: the next attempt writes a newer one.
            Ok(status) if is_conflict(&status) => {}
            // It has the reason, such as that of another webhook.
            Ok(status) => return Err(failed(Error::Api(Box::new(status)))),
            Err(_) => return Err(RegisterError::Refused { name: name.clone(), status: head.status }),
        }
    }
    let warnings = head.headers.get_all("warning").iter();
    Ok(warnings.filter_map(|one| one.to_str().ok()).any(|one| one.contains(warning(mutates))))
}
