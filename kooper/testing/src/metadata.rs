//! The metadata that the API server gives an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::Inner;
use kooper_runtime::internal::clock;

impl Inner {
    /// Gives an object a new version, and the metadata that it lacks; `before` is the object that it replaces, or `null`.
    pub(super) fn complete(&self, object: &mut Value, (group, resource): (&str, &str), before: &Value) {
        let uid = &object["metadata"]["uid"];
        // Another uid is another object.
        let is_same = uid.is_null() || *uid == before["metadata"]["uid"];
        let before = if is_same { before } else { &Value::Null };
        let known = before["metadata"]["generation"].as_i64();
        let generation = known.map_or(1, |known| known + i64::from(differs(object, before)));
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version();
        let or_new = |field: &str, new: &dyn Fn() -> Value| match &before["metadata"][field] {
            Value::Null => new(),
            known => known.clone(),
        };
        if metadata["uid"].is_null() {
            metadata["uid"] = or_new("uid", &|| self.uid());
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = or_new("creationTimestamp", &|| json!(Time(clock::wall())));
        }
        // An object that was read earlier has a generation that is over.
        let given = metadata["generation"].as_i64();
        if counts_generations(group, resource) && given.is_none_or(|given| known.is_some_and(|known| given <= known)) {
            metadata["generation"] = generation.into();
        }
    }
}

/// Returns whether a change increments `metadata.generation`: one of anything but the metadata and the status, and the
/// mark for deletion.
fn differs(object: &Value, before: &Value) -> bool {
    let counted = |object: &Value| {
        let is_marked = !object["metadata"]["deletionTimestamp"].is_null();
        let mut fields = object.as_object().cloned().unwrap_or_default();
        fields.retain(|field, _| !matches!(field.as_str(), "metadata" | "status"));
        (fields, is_marked)
    };
    counted(object) != counted(before)
}

/// Returns whether the objects of a resource have a generation: all custom resources, and some of the built-in kinds.
fn counts_generations(group: &str, resource: &str) -> bool {
    match group {
        "" => matches!(resource, "pods" | "podtemplates" | "replicationcontrollers"),
        "apps" => resource != "controllerrevisions",
        "autoscaling"
        | "certificates.k8s.io"
        | "coordination.k8s.io"
        | "events.k8s.io"
        | "node.k8s.io"
        | "rbac.authorization.k8s.io"
        | "storage.k8s.io" => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Service;

    use super::*;
    use crate::FakeCluster;
    use kooper::prelude::*;

    fn web(replicas: i32) -> Deployment {
        let mut web = Deployment::default();
        web.metadata.name = Some("web".to_owned());
        scale(&mut web, replicas);
        web
    }

    fn scale(web: &mut Deployment, replicas: i32) {
        web.spec.get_or_insert_default().replicas = Some(replicas);
    }

    fn generation(web: &Deployment) -> Option<i64> {
        web.metadata.generation
    }

    #[test]
    fn an_object_has_a_creation_time_and_a_generation_that_counts_the_changes_of_its_spec() -> Result<()> {
        let cluster = FakeCluster::new();
        let first = cluster.put(&web(1))?;
        let created = first.creation_timestamp();
        assert!(created.is_some() && generation(&first) == Some(1), "{first:?}");

        let mut web = Arc::unwrap_or_clone(first);
        web.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
        web.status.get_or_insert_default().ready_replicas = Some(1);
        assert_eq!(generation(&*cluster.put(&web)?), Some(1), "neither metadata nor status counts");
        scale(&mut web, 2);
        let second = cluster.put(&web)?;
        assert_eq!((generation(&second), second.creation_timestamp()), (Some(2), created));
        web.metadata.deletion_timestamp = Some(Time(clock::wall()));
        assert_eq!(generation(&*cluster.put(&web)?), Some(3), "the mark for deletion does");

        web.metadata.generation = Some(7);
        assert_eq!(generation(&*cluster.put(&web)?), Some(7), "that of the test");
        web.metadata.uid = Some("another".to_owned());
        web.metadata.generation = None;
        assert_eq!(generation(&*cluster.put(&web)?), Some(1), "another object of this name");
        Ok(())
    }

    #[tokio::test]
    async fn only_kinds_with_a_generation_have_one() -> Result<()> {
        let cluster = FakeCluster::new();
        let mut service = Service::default();
        service.metadata.name = Some("web".to_owned());
        service.spec = Some(Default::default());
        let service = cluster.put(&service)?;
        assert!(service.metadata.generation.is_none() && service.creation_timestamp().is_some());
        let made = cluster.arguments(&service).take::<Creator<Deployment>, _>().create(&web(1)).await?;
        assert!(made.creation_timestamp().is_some() && generation(&made) == Some(1), "{made:?}");
        assert!(counts_generations("example.com", "shops") && !counts_generations("coordination.k8s.io", "leases"));
        Ok(())
    }
}
