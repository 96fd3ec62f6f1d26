//! Cases: histories of requests, one after the other.
//!
//! ```text
//! # a comment
//! POST /api/v1/namespaces/$ns/configmaps
//! {"metadata": {"name": "a"}}
//!
//! WATCH /api/v1/namespaces/$ns/configmaps?watch=1&resourceVersion=${-1/metadata/resourceVersion}
//!
//! PATCH /api/v1/namespaces/$ns/configmaps/a
//! Content-Type: application/merge-patch+json
//! {"metadata": {"resourceVersion": "${-2/metadata/resourceVersion}"}}
//! ```
//!
//! `$ns` is the case's own namespace, which the harness creates. `${-1/path}`
//! is what the answer to the request before has at that path. `WATCH` is a GET
//! whose stream is read until the end of the case. An empty line ends a
//! request. A file holds one case of its own name, or several, each below a
//! line `=== NAME`. Cases that use `random.example` find its definitions
//! installed. `$hooks` is the address of the webhooks in `hooks`, and `$ca` is
//! their certificate authority.

use std::fmt;

use serde_json::Value;

use crate::hooks;

/// A history.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name of the case and of its namespace.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// By which later requests name the answer to this one: `${@ID/path}`.
    pub(crate) id: usize,
    pub(crate) line: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The group of the definitions that random histories use.
pub(crate) const FIXTURE_GROUP: &str = "random.example";

impl Case {
    /// A case that only creates its namespace.
    pub(crate) fn new(name: &str) -> Self {
        let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"$ns"}}"#;
        Self { name: name.into(), steps: vec![Step::post("/api/v1/namespaces", namespace)] }
    }

    /// The cases of a file.
    pub(crate) fn parse_all(file: &str, text: &str) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        let mut name = file.to_owned();
        while lines.peek().is_some() {
            let mut section = Vec::new();
            let mut next = None;
            for (number, line) in lines.by_ref() {
                if let Some(other) = line.strip_prefix("=== ") {
                    next = Some(other.trim().to_owned());
                    break;
                }
                section.push((number + 1, line));
            }
            if section.iter().any(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
                cases.push(Self::parse(&name, &section));
            }
            if let Some(next) = next {
                name = next;
            }
        }
        cases
    }

    fn parse(name: &str, lines: &[(usize, &str)]) -> Self {
        let mut case = Self::new(name);
        let mut step: Option<Step> = None;
        for (number, line) in lines {
            let content = line.trim();
            match &mut step {
                _ if content.starts_with('#') => {}
                None if content.is_empty() => {}
                None => {
                    let (method, path) = content.split_once(' ').expect("a request begins with method and path");
                    let (method, path) = (method.to_owned(), path.trim().to_owned());
                    step = Some(Step { id: case.steps.len(), line: *number, method, path, ..Step::default() });
                }
                Some(_) if content.is_empty() => case.steps.extend(step.take()),
                Some(step) if step.body.is_empty() && is_header(content) => {
                    let (name, value) = content.split_once(':').expect("a header has a colon");
                    step.headers.push((name.to_lowercase(), value.trim().to_owned()));
                }
                Some(step) => {
                    step.body.push_str(content);
                    step.body.push('\n');
                }
            }
        }
        case.steps.extend(step);
        for (index, step) in case.steps.iter_mut().enumerate() {
            step.body = step.body.trim_end().to_owned();
            let absolute = |back: &str| {
                let back: usize = back.parse().expect("a reference counts backwards");
                Some(format!("${{@{}/", index - back))
            };
            step.path = replaced(&step.path, "${-", &absolute);
            step.body = replaced(&step.body, "${-", &absolute);
            for (_, value) in &mut step.headers {
                *value = replaced(value, "${-", &absolute);
            }
        }
        case
    }

    /// Returns whether the case uses the definitions of [`FIXTURE_GROUP`].
    pub(crate) fn needs_fixture(&self) -> bool {
        self.steps.iter().any(|step| step.path.contains(FIXTURE_GROUP))
    }
}

/// The case as a section of a file.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "=== {}", self.name)?;
        for (index, step) in self.steps.iter().enumerate().skip(1) {
            let relative = |id: &str| {
                let at = self.steps.iter().position(|other| other.id.to_string() == id)?;
                Some(format!("${{-{}/", index - at))
            };
            writeln!(f, "{} {}", step.method, replaced(&step.path, "${@", &relative))?;
            for (name, value) in &step.headers {
                writeln!(f, "{name}: {}", replaced(value, "${@", &relative))?;
            }
            if !step.body.is_empty() {
                writeln!(f, "{}", replaced(&step.body, "${@", &relative))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn is_header(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
}

/// A string in which the head of each reference, from `prefix` to the slash, is replaced.
fn replaced(text: &str, prefix: &str, head: &dyn Fn(&str) -> Option<String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(prefix) {
        let (number, after) = after.split_once('/').expect("a reference has a path");
        result.push_str(before);
        result.push_str(&head(number).unwrap_or_else(|| format!("{prefix}{number}/")));
        rest = after;
    }
    result + rest
}

impl Step {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: "GET".into(), path: path.into(), ..Self::default() }
    }

    pub(crate) fn post(path: &str, body: impl Into<String>) -> Self {
        Self { method: "POST".into(), path: path.into(), body: body.into(), ..Self::default() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the response is a stream that is read until the end of the history.
    pub(crate) fn is_watch(&self) -> bool {
        self.method == "WATCH"
    }

    /// Returns whether the real server may answer from its cache, which lags behind by a moment.
    pub(crate) fn reads_cache(&self) -> bool {
        self.is_watch() || self.path.contains("watch=1") || self.path.contains("resourceVersion=")
    }

    /// The headers of the case, and those that every client sends.
    pub(crate) fn sent_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let mut default = |name: &str, value: &str| {
            if self.header(name).is_none() {
                headers.push((name.to_owned(), value.to_owned()));
            }
        };
        default("user-agent", "differential/1");
        default("accept", "application/json");
        if !self.body.is_empty() {
            default("content-type", "application/json");
        }
        headers
    }

    /// The ids of the requests whose answers it takes something from.
    pub(crate) fn references(&self) -> Vec<usize> {
        let texts = [&self.path, &self.body];
        let heads = texts.iter().flat_map(|text| text.split("${@").skip(1));
        heads.filter_map(|rest| rest.split_once('/')?.0.parse().ok()).collect()
    }

    /// The request in a namespace, with what it takes from earlier answers.
    pub(crate) fn filled(&self, namespace: &str, answer: &dyn Fn(usize) -> String) -> Self {
        let mut step = self.clone();
        step.path = fill(&step.path, answer).replace("$ns", namespace);
        step.body = hooks::filled(fill(&step.body, answer).replace("$ns", namespace));
        for (_, value) in &mut step.headers {
            *value = fill(value, answer).replace("$ns", namespace);
        }
        step
    }
}

fn fill(text: &str, answer: &dyn Fn(usize) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${@") {
        let (reference, after) = after.split_once('}').expect("a reference is closed");
        let (id, path) = reference.split_once('/').expect("a reference has a path");
        let answer: Value = serde_json::from_str(&answer(id.parse().expect("an id is a number"))).unwrap_or_default();
        let value = answer.pointer(&format!("/{path}")).cloned().unwrap_or_default();
        filled.push_str(before);
        filled.push_str(&value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
        rest = after;
    }
    filled + rest
}
