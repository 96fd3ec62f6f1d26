use k8s_openapi::api::apps::v1::Deployment;
use kooper::prelude::*;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

#[cfg(test)]
mod tests;

/// Pods that run an image.
#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "{{group}}", version = "v1", kind = "{{kind}}", namespaced)]
#[kube(status = "{{kind}}Status")]
struct {{kind}}Spec {
    image: String,
    #[schemars(range(min = 0, max = 100))]
    replicas: i32,
}

#[derive(KubeSchema, Clone, Debug, Serialize, Deserialize)]
struct {{kind}}Status {
    available: Option<i32>,
}

/// Runs a Deployment for each {{kind}}.
#[kooper::controller(
    resource = {{kind}},
    cleanup = clean_up, finalizer = "{{group}}/{{project-name}}",
    leader_election, install_crd,
)]
async fn {{kind | snake_case}}(
    object: Arc<{{kind}}>,
    children: OwnedApplier<Deployment>,
    statuses: StatusWriter<{{kind}}>,
) -> Result<()> {
    let applied = children.apply_owned(&object, &deployment(&object)?).await?;
    let available = applied.status.unwrap_or_default().available_replicas;
    let status = {{kind}}Status { available };
    statuses.apply_status(&object, &status).await?;
    Ok(())
}

/// Cleans up outside the cluster. After an error, the object is kept and the cleanup is retried.
async fn clean_up(recorder: Recorder) {
    recorder.normal("CleanedUp", "nothing is left outside the cluster");
}

fn deployment(object: &{{kind}}) -> Result<Deployment> {
    let (name, spec) = (object.name_any(), &object.spec);
    let labels = json!({"app": "{{project-name}}", "instance": name});
    let pod = json!({"containers": [{"name": "main", "image": spec.image}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    Ok(from_value(json!({
        "metadata": {"name": name},
        "spec": {"replicas": spec.replicas, "selector": {"matchLabels": labels}, "template": template},
    }))?)
}
