//! Patches have the same results on a real server and on the embedded one.
//!
//! With `KOOPER_RECORD_PATCHES` set, the real responses to the written histories
//! are stored for the embedded server's own tests.

mod random;
#[path = "../../../kooper/apiserver/tests/patches/replay.rs"]
mod replay;

use parking_lot::Mutex;
use std::fmt::Write;
use std::path::Path;

use kooper::kube::Client;
use kooper::kube::client::Body;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::eventually;
use replay::{History, Step, differences, files, histories, widget};
use serde_json::{Value, json};

use crate::live::connection;

/// The default number of random histories.
const RANDOM_HISTORIES: u64 = 40;

/// A server with the kinds that the histories use. Nothing else writes to their objects.
struct Server {
    client: Client,
}

#[tokio::test]
async fn recorded_responses_match_the_real_server() {
    let Some(server) = Server::start().await else { return };
    let record = std::env::var_os("KOOPER_RECORD_PATCHES").is_some();
    for file in files() {
        let recorded = histories(&file);
        let mut answered = recorded.clone();
        for history in &mut answered {
            server.play(history, |_, _, _, _| {}).await;
        }
        if record {
            store(&file, &answered);
            continue;
        }
        let normal = |step: &Step| (step.code, normalised(&step.answer));
        for (recorded, answered) in recorded.iter().zip(&mut answered) {
            // The order of managers depends on the second of their writes.
            for _ in 0..2 {
                if !recorded.steps.iter().map(normal).eq(answered.steps.iter().map(normal)) {
                    server.play(answered, |_, _, _, _| {}).await;
                }
            }
            for (index, (recorded, answered)) in recorded.steps.iter().zip(&answered.steps).enumerate() {
                assert_eq!(normal(answered), normal(recorded), "step {index} of {}", file.display());
            }
        }
    }
}

#[tokio::test]
async fn random_patches_have_the_same_result_on_the_real_server() {
    let Some(server) = Server::start().await else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("KOOPER_SEED").unwrap_or_else(|| fastrand::u64(..));
    let count = number("KOOPER_HISTORIES").unwrap_or(RANDOM_HISTORIES);
    for index in 0..count {
        let mut writer = random::Writer::new(seed.wrapping_add(index));
        let mut history = writer.history(&format!("random-{index}"));
        let check = |history: &History, at: usize, step: &Step, base: Option<&Value>| {
            let found = differences(history, step, base);
            let before = base.unwrap_or(&Value::Null);
            let seed = seed.wrapping_add(index);
            assert!(
                found.is_empty(),
                "KOOPER_SEED={seed} KOOPER_HISTORIES=1, step {at}: {step:?}\non {before}\n{found:#?}"
            );
        };
        server.play(&mut history, check).await;
    }
}

impl Server {
    async fn start() -> Option<Self> {
        let control_plane = ControlPlane::without_controllers()?;
        prepare(control_plane);
        // A client belongs to the runtime of its test.
        let client = Client::try_from(connection(control_plane.kubeconfig(), None).await).unwrap();
        Some(Self { client })
    }

    /// Sends all requests of a history and notes the responses. Each is checked with the object before it.
    async fn play(&self, history: &mut History, check: impl Fn(&History, usize, &Step, Option<&Value>)) {
        let mut base = None;
        for at in 0..history.steps.len() {
            let mut step = history.steps[at].clone();
            self.send(history, &mut step, base.as_ref()).await;
            check(history, at, &step, base.as_ref());
            if step.code < 300 {
                base = Some(step.answer.clone());
            }
            history.steps[at] = step;
        }
        self.remove(history).await;
    }

    async fn send(&self, history: &History, step: &mut Step, base: Option<&Value>) {
        let (method, content_type) = match step.verb.as_str() {
            "create" => ("POST", "application/json"),
            "update" => ("PUT", "application/json"),
            "merge" => ("PATCH", "application/merge-patch+json"),
            "strategic" => ("PATCH", "application/strategic-merge-patch+json"),
            _ => ("PATCH", "application/apply-patch+yaml"),
        };
        let name = if method == "POST" { String::new() } else { format!("/{}", history.name) };
        let subresource = if step.subresource.is_empty() { String::new() } else { format!("/{}", step.subresource) };
        let manager = if step.manager.is_empty() { String::new() } else { format!("fieldManager={}", step.manager) };
        let force = if step.force { "&force=true" } else { "" };
        let path = format!("{}{name}{subresource}?{manager}{force}", collection(history));
        let edited = base.filter(|_| method == "PUT").map(|base| replay::edited(base, &step.body));
        let body = edited.as_ref().unwrap_or(&step.body).to_string();
        (step.code, step.answer) = self.request(method, &path, content_type, &step.agent, body).await;
    }

    async fn remove(&self, history: &History) {
        let path = format!("{}/{}", collection(history), history.name);
        let patch = r#"{"metadata":{"finalizers":null}}"#.to_owned();
        self.request("PATCH", &path, "application/merge-patch+json", "", patch).await;
        self.request("DELETE", &format!("{path}?gracePeriodSeconds=0"), "application/json", "", String::new()).await;
    }

    async fn request(&self, method: &str, path: &str, content: &str, agent: &str, body: String) -> (u16, Value) {
        let agent = if agent.is_empty() { "tester/1" } else { agent };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content).header("user-agent", agent);
        let request = request.body(Body::from(body.into_bytes())).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into()))
    }
}

/// Installs what the histories need. Two applications at the same time would both create the objects.
fn prepare(control_plane: &ControlPlane) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    control_plane.apply([
        widget(),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}),
        // Pods are rejected without one.
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "t", "name": "default"}}),
    ]);
    eventually("widgets are served", || control_plane.kubectl(&["get", "widgets", "--namespace=t"]).success);
}

fn collection(history: &History) -> String {
    let root = if history.api_version.contains('/') { "apis" } else { "api" };
    let (version, kind) = (&history.api_version, history.kind.to_lowercase());
    format!("/{root}/{version}/namespaces/t/{kind}s")
}

/// A response without the values that differ from run to run.
fn normalised(answer: &Value) -> Value {
    match answer {
        Value::Object(map) => {
            let normal = map.iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("uid" | "resourceVersion" | "creationTimestamp" | "time" | "clusterIP" | "clusterIPs", _) => {
                        Value::Null
                    }
                    // The order of several causes is random.
                    ("message", Value::String(text)) => sorted(text.lines().map(Value::from)),
                    ("managedFields" | "causes", Value::Array(items)) => sorted(items.iter().map(normalised)),
                    _ => normalised(value),
                };
                (name.clone(), value)
            });
            Value::Object(normal.collect())
        }
        Value::Array(items) => items.iter().map(normalised).collect(),
        scalar => scalar.clone(),
    }
}

fn sorted(items: impl Iterator<Item = Value>) -> Value {
    let mut items: Vec<_> = items.collect();
    items.sort_by_cached_key(ToString::to_string);
    items.into()
}

/// Writes histories with a line for each step.
fn store(file: &Path, histories: &[History]) {
    let mut text = "[\n".to_owned();
    for (index, history) in histories.iter().enumerate() {
        let steps: Vec<_> =
            history.steps.iter().map(|step| format!("  {}", serde_json::to_string(step).unwrap())).collect();
        let (name, kind, version) = (&history.name, &history.kind, &history.api_version);
        let comma = if index + 1 < histories.len() { "," } else { "" };
        writeln!(text, r#" {{"name":"{name}","kind":"{kind}","apiVersion":"{version}","steps":["#).unwrap();
        writeln!(text, "{}\n ]}}{comma}", steps.join(",\n")).unwrap();
    }
    text.push_str("]\n");
    std::fs::write(file, text).unwrap();
}
