//! Edits of objects that their type writes in another form than the API server.

use kooper::Patcher;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Route", namespaced)]
struct RouteSpec {
    weights: Vec<f64>,
}

#[kooper::test]
async fn an_edit_removes_a_number_that_the_api_server_writes_without_its_fraction(cluster: Cluster) -> Result<()> {
    cluster.install_crd(&<Route as kube::CustomResourceExt>::crd()).await?;
    let route = Arc::new(cluster.create(&Route::new("one", RouteSpec { weights: vec![1.0, 2.5] })).await?);
    let patcher: Patcher<Route> = cluster.arguments(&route).take().await;
    let edited =
        patcher.edit(&ObjectKey::of(&route), |route| route.spec.weights.retain(|weight| *weight > 1.0)).await?;
    assert_eq!(format!("{:?}", edited.spec.weights), "[2.5]");
    Ok(())
}
