//! Cases: histories of requests, one after the other.
//!
//! ```text
//! # a comment
//! POST /api/v1/namespaces/$ns/configmaps
//! {"metadata": {"name": "a"}}
//!
//! PATCH /api/v1/namespaces/$ns/configmaps/a
//! Content-Type: application/merge-patch+json
//! {"metadata": {"resourceVersion": "${-1/metadata/resourceVersion}"}}
//! ```
//!
//! `$ns` is the case's own namespace, which the harness creates. `${-1/path}`
//! is what the answer to the request before has at that path. An empty line
//! ends a request.

use serde_json::Value;

/// A history.
pub(crate) struct Case {
    pub(crate) steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Case {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut namespace = Step { method: "POST".into(), path: "/api/v1/namespaces".into(), ..Step::default() };
        namespace.body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        let mut steps = vec![namespace];
        let mut step: Option<Step> = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.replace("$ns", name);
            let content = line.trim();
            match &mut step {
                _ if content.starts_with('#') => {}
                None if content.is_empty() => {}
                None => {
                    let (method, path) = content.split_once(' ').expect("a request begins with method and path");
                    step = Some(Step {
                        line: number + 1,
                        method: method.into(),
                        path: path.trim().into(),
                        ..Step::default()
                    });
                }
                Some(_) if content.is_empty() => steps.extend(step.take()),
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
        steps.extend(step);
        for step in &mut steps {
            step.body = step.body.trim_end().to_owned();
        }
        Self { steps }
    }
}

fn is_header(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
}

impl Step {
    pub(crate) fn get(path: &str) -> Self {
        Self { method: "GET".into(), path: path.into(), ..Self::default() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
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

    /// The request with what it takes from earlier answers.
    pub(crate) fn filled(&self, answers: &[&str]) -> Self {
        let mut step = self.clone();
        step.path = fill(&step.path, answers);
        step.body = fill(&step.body, answers);
        step
    }
}

fn fill(text: &str, answers: &[&str]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${-") {
        let (reference, after) = after.split_once('}').expect("a reference is closed");
        let (back, path) = reference.split_once('/').expect("a reference has a path");
        let back: usize = back.parse().expect("a reference counts backwards");
        let answer: Value = serde_json::from_str(answers[answers.len() - back]).unwrap_or_default();
        let value = answer.pointer(&format!("/{path}")).cloned().unwrap_or_default();
        filled.push_str(before);
        filled.push_str(&value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
        rest = after;
    }
    filled + rest
}
