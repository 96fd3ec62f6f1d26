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

#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct {{kind}}Status {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// Runs a Deployment for each {{kind}}. It is called after the Deployment has been applied.
#[kooper::controller(resource = {{kind}}, children = [deployment], leader_election, install_crd,
    cleanup = clean_up, finalizer = "{{group}}/{{project-name}}")]
async fn {{kind | snake_case}}() {}

/// Cleans up outside the cluster. After an error, the object is kept and the cleanup is retried.
async fn clean_up(recorder: Recorder) {
    recorder.normal("CleanedUp", "nothing is left outside the cluster");
}

fn deployment(owner: &{{kind}}) -> Result<Deployment> {
    let labels = json!({"app": "{{project-name}}", "instance": owner.name_any()});
    let pod = json!({"containers": [{"name": "main", "image": owner.spec.image}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    Ok(from_value(json!({
        "metadata": {"name": owner.name_any()},
        "spec": {"replicas": owner.spec.replicas, "selector": {"matchLabels": labels}, "template": template},
    }))?)
}
