//! A Prometheus that scrapes one program.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use kooper_tests::process::Process;
use kooper_tests::wait::until;
use serde_json::{Value, json};

/// A running Prometheus. Dropping it ends it.
pub(super) struct Prometheus {
    address: SocketAddr,
    process: Process,
}

impl Prometheus {
    /// Starts it with an empty database. Series get the labels.
    pub(super) fn start(folder: &Path, target: SocketAddr, labels: &Value) -> Self {
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
            "scrape_configs": [{
                "job_name": "kooper", "static_configs": [{"targets": [target.to_string()], "labels": labels}],
            }],
        });
        let file = folder.join("prometheus.yaml");
        fs::write(&file, serde_saphyr::to_string(&config).expect("YAML")).expect("written");
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
    pub(super) fn wait_for_data(&self, query: &str) {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let answer = || self.get(&path).unwrap_or_default();
        let has_data = || {
            let answer: Value = serde_json::from_str(&answer().1).ok()?;
            let results = answer["data"]["result"].as_array()?.iter();
            results.filter_map(|result| result["value"][1].as_str()).any(|value| value != "NaN").then_some(())
        };
        until(query, has_data, || format!("{:?}\n{}", answer(), self.process.lines().join("\n")));
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
