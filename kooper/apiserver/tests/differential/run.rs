//! A history on its way: requests are sent one after the other, watches are read beside them.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::case::{Case, Step};
use crate::expressions::DEFINITIONS;
use crate::hooks;
use crate::server::{Answer, Server};
use crate::wire;

/// Maximum time until a watch of a real server has reported all events.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without an event a watch counts as read to its end.
const QUIET: Duration = Duration::from_millis(25);
/// After how long the real server has noticed that a definition was changed.
const NOTICED: Duration = Duration::from_secs(1);

/// A history that is being sent.
pub(crate) struct Run<'a> {
    server: &'a Server,
    namespace: String,
    /// The answers of another server, where they are known.
    expected: Option<&'a [Answer]>,
    /// The bodies of the answers, by the ids of the requests.
    bodies: HashMap<usize, String>,
    pub(crate) answers: Vec<Answer>,
    watches: Vec<Watch>,
}

/// A stream that is read until the end of the history.
struct Watch {
    /// The index of its answer.
    answer: usize,
    source: Source,
}

enum Source {
    /// The embedded server's: everything that happened can be read at once.
    Direct {
        body: Body,
        read: Vec<u8>,
    },
    /// The same, after its end.
    Ended(Vec<u8>),
    Task {
        read: Arc<Mutex<Read>>,
        task: JoinHandle<()>,
    },
}

#[derive(Default)]
struct Read {
    bytes: Vec<u8>,
    ended: bool,
}

/// Sends a history; where the answers of another server are known, watches wait for as many events, and permissions
/// until they are in effect.
pub(crate) async fn run(case: &Case, server: &Server, expected: Option<&[Answer]>) -> Vec<Answer> {
    if case.needs_fixture() {
        install_fixture(server).await;
    }
    let mut run = Run::new(server, &case.name, expected);
    for step in &case.steps {
        run.step(step).await;
    }
    let answers = run.finish().await;
    if !server.is_embedded && case.steps.iter().any(|step| step.path.contains("/services")) {
        release_addresses(server, &case.name).await;
    }
    answers
}

/// Deletes the services of a history: a real server has few addresses, and gives them to all histories.
async fn release_addresses(server: &Server, namespace: &str) {
    let collection = format!("/api/v1/namespaces/{namespace}/services");
    let list: Value = serde_json::from_str(&server.send(&Step::get(&collection)).await.body).unwrap_or_default();
    for service in list["items"].as_array().into_iter().flatten() {
        let path = format!("{collection}/{}", service["metadata"]["name"].as_str().unwrap_or_default());
        let step = |method: &str, body: &str| Step {
            method: method.into(),
            path: path.clone(),
            headers: vec![("content-type".into(), "application/merge-patch+json".into())],
            body: body.into(),
            ..Step::default()
        };
        server.send(&step("PATCH", r#"{"metadata": {"finalizers": null}}"#)).await;
        server.send(&Step { headers: Vec::new(), ..step("DELETE", "") }).await;
    }
}

/// Installs the definitions that random histories use, once for each server.
pub(crate) async fn install_fixture(server: &Server) {
    server.fixture.get_or_init(|| install_definitions(server)).await;
}

async fn install_definitions(server: &Server) {
    for definition in include_str!("random/definitions.jsonl").lines() {
        let step = Step::post(DEFINITIONS, definition);
        let answer = server.send(&step).await;
        assert!(matches!(answer.status, 201 | 409), "{}", answer.body);
        served(&step, server).await;
    }
}

/// Waits until the kind of a definition is served, which the real server does a little later.
async fn served(step: &Step, server: &Server) {
    let definition: Value = serde_json::from_str(&step.body).unwrap_or_default();
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let version = text("/spec/versions/0/name");
    for _ in 0..200 {
        let list = server.send(&Step::get(&format!("/apis/{group}/{version}/{plural}"))).await;
        if list.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{plural}.{group} is not served");
}

/// Waits until the kind of a changed definition is served as it is now; in between, there is no storage for it.
async fn served_again(definition: &str, server: &Server) {
    tokio::time::sleep(NOTICED).await;
    let definition: Value = serde_json::from_str(definition).unwrap_or_default();
    let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
    let (group, plural) = (group.as_str().unwrap_or_default(), plural.as_str().unwrap_or_default());
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        let path = format!("/apis/{group}/{}/{plural}", version["name"].as_str().unwrap_or_default());
        for _ in 0..200 {
            if server.send(&Step::get(&path)).await.status != 429 {
                break;
            }
            tokio::time::sleep(QUIET).await;
        }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(server: &'a Server, namespace: &str, expected: Option<&'a [Answer]>) -> Self {
        let (bodies, answers) = (HashMap::new(), Vec::new());
        Self { server, namespace: namespace.to_owned(), expected, bodies, answers, watches: Vec::new() }
    }

    /// Sends one request.
    pub(crate) async fn step(&mut self, step: &Step) -> &Answer {
        let id = step.id;
        let step = step.filled(&self.namespace, &|id| self.bodies.get(&id).cloned().unwrap_or_default());
        if step.reads_cache() && !self.server.is_embedded {
            // A consistent list brings the cache up to date.
            self.server.send(&Step::get(&collection(&step.path))).await;
        }
        let answer = if step.is_watch() { self.watch(&step).await } else { self.authorized(&step).await };
        if step.method == "POST" && step.path.ends_with("/customresourcedefinitions") && answer.status == 201 {
            served(&step, self.server).await;
        }
        let changes = step.path.contains("/customresourcedefinitions/") && matches!(&*step.method, "PATCH" | "PUT");
        if changes && answer.status == 200 && !self.server.is_embedded {
            served_again(&answer.body, self.server).await;
        }
        if step.method != "GET" && !self.server.is_embedded {
            hooks::settle(self.server, &step).await;
        }
        self.bodies.insert(id, answer.body.clone());
        self.answers.push(answer);
        for watch in &mut self.watches {
            watch.read_available();
        }
        self.answers.last().expect("one was pushed")
    }

    /// Sends a request again while only permissions and tokens can be the reason for another answer: the real server
    /// reads roles, accounts and what tokens are bound to from caches, which are late.
    async fn authorized(&mut self, step: &Step) -> Answer {
        let expected = self.expected.and_then(|answers| answers.get(self.answers.len()));
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = self.server.send(step).await;
            let granted = is_granted(step, &answer);
            let late = expected.is_some_and(|expected| is_granted(step, expected) != granted)
                && (!granted || step.method == "GET" || is_review(step));
            if !late || Instant::now() >= deadline {
                return answer;
            }
            tokio::time::sleep(QUIET).await;
        }
    }

    async fn watch(&mut self, step: &Step) -> Answer {
        let response = match self.server.open(step).await {
            Ok(response) => response,
            Err(answer) => return answer,
        };
        let mut answer = Answer::head(&response);
        let body = response.into_body();
        if answer.status != 200 {
            answer.body = wire::text(&body.collect().await.expect("the body ends well").to_bytes());
            return answer;
        }
        let source = if self.server.is_embedded { Source::direct(body) } else { Source::task(body) };
        self.watches.push(Watch { answer: self.answers.len(), source });
        answer
    }

    /// Reads the watches to their ends, and returns all answers.
    pub(crate) async fn finish(mut self) -> Vec<Answer> {
        let deadline = Instant::now() + TIMEOUT;
        let wanted = |watch: &Watch| self.expected.map_or(0, |answers| events(&answers[watch.answer].body).count());
        let mut lengths = vec![0; self.watches.len()];
        // All are read at the same time: each has its pause at the end.
        loop {
            let mut settled = true;
            for (watch, before) in self.watches.iter_mut().zip(&mut lengths) {
                let (stream, ended) = watch.read();
                settled &= ended || events(&stream).count() >= wanted(watch) && stream.len() == *before;
                *before = stream.len();
            }
            if settled || Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(QUIET).await;
        }
        for mut watch in self.watches {
            let (stream, _) = watch.read();
            self.answers[watch.answer].body = events(&stream).fold(String::new(), |all, line| all + line + "\n");
        }
        self.answers
    }
}

/// A question about permissions, which changes nothing.
fn is_review(step: &Step) -> bool {
    step.method == "POST" && step.path.ends_with("reviews")
}

fn is_granted(step: &Step, answer: &Answer) -> bool {
    let grants = |member: &str| answer.body.contains(member);
    match answer.status {
        401 | 403 => false,
        _ if is_review(step) => grants(r#""authenticated":true"#) || grants(r#""allowed":true"#),
        _ => true,
    }
}

/// The complete lines of a stream, without the bookmarks that come with time.
fn events(stream: &str) -> impl Iterator<Item = &str> {
    let complete = stream.rfind('\n').map_or("", |end| &stream[..end]);
    complete.lines().filter(|line| {
        !line.is_empty() && (!line.contains(r#""type":"BOOKMARK""#) || line.contains("k8s.io/initial-events-end"))
    })
}

/// The collection that a path is about.
fn collection(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default().replace("/watch/", "/");
    let parts: Vec<_> = path.split('/').collect();
    match parts.iter().position(|part| *part == "namespaces") {
        Some(at) if parts.len() > at + 2 => parts[..at + 3].join("/"),
        _ => path,
    }
}

impl Watch {
    /// Reads what is there without waiting.
    fn read_available(&mut self) {
        let Source::Direct { body, read } = &mut self.source else { return };
        while let Some(frame) = tokio::task::unconstrained(body.frame()).now_or_never() {
            let Some(Ok(frame)) = frame else {
                self.source = Source::Ended(std::mem::take(read));
                return;
            };
            read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    }

    /// Returns the events that were reported so far, and whether the watch has ended.
    fn read(&mut self) -> (String, bool) {
        self.read_available();
        match &self.source {
            Source::Direct { read, .. } | Source::Ended(read) => (wire::lines(read).into_owned(), true),
            Source::Task { read, .. } => {
                let read = read.lock();
                (wire::lines(&read.bytes).into_owned(), read.ended)
            }
        }
    }
}

/// The connection of a watch goes with it.
impl Drop for Watch {
    fn drop(&mut self) {
        if let Source::Task { task, .. } = &self.source {
            task.abort();
        }
    }
}

impl Source {
    fn direct(body: Body) -> Self {
        Self::Direct { body, read: Vec::new() }
    }

    fn task(mut body: Body) -> Self {
        let read = Arc::new(Mutex::new(Read::default()));
        let shared = Arc::clone(&read);
        let task = tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let mut read = shared.lock();
                read.bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            }
            shared.lock().ended = true;
        });
        Self::Task { read, task }
    }
}
