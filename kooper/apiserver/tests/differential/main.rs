//! One written history of requests, sent to this server and to a real one: the answers are the same.
//!
//! A case is a file in `cases`. Set `KOOPER_CASE` to run one of them alone.

mod case;
mod normal;
mod real;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kooper_apiserver::ApiServer;
use tower::ServiceExt as _;

use self::case::{Case, Step};
use self::normal::Normal;

/// What a server answered: the status, headers and body that are compared.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// A server that histories can be sent to.
trait Server {
    async fn send(&self, step: &Step) -> Answer;
}

struct Embedded {
    server: ApiServer,
}

impl Server for Embedded {
    async fn send(&self, step: &Step) -> Answer {
        // Without a socket: what TLS and HTTP do is tested in `https.rs`.
        let mut request = Request::builder().method(step.method.as_str()).uri(&step.path);
        for (name, value) in step.sent_headers() {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(step.body.clone()))).expect("the case has valid requests");
        let response = self.server.service().oneshot(request).await.expect("the server answers");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the body ends well").to_bytes();
        let headers =
            parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        Answer {
            status: parts.status.as_u16(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// The headers that are compared.
const COMPARED: [&str; 5] = ["content-type", "warning", "retry-after", "allow", "etag"];

/// Sends a case to a server; the answers come back normalised.
async fn run(case: &Case, server: &impl Server) -> Vec<Answer> {
    let mut normal = Normal::default();
    let mut raw: Vec<Answer> = Vec::new();
    for step in &case.steps {
        let bodies: Vec<_> = raw.iter().map(|answer| answer.body.as_str()).collect();
        let step = step.filled(&bodies);
        raw.push(server.send(&step).await);
        if step.method == "POST" && step.path.ends_with("/customresourcedefinitions") {
            served(&step, server).await;
        }
    }
    raw.into_iter()
        .map(|answer| {
            let headers = answer.headers.into_iter().filter(|(name, _)| COMPARED.contains(&name.as_str()));
            Answer {
                status: answer.status,
                headers: headers.map(|(name, value)| (name, normal.text(&value))).collect(),
                body: normal.body(&answer.body),
            }
        })
        .collect()
}

/// Waits until the kind of a definition is served, which the real server does a little later.
async fn served(step: &Step, server: &impl Server) {
    let definition: serde_json::Value = serde_json::from_str(&step.body).unwrap_or_default();
    let text = |pointer: &str| definition.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let version = text("/spec/versions/0/name");
    for _ in 0..200 {
        let list = server.send(&Step::get(&format!("/apis/{group}/{version}/{plural}"))).await;
        if list.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{plural}.{group} is not served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_are_those_of_a_real_server() {
    let Some(real) = real::Real::start() else { return };
    let only = std::env::var("KOOPER_CASE").ok();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/cases");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("there are cases").map(|file| file.expect("it can be read").path()).collect();
    files.sort();
    let (mut report, mut requests, mut differing) = (String::new(), 0, 0);
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let case = Case::parse(&name, &fs::read_to_string(&file).expect("a case is text"));
        let server = ApiServer::start().await.expect("loopback can be listened on");
        let embedded = Embedded { server };
        let ours = run(&case, &embedded).await;
        let theirs = run(&case, &real).await;
        for ((step, ours), theirs) in case.steps.iter().zip(&ours).zip(&theirs) {
            requests += 1;
            if ours != theirs {
                differing += 1;
                let _ = writeln!(report, "\n{name}: line {}: {} {}", step.line, step.method, step.path);
                let _ = writeln!(report, "  ours   {} {:?}\n{}", ours.status, ours.headers, ours.body);
                let _ = writeln!(report, "  theirs {} {:?}\n{}", theirs.status, theirs.headers, theirs.body);
            }
        }
    }
    assert!(report.is_empty(), "{differing} of {requests} answers differ:\n{report}");
}
