//! Each test runs the operator on an API server of its own, in the test's process.

use kooper::apiserver::faults::Verb;
use kooper::testing::Cluster;

use super::*;

fn sample() -> {{kind}} {
    let (image, replicas) = ("nginx:stable".to_owned(), 2);
    {{kind}}::new("sample", {{kind}}Spec { image, replicas })
}

fn is_ready(object: &{{kind}}) -> bool {
    let mut conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

#[kooper::test({{kind | snake_case}})]
async fn it_has_a_deployment_and_is_ready_when_its_pods_are(cluster: Cluster) -> Result<()> {
    let object = cluster.create(&sample()).await?;
    cluster.wait("sample", is_ready).await;

    let child: Option<Deployment> = cluster.get("sample").await?;
    let child = child.ok_or("there is no Deployment")?;
    let owner = &child.owner_references()[0].uid;
    assert_eq!(Some(owner), object.uid().as_ref());
    Ok(())
}

#[kooper::test({{kind | snake_case}})]
async fn it_is_cleaned_up_before_it_is_deleted(cluster: Cluster) -> Result<()> {
    let object = cluster.create(&sample()).await?;
    let is_kept = |object: &{{kind}}| object.finalizers() == ["{{group}}/{{project-name}}"];
    cluster.wait("sample", is_kept).await;

    cluster.delete(&object).await?;
    cluster.wait_deleted(&object).await;
    Ok(())
}

#[kooper::test({{kind | snake_case}})]
async fn it_recovers_from_an_error_of_the_server(cluster: Cluster) -> Result<()> {
    let deployments = Verb::Patch.of("deployments");
    let refused = cluster.faults().on(deployments).nth(1).reply(503);
    cluster.create(&sample()).await?;
    cluster.wait("sample", is_ready).await;
    assert_eq!(refused.times(), 1);
    Ok(())
}

/// `KOOPER_HISTORIES=10000 cargo test` runs all histories.
#[kooper::explore({{kind | snake_case}}, states = [sample()], limit = 10)]
async fn whatever_goes_wrong_it_is_what_it_should_be(_: Cluster) {}
