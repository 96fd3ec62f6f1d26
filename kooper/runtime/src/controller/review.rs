//! Access reviews: the permissions of this identity.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

/// Returns `true` if this identity has a permission. Every identity may create this review.
pub async fn may(client: &Client, what: ResourceAttributes) -> Result<bool, kube::Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(what), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Returns `true` if this identity may get this namespace, and `false` if the review fails.
pub(crate) async fn may_get_namespace(client: &Client, namespace: &str) -> bool {
    let [resource, verb] = ["namespaces", "get"].map(|text| Some(text.to_owned()));
    let name = Some(namespace.to_owned());
    let what = ResourceAttributes { namespace: name.clone(), name, resource, verb, ..Default::default() };
    may(client, what).await.unwrap_or_default()
}
