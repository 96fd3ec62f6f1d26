//! The objects that `dev` applies if it gets no files.

use kooper_grammar::selector::{Comparator, Selector};
use kube::Client;
use serde_json::{Value, json};

use super::NAMESPACE;
use super::apply;
use super::greeting::Applied;
use super::least::{self, SampleError};
use crate::cli::document::{self, Document, DocumentError};
use kooper_access::Controller;
use kooper_access::internal;
use kooper_runtime::BoxError;
use kooper_runtime::internal::object::kind::KindInfo;

/// The name of generated objects.
const NAME: &str = "hello";

/// A generated object of a kind, or why it cannot be generated.
struct Sample<'a> {
    kind: &'a KindInfo,
    made: Result<Document, SampleError>,
}

/// The objects of the controllers' sample files; each file is read once.
fn written(controllers: &[Controller]) -> Result<Vec<Document>, DocumentError> {
    let mut files: Vec<&internal::Sample> = Vec::new();
    for file in controllers.iter().flat_map(Controller::samples) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let documents = files.into_iter().map(|file| document::parse(file.name, file.text));
    Ok(documents.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Applies the sample files, and for each controller without sample files a generated object. Returns the objects; a
/// kind without an object is added to the notes.
pub(super) async fn apply_all(
    client: &Client,
    controllers: &[Controller],
    notes: &mut Vec<String>,
) -> Result<Vec<Applied>, BoxError> {
    let written = written(controllers)?;
    let mut objects: Vec<_> = written.iter().map(Applied::from).collect();
    apply::apply(client, written).await?;
    apply::apply(client, namespaces(controllers)).await?;
    for sample in samples(controllers) {
        match sample.apply(client).await {
            Ok(object) => objects.push(object),
            Err(note) => notes.push(note),
        }
    }
    Ok(objects)
}

/// The namespace of the samples with the labels that controllers select.
fn namespaces(controllers: &[Controller]) -> Vec<Document> {
    let selectors = controllers.iter().filter_map(Controller::namespace_selector);
    let namespace = |selector| Document {
        object: json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels(selector)},
        }),
        source: None,
    };
    selectors.map(namespace).collect()
}

/// One object of each kind, for controllers without sample files.
fn samples(controllers: &[Controller]) -> Vec<Sample<'_>> {
    let mut samples: Vec<Sample<'_>> = Vec::new();
    let has_none = |controller: &&Controller| !controller.has_own_retriever() && controller.samples().is_empty();
    for controller in controllers.iter().filter(has_none) {
        let kind = controller.kind_info();
        if !samples.iter().any(|sample| sample.kind == kind) {
            samples.push(Sample { kind, made: make(controller) });
        }
    }
    samples
}

impl Sample<'_> {
    /// Applies the object, or returns a message that explains what to do instead.
    async fn apply(self, client: &Client) -> Result<Applied, String> {
        let Self { kind, made } = self;
        let applied = match made {
            Ok(document) => {
                apply::apply_one(client, &document).await.map(|()| Applied::from(&document)).map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let kind = &kind.kind;
        applied.map_err(|error| {
            format!("no sample {kind} was created ({error}): write one, and list its file in `samples`")
        })
    }
}

fn make(controller: &Controller) -> Result<Document, SampleError> {
    let kind = controller.kind_info();
    let mut object = match controller.crd() {
        Some((crd, _)) => {
            let schema = crd.spec.versions.into_iter().find(|version| version.name == kind.version);
            let schema = schema.and_then(|version| version.schema).and_then(|schema| schema.open_api_v3_schema);
            least::object(&serde_json::to_value(schema).unwrap_or_default()).map(Value::Object)?
        }
        None => builtin(kind),
    };
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.as_str().into();
    object["metadata"] = json!({"name": NAME});
    let labels = controller.label_selector().map(labels).unwrap_or_default();
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        object["metadata"]["labels"] = labels;
    }
    if kind.namespaced
        && let Some(namespace) = controller.namespaces().first()
    {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    Ok(Document { object, source: None })
}

/// The required fields of a built-in kind.
fn builtin(kind: &KindInfo) -> Value {
    let pod = json!({"containers": [{"name": "main", "image": "nginx:stable"}]});
    let labels = json!({"app": NAME});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let selected = json!({"spec": {"selector": {"matchLabels": labels}, "template": template}});
    let once = json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:stable"}]},
    });
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => json!({"spec": pod}),
        ("", "ConfigMap") => json!({"data": {"greeting": NAME}}),
        ("", "Secret") => json!({"stringData": {"greeting": NAME}}),
        ("", "Service") => json!({"spec": {"selector": labels, "ports": [{"port": 80}]}}),
        ("", "PersistentVolumeClaim") => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }
        ("apps", "StatefulSet") => {
            let mut spec = selected;
            spec["spec"]["serviceName"] = NAME.into();
            spec
        }
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => selected,
        ("batch", "Job") => json!({"spec": {"template": once}}),
        ("batch", "CronJob") => json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
        ("networking.k8s.io", "Ingress") => {
            json!({"spec": {"defaultBackend": {"service": {"name": NAME, "port": {"number": 80}}}}})
        }
        _ => json!({}),
    }
}

/// Labels that match a selector.
fn labels(selector: &str) -> Value {
    let mut labels = json!({});
    for requirement in Selector::parse(selector).iter().flat_map(Selector::requirements) {
        let first = requirement.values().first();
        let beside = |by: i64| first.and_then(|bound| bound.parse::<i64>().ok()).map(|bound| (bound + by).to_string());
        let value = match requirement.operator() {
            Comparator::In => first.cloned(),
            Comparator::Exists => Some("true".to_owned()),
            Comparator::GreaterThan => beside(1),
            Comparator::LessThan => beside(-1),
            Comparator::NotIn | Comparator::DoesNotExist => None,
        };
        if let Some(value) = value {
            labels[requirement.key()] = value.into();
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use kooper_apiserver::ApiServer;
    use kube::{CustomResource, CustomResourceExt as _};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use kooper_runtime::Kind;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
    #[serde(rename_all = "camelCase")]
    struct ShopSpec {
        #[schemars(length(min = 1))]
        owner_name: String,
        #[schemars(range(min = 2))]
        floors: i32,
        note: Option<String>,
    }

    async fn handler<K: Kind>(_: Arc<K>) {}

    fn made(controller: Controller) -> Value {
        let controllers = [controller];
        let mut samples = samples(&controllers);
        samples.pop().expect("one").made.expect("it can be made").object
    }

    #[test]
    fn a_custom_resource_has_what_its_schema_requires() {
        let controller = Controller::builder::<Shop>("shops").crd().namespaces(["malls"]).handler(handler::<Shop>);
        let expected = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "hello", "namespace": "malls"},
            "spec": {"ownerName": "hello", "floors": 2},
        });
        assert_eq!(made(controller.build().expect("a controller")), expected);
    }

    #[test]
    fn a_pod_has_the_labels_that_are_selected() {
        let selector = "app in (web, api), tier, rank>3, !old, zone!=a";
        let controller = Controller::builder::<Pod>("pods").labels(selector).handler(handler::<Pod>);
        let pod = made(controller.build().expect("a controller"));
        assert_eq!(pod["metadata"]["labels"], json!({"app": "api", "tier": "true", "rank": "4"}));
        assert_eq!(pod["spec"]["containers"][0]["name"], "main");
    }

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Booth", namespaced)]
    struct BoothSpec {
        #[schemars(regex(pattern = "^[A-Z]{2}$"))]
        code: String,
        #[schemars(regex(pattern = "^[A-Z]$"), extend("example" = "A"))]
        row: String,
    }

    #[tokio::test]
    async fn a_pattern_without_a_value_asks_for_a_sample() {
        let server = ApiServer::start().await.expect("a server");
        let controller = Controller::builder::<Booth>("booths").crd().handler(handler::<Booth>).build();
        let controllers = [controller.expect("a controller")];
        let crd = serde_json::to_value(Booth::crd()).expect("JSON");
        apply::apply_one(&server.client(), &Document { object: crd, source: None }).await.expect("it is valid");
        let mut notes = Vec::new();
        let applied = apply_all(&server.client(), &controllers, &mut notes).await.expect("a note is no error");
        assert!(applied.is_empty(), "{applied:?}");
        let [note] = &*notes else { panic!("{notes:?}") };
        let parts = [
            "no sample Booth was created (",
            "spec.code",
            "^[A-Z]{2}$",
            "): write one, and list its file in `samples`",
        ];
        assert!(parts.iter().all(|part| note.contains(part)) && !note.contains("spec.row"), "{note}");
    }

    #[test]
    fn samples_of_ones_own_come_instead_and_each_file_once() {
        let shop = "apiVersion: example.com/v1\nkind: Shop\nmetadata: {name: corner}\n";
        let build = |name: &str, file, text| {
            let builder = Controller::builder::<Pod>(name).sample(file, text).handler(handler::<Pod>);
            builder.build().expect("a controller")
        };
        let controllers = [build("a", "shop.yaml", shop), build("b", "shop.yaml", shop)];
        assert!(samples(&controllers).is_empty());
        let shown: Vec<_> = written(&controllers).expect("they are right").iter().map(Document::shown).collect();
        assert_eq!(shown, ["shop/corner"]);
        let error = written(&[build("c", "mall.yaml", "kind: Mall")]).expect_err("it has no version");
        assert_eq!(error.to_string(), "mall.yaml:1: `apiVersion` is missing: write it as a string");
    }

    #[test]
    fn each_kind_has_one() {
        let controllers = [
            Controller::builder::<Pod>("a").handler(handler::<Pod>).build(),
            Controller::builder::<Pod>("b").handler(handler::<Pod>).build(),
            Controller::builder::<Deployment>("c").handler(handler::<Deployment>).build(),
            Controller::builder::<Node>("d").handler(handler::<Node>).build(),
        ];
        let controllers = controllers.map(|controller| controller.expect("a controller"));
        let shown: Vec<_> =
            samples(&controllers).into_iter().map(|sample| sample.made.expect("a sample").shown()).collect();
        assert_eq!(shown, ["pod/hello", "deployment/hello", "node/hello"]);
    }
}
