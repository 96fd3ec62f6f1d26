//! A program with webhooks, beside a kube-apiserver that calls them on loopback.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kooper_access::Operator;
use kooper_access::controller::operator::Builder;
use kooper_runtime::internal::client::{ClientStack, RequestLayer, from_fn};
use kooper_runtime::{BoxError, Health};
use kooper_tests::control_plane::{ControlPlane, Output};
use kooper_webhooks::{Admission, Denied, FailurePolicy, Running, Webhook, Webhooks};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "webhooks.example.com", version = "v1", kind = "Shop", namespaced)]
pub(crate) struct ShopSpec {
    /// The behaviour of the functions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) mood: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flavour: Option<String>,
    #[serde(default)]
    pub(crate) size: i32,
}

/// Does what the mood says.
async fn check(new: Arc<Shop>, request: Admission) -> Result<(), BoxError> {
    match new.spec.mood.as_str() {
        "bad" => {
            let denied = Denied::default().field("spec.mood", "must not be `bad`");
            return Err(denied.field("spec.size", "must be at least 1").into());
        }
        "broken" => return Err("the stock cannot be read".into()),
        "panic" => panic!("a canary"),
        "slow" => std::thread::sleep(Duration::from_secs(4)),
        "talkative" => request.warn(format!("hello {}", request.user().username.as_deref().unwrap_or_default())),
        _ => {}
    }
    Ok(())
}

async fn fill(mut shop: Shop) -> Shop {
    shop.spec.flavour.get_or_insert_with(|| "vanilla".to_owned());
    if shop.spec.mood == "greedy" {
        shop.spec.size += 1;
    }
    shop
}

/// The Secret of the certificate authority.
pub(crate) const SECRET: &str = "shop--webhook-ca";

/// The settings of the program.
pub(crate) struct Motto(pub(crate) &'static str);

/// A namespace of a kube-apiserver.
pub(crate) struct Fixture {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) namespace: String,
    pub(crate) client: Client,
}

/// A program that serves and registers webhooks.
pub(crate) struct Program {
    pub(crate) running: Option<Running>,
    pub(crate) health: Health,
    stop: CancellationToken,
    /// Once it is cancelled, no request of the program reaches the API server.
    pub(crate) dead: CancellationToken,
    operator: JoinHandle<()>,
}

impl Fixture {
    /// A namespace of the kube-apiserver that all tests share.
    pub(crate) async fn new(name: &str) -> Option<Self> {
        let plane = ControlPlane::shared()?;
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| install_crd(plane, "shops.webhooks.example.com", "Shop"));
        Some(Self::on(plane, name).await)
    }

    /// A namespace of a kube-apiserver of its own, without the kind.
    pub(crate) async fn alone(name: &str, options: &[&str]) -> Option<Self> {
        // It ends with this process.
        let plane = Box::leak(Box::new(ControlPlane::start_with(options)?));
        Some(Self::on(plane, name).await)
    }

    async fn on(plane: &'static ControlPlane, name: &str) -> Self {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("valid");
        let client = Client::try_from(config).expect("a client");
        let namespace = format!("webhooks-{name}");
        plane.must(&["create", "namespace", &namespace]);
        Self { plane, namespace, client }
    }

    /// Starts a program with two functions, whose server is on a free port.
    pub(crate) fn start(&self, failure: FailurePolicy) -> Program {
        self.start_with(failure, |webhooks| webhooks)
    }

    pub(crate) fn start_with(&self, failure: FailurePolicy, settings: impl FnOnce(Webhooks) -> Webhooks) -> Program {
        let address = free_address();
        let webhooks = self.webhooks(failure, Duration::from_secs(2)).listen(address).url(format!("https://{address}"));
        self.run(settings(webhooks), Operator::builder(), CancellationToken::new(), [])
    }

    /// Two functions, which the API server waits for so long.
    pub(crate) fn webhooks(&self, failure: FailurePolicy, timeout: Duration) -> Webhooks {
        let validate = Webhook::validate::<Shop>("check").failure(failure).timeout(timeout);
        let mutate = Webhook::mutate::<Shop>("fill").failure(failure).timeout(timeout).function(fill).build();
        Webhooks::new("shop", &self.namespace)
            .namespaces([&self.namespace])
            .webhook(validate.function(check).build().expect("a webhook"))
            .webhook(mutate.expect("a webhook"))
    }

    /// Runs a program until it stops, or until `dead` is cancelled.
    pub(crate) fn run(
        &self,
        webhooks: Webhooks,
        operator: Builder,
        dead: CancellationToken,
        layers: impl IntoIterator<Item = RequestLayer>,
    ) -> Program {
        let client = ClientStack::new(self.client.clone()).with([kill_layer(dead.clone())]).with(layers).client();
        let (running, controllers) = webhooks.start(&client).expect("it starts");
        let health = Health::default();
        let operator = operator.client(client).settings(Motto("keep calm")).health(health.clone());
        let operator = controllers.into_iter().fold(operator, Builder::controller).build().expect("an operator");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let operator = tokio::spawn(async move { operator.run(stopped).await.expect("it stops when it is asked to") });
        Program { running: Some(running), health, stop, dead, operator }
    }

    /// Waits until both configurations have this policy for each function.
    pub(crate) async fn registered(&self, policy: &str) {
        for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
            until(&format!("{kind} with {policy}"), || {
                let configuration = self.configuration(kind);
                let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
                let own = entries.iter().filter(|one| !one["name"].as_str().unwrap_or_default().starts_with("probe."));
                own.clone().count() == 1 && own.clone().all(|one| one["failurePolicy"] == policy)
            })
            .await;
        }
    }

    pub(crate) fn configuration(&self, kind: &str) -> Value {
        let name = format!("shop--webhooks.{}", self.namespace);
        let output = self.plane.kubectl(&["get", kind, &name, "-o", "json"]);
        if output.success { serde_json::from_str(&output.stdout).expect("JSON") } else { Value::Null }
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The content of the Secret; empty if there is none.
    pub(crate) async fn data(&self) -> BTreeMap<String, String> {
        let found = self.secrets().get_opt(SECRET).await.expect("it can be read");
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        data.into_iter().map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect()
    }

    /// Changes an entry of the Secret.
    pub(crate) async fn write(&self, key: &str, value: impl Into<Vec<u8>>) {
        let data = json!({"data": {key: ByteString(value.into())}});
        self.secrets().patch(SECRET, &PatchParams::default(), &Patch::Merge(data)).await.expect("patched");
    }

    /// Creates a shop by kubectl.
    pub(crate) fn create(&self, name: &str, spec: impl Into<Value>) -> Output {
        self.kubectl(&["create", "-f", "-"], &self.shop(name, spec))
    }

    pub(crate) fn shop(&self, name: &str, spec: impl Into<Value>) -> Value {
        let spec: Value = spec.into();
        json!({
            "apiVersion": "webhooks.example.com/v1", "kind": "Shop",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        })
    }

    pub(crate) fn kubectl(&self, args: &[&str], input: &Value) -> Output {
        self.plane.kubectl_with(args, &input.to_string())
    }

    /// The spec of a shop.
    pub(crate) fn spec(&self, name: &str) -> Value {
        let text = self.plane.must(&["get", "shops.webhooks.example.com", name, "-n", &self.namespace, "-o", "json"]);
        serde_json::from_str::<Value>(&text).expect("JSON")["spec"].clone()
    }

    /// Waits until the API server's calls reach the webhooks: they deny a bad shop.
    pub(crate) async fn denies(&self) {
        until("a bad shop is denied", || {
            let created =
                self.kubectl(&["create", "--dry-run=server", "-f", "-"], &self.shop("bad", json!({"mood": "bad"})));
            created.stderr.contains("must not be `bad`")
        })
        .await;
    }
}

impl Program {
    /// Stops to register, and then to serve.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.operator).await.expect("no panic");
        drop(self.running.take());
    }

    /// Ends as a pod does that is deleted: no call fails.
    pub(crate) async fn terminate(mut self) {
        self.stop.cancel();
        (&mut self.operator).await.expect("no panic");
        if let Some(running) = self.running.take() {
            running.shutdown().await;
        }
    }

    /// Ends as a process does that is killed.
    pub(crate) fn kill(mut self) {
        self.dead.cancel();
        self.operator.abort();
        drop(self.running.take());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The end of a process: running requests are dropped, and no further one is sent.
fn kill_layer(dead: CancellationToken) -> RequestLayer {
    from_fn(move |request, next| {
        let dead = dead.clone();
        async move {
            let killed = || BoxError::from("the program was killed");
            dead.run_until_cancelled(next.oneshot(request)).await.ok_or_else(killed)?
        }
    })
}

/// An address of loopback with a free port.
pub(crate) fn free_address() -> SocketAddr {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    free.expect("a free port")
}

/// The schema keeps what the type does not know.
pub(crate) fn install_crd(plane: &ControlPlane, name: &str, kind: &str) {
    let plural = name.split('.').next().unwrap_or_default();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    plane.apply([json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "webhooks.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        },
    })]);
    plane.must(&["wait", "--for=condition=Established", &format!("crd/{name}")]);
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        loop {
            let begun = Instant::now();
            if holds() {
                return;
            }
            // A look that starts kubectl takes the CPU that what is awaited needs.
            let pause = begun.elapsed() * 3;
            tokio::time::sleep(pause.clamp(Duration::from_millis(100), Duration::from_millis(500))).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), waited).await.unwrap_or_else(|_| panic!("not within 300 s: {what}"));
}
