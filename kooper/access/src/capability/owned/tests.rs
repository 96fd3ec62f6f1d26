use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{OwnedApplier, owned_by};
use kooper::testing::FakeCluster;
use serde_json::{Value, json};

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret
}

#[tokio::test]
async fn a_child_that_is_a_copy_of_another_object_has_neither_its_uid_nor_its_version() {
    let cluster = FakeCluster::new();
    let mut owner = ConfigMap::default();
    owner.metadata.name = Some("owner".to_owned());
    let owner = cluster.put(&owner).unwrap();
    let source = cluster.put(&secret("source")).unwrap();
    let mut copy = Secret::clone(&source);
    copy.metadata.name = Some("copy".to_owned());
    let secrets: OwnedApplier<Secret> = cluster.arguments(&owner).take();
    secrets.apply_owned(&owner, &copy).await.unwrap();
    let child = cluster.put(&owned_by(&owner, secret("copy")).unwrap()).unwrap();
    secrets.apply_owned(&owner, &copy).await.unwrap();
    // A child that was read is a condition.
    secrets.apply_owned(&owner, &child).await.unwrap();
    let conditions = cluster.sent().into_iter().map(|sent| {
        let metadata = &sent.body["metadata"];
        [metadata["uid"].clone(), metadata["resourceVersion"].clone()]
    });
    let (uid, version) = (json!(child.metadata.uid), json!(child.metadata.resource_version));
    let expected = [[Value::Null, json!("1")], [uid.clone(), Value::Null], [uid, version]];
    assert_eq!(conditions.collect::<Vec<_>>(), expected);
}
