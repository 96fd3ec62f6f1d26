//! Reviews: objects that the API server answers instead of storing them.

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, Request};
use kube::{Client, Resource};
use serde_json::{Value, json};

/// Creates a review of a kind with these fields, and returns its status. With `Api<K>`, the types of all its fields would
/// be compiled into each program.
pub(crate) async fn review(client: &Client, kind: &ApiResource, mut review: Value) -> kube::Result<Value> {
    review["apiVersion"] = json!(kind.api_version);
    review["kind"] = json!(kind.kind);
    review["metadata"] = json!({});
    let path = Request::new(DynamicObject::url_path(kind, None));
    let request = path.create(&PostParams::default(), review.to_string().into_bytes());
    let reviewed: Value = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(reviewed["status"].clone())
}
