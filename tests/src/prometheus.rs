//! A Prometheus that scrapes programs, and what a dashboard asks it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::Process;
use crate::wait::until;

/// A running Prometheus. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping it ends it"]
pub struct Prometheus {
    address: SocketAddr,
    process: Process,
}

impl Prometheus {
    /// Starts it in a folder, with an empty database. Each target is an address, and the labels that its series get;
    /// `rules` are the paths of files with rules.
    pub fn start(folder: &Path, targets: &[(SocketAddr, Value)], rules: &[&Path]) -> Self {
        let targets: Vec<_> = targets
            .iter()
            .map(|(address, labels)| json!({"targets": [address.to_string()], "labels": labels}))
            .collect();
        Self::scraping(folder, &json!({"job_name": "kooper", "static_configs": targets}), rules)
    }

    /// Like [`start`](Self::start), with the settings of a scrape.
    pub fn scraping(folder: &Path, scrape: &Value, rules: &[&Path]) -> Self {
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": rules,
            "scrape_configs": [scrape],
        });
        let file = folder.join("prometheus.yaml");
        // JSON is YAML, too.
        fs::write(&file, config.to_string()).expect("the folder can be written to");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = free.expect("a free port");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::run(&mut command);
        let prometheus = Self { address, process };
        let ready = || prometheus.get("/-/ready").filter(|(status, _)| *status == 200);
        until("Prometheus is ready", ready, || prometheus.process.lines().join("\n"));
        prometheus
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        // As of HTTP/1.0, so that the body is not in chunks.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// Waits until a query has a value that is a number.
    pub fn wait_for_data(&self, query: &str) {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let answer = || self.get(&path).unwrap_or_default();
        let has_data = || {
            let answer: Value = serde_json::from_str(&answer().1).ok()?;
            let results = answer["data"]["result"].as_array()?.iter();
            results.filter_map(|result| result["value"][1].as_str()).any(|value| value != "NaN").then_some(())
        };
        until(query, has_data, || format!("{:?}\n{}", answer(), self.process.lines().join("\n")));
    }

    /// Waits until every rule has been evaluated, and returns them, as Prometheus describes them.
    pub fn wait_for_rules(&self) -> Vec<Value> {
        let rules = || {
            let answer: Value = serde_json::from_str(&self.get("/api/v1/rules")?.1).ok()?;
            let groups = answer["data"]["groups"].as_array()?;
            Some(groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).cloned().collect())
        };
        let healthy = || rules().filter(|rules: &Vec<Value>| rules.iter().all(|rule| rule["health"] == "ok"));
        until("the rules are evaluated", healthy, || format!("{:#?}", rules()))
    }
}

/// Percent-encodes everything but letters and digits.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The queries of a dashboard for Grafana: those of its panels, and those that its variables choose from.
pub fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("a list");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut queries: Vec<_> = targets.map(|target| target["expr"].as_str().expect("a string").to_owned()).collect();
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    let definitions = variables.iter().filter_map(|variable| variable["query"]["query"].as_str());
    queries.extend(definitions.map(|definition| {
        let inner = definition.trim_start_matches("label_values(").trim_end_matches(')');
        let (selector, label) = inner.rsplit_once(", ").expect("a selector and a label");
        format!("count by ({label}) ({selector})")
    }));
    queries
}

/// A query with values for the variables of a dashboard: a namespace, a job, and all controllers.
pub fn filled(query: &str, namespace: &str, job: &str) -> String {
    query
        .replace("$__rate_interval", "1m")
        .replace("$namespace", namespace)
        .replace("$job", job)
        .replace("$controller", ".+")
}
