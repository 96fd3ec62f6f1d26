//! Reviews: objects that the API server answers instead of storing them.

use futures_util::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, Request};
use kube::{Client, Resource};
use serde_json::{Value, json};

/// Creates a review of a kind with these fields, and returns its status. With `Api<K>`, the types of all its fields would
/// be compiled into each program.
#[must_use = "nothing is sent until it is polled"]
pub fn review<'a>(client: &'a Client, kind: &'a ApiResource, mut review: Value) -> BoxFuture<'a, kube::Result<Value>> {
    Box::pin(async move {
        review["apiVersion"] = json!(kind.api_version);
        review["kind"] = json!(kind.kind);
        review["metadata"] = json!({});
        let path = Request::new(DynamicObject::url_path(kind, None));
        let request = path.create(&PostParams::default(), review.to_string().into_bytes());
        let reviewed: Value = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(reviewed["status"].clone())
    })
}

/// Returns `true` if this identity has a permission. Every identity may create this review.
pub async fn may(client: &Client, what: ResourceAttributes) -> Result<bool, kube::Error> {
    let what = serde_json::to_value(what).map_err(kube::Error::SerdeError)?;
    let kind = ApiResource::erase::<SelfSubjectAccessReview>(&());
    let status = review(client, &kind, json!({"spec": {"resourceAttributes": what}})).await?;
    Ok(status["allowed"] == true)
}

/// Returns `true` if this identity may get this namespace, and `false` if the review fails.
pub(crate) async fn may_get_namespace(client: &Client, namespace: &str) -> bool {
    let [resource, verb] = ["namespaces", "get"].map(|text| Some(text.to_owned()));
    let name = Some(namespace.to_owned());
    let what = ResourceAttributes { namespace: name.clone(), name, resource, verb, ..Default::default() };
    may(client, what).await.unwrap_or_default()
}
