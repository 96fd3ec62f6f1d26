//! The probe: whether the API server reaches the webhooks.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::core::Request;
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
    let response = client.send(request.map(Body::from)).await.map_err(failed)?;
    let status = response.status();
    // The holder may have renewed it meanwhile: the next attempt writes a newer one.
    if !status.is_success() && status != StatusCode::CONFLICT {
        return Err(RegisterError::Refused { name: name.clone(), status });
    }
    let warnings = response.headers().get_all("warning").iter();
    Ok(warnings.filter_map(|one| one.to_str().ok()).any(|one| one.contains(warning(mutates))))
}
