//! Normalization of values that may differ between two servers: uids, versions and times.
//!
//! A version is replaced by its rank among the versions of the history, so that their order is
//! compared. A list has the rank of the last version before it.

mod ports;
mod shapes;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use self::ports::{Ports, State};
use self::shapes::{address, generated, is_age, is_part, is_port, is_time, is_uid};
use crate::server::Answer;

/// The headers that are compared.
const COMPARED: [&str; 5] = ["content-type", "warning", "retry-after", "allow", "etag"];

/// Fields whose values are not compared, only that they are there; with the reason. It may only get shorter.
pub(crate) const MASKED: [(&str, &str); 1] = [("continue", "the token is opaque to clients")];

/// Fields of `/version` about the build of the server, not about its behavior.
const BUILD: [&str; 6] = ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];

/// The answers of a history in a form that does not depend on when and where they were given.
pub(crate) fn normal(answers: Vec<Answer>) -> Vec<Answer> {
    let mut parts = Parts::default();
    let bodies: Vec<Vec<usize>> = answers.iter().map(|answer| parts.of(&answer.body)).collect();
    let (mut versions, mut ports) = (BTreeSet::new(), Ports::default());
    for value in parts.all.iter().filter_map(|part| part.value.as_ref().ok()) {
        collect_versions(value, &mut versions);
        ports.collect(value);
    }
    let mut all = parts.all;
    let mut normal = Normal { versions, ports, ..Normal::default() };
    let answers = answers.into_iter().zip(bodies).map(|(answer, body)| {
        let headers = answer.headers.into_iter().filter(|(name, _)| COMPARED.contains(&name.as_str()));
        let mut headers: Vec<_> = headers.map(|(name, value)| (name, normal.text(&value))).collect();
        sort_violations(&mut headers);
        let body: Vec<_> = body.into_iter().map(|index| normal.part(&mut all[index])).collect();
        Answer { status: answer.status, headers, body: body.join("\n") }
    });
    answers.collect()
}

/// Sorts the warnings about rules that are violated as before: the real server walks objects in the random order of a Go
/// map.
fn sort_violations(headers: &mut [(String, String)]) {
    const VIOLATED: [&str; 4] = [": Invalid value: ", ": Forbidden: ", ": Required value: ", ": Duplicate value: "];
    let places: Vec<_> = (0..headers.len())
        .filter(|at| headers[*at].0 == "warning" && VIOLATED.iter().any(|words| headers[*at].1.contains(words)))
        .collect();
    let mut violations: Vec<_> = places.iter().map(|at| headers[*at].clone()).collect();
    violations.sort();
    for (at, violation) in places.into_iter().zip(violations) {
        headers[at] = violation;
    }
}

/// The parts of all bodies. Watches of the same objects show the same events: each is made normal once.
#[derive(Default)]
struct Parts<'a> {
    known: HashMap<&'a str, usize>,
    all: Vec<Part>,
}

/// A body, or a line of a stream or a text, decoded where it is JSON.
struct Part {
    value: Result<Value, String>,
    is_line: bool,
    normal: Option<String>,
}

impl<'a> Parts<'a> {
    /// The indexes of the parts of a body.
    fn of(&mut self, text: &'a str) -> Vec<usize> {
        if text.starts_with(r#"{"type":"#) {
            return text.lines().map(|line| self.line(line)).collect();
        }
        let value = match serde_json::from_str(text) {
            Ok(value) => value,
            // An object in YAML; how its strings are quoted is up to the writer.
            Err(_) if text.starts_with("apiVersion:") => match serde_saphyr::from_str(text) {
                Ok(value) => value,
                Err(error) => return vec![self.add(text, Err(error.to_string()), true)],
            },
            Err(_) => return text.lines().map(|line| self.line(line)).collect(),
        };
        vec![self.add(text, Ok(value), false)]
    }

    fn line(&mut self, line: &'a str) -> usize {
        match self.known.get(line) {
            Some(index) => *index,
            None => self.add(line, serde_json::from_str(line).map_err(|_| line.to_owned()), true),
        }
    }

    fn add(&mut self, text: &'a str, value: Result<Value, String>, is_line: bool) -> usize {
        self.known.insert(text, self.all.len());
        self.all.push(Part { value, is_line, normal: None });
        self.all.len() - 1
    }
}

fn is_list(entries: &serde_json::Map<String, Value>) -> bool {
    entries.contains_key("items") || entries.contains_key("rows")
}

fn is_bookmark(value: &Value) -> bool {
    value["type"] == "BOOKMARK"
}

/// The versions of objects; those of lists and bookmarks depend on other writers.
fn collect_versions(value: &Value, versions: &mut BTreeSet<u64>) {
    match value {
        Value::Object(_) if is_bookmark(value) => {}
        Value::Object(entries) => {
            for (key, value) in entries {
                match (key.as_str(), value.as_str().and_then(|text| text.parse().ok())) {
                    ("metadata", _) if is_list(entries) => {}
                    ("resourceVersion", Some(version)) => drop(versions.insert(version)),
                    _ => collect_versions(value, versions),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_versions(item, versions)),
        _ => {}
    }
}

/// The names that stand for uids, versions and generated names of one history.
#[derive(Default)]
struct Normal {
    uids: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
    versions: BTreeSet<u64>,
    ports: Ports,
    /// The object that is made normal.
    state: State,
}

impl Normal {
    fn part(&mut self, part: &mut Part) -> String {
        if let Some(normal) = &part.normal {
            return normal.clone();
        }
        let normal = match &mut part.value {
            Ok(value) => {
                self.value(value, "");
                if part.is_line { value.to_string() } else { format!("{value:#}") }
            }
            Err(text) => self.text(text),
        };
        part.normal.insert(normal).clone()
    }

    fn value(&mut self, value: &mut Value, key: &str) {
        let bookmark = is_bookmark(value);
        // A row of a table has its object beside its cells.
        if let Some(state) = ports::state(value).or_else(|| ports::state(value.get("object")?)) {
            self.state = state;
        }
        match value {
            Value::Object(entries) => {
                // A review is never stored: who owns its fields means nothing.
                if entries.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("Review")) {
                    entries.insert("metadata".into(), "REVIEW".into());
                }
                // Who built the server, and with which compiler.
                if entries.contains_key("gitVersion") {
                    for (_, value) in entries.iter_mut().filter(|(key, _)| BUILD.contains(&key.as_str())) {
                        *value = "BUILD".into();
                    }
                }
                // Entries of the same kind are sorted by their times, which have seconds only.
                if let Some(Value::Array(owners)) = entries.get_mut("managedFields") {
                    for owner in owners.iter_mut() {
                        self.value(owner, "");
                    }
                    owners.sort_by_key(Value::to_string);
                }
                // The real server walks a schema's properties in the random order of a Go map.
                if let Some(Value::Array(causes)) = entries.get_mut("details").and_then(|all| all.get_mut("causes")) {
                    for cause in causes.iter_mut() {
                        if let Value::String(message) = &mut cause["message"] {
                            *message = self.patched(message);
                        }
                    }
                    // Metadata is validated up to four times for one write.
                    causes.sort_by_key(Value::to_string);
                    causes.dedup();
                    if let Some(Value::String(message)) = entries.get_mut("message") {
                        *message = self.patched(&sorted(message));
                    }
                }
                // A table has the bookmark in its only row.
                for pointer in ["/metadata/resourceVersion", "/rows/0/object/metadata/resourceVersion"] {
                    let object = entries.get_mut("object").filter(|_| bookmark);
                    if let Some(version) = object.and_then(|object| object.pointer_mut(pointer)) {
                        *version = self.reached(version).into();
                    }
                }
                // Of an ExternalName, events show what is stored where three watches or more get them, and else what
                // reads show.
                if entries.get("type").is_some_and(|kind| kind == "ExternalName") {
                    entries.remove("internalTrafficPolicy");
                }
                // A path of `managedFields` may name an owner by its uid.
                if key == "f:ownerReferences" {
                    *entries =
                        std::mem::take(entries).into_iter().map(|(key, value)| (self.text(&key), value)).collect();
                }
                let is_list = is_list(entries);
                // The port that the server itself listens on, where it publishes that.
                let published = entries.get("name").is_some_and(|name| name == "https");
                for (key, value) in entries.iter_mut() {
                    if published
                        && matches!(key.as_str(), "port" | "targetPort")
                        && value.as_u64().is_some_and(|port| port > 10_000)
                    {
                        *value = "SERVER".into();
                    }
                    if key == "cells" {
                        for cell in value.as_array_mut().into_iter().flatten() {
                            // The age of an object depends on the speed of the servers and on the
                            // date.
                            if let Value::String(text) = cell {
                                let word = |word| if is_age(word) { "AGE" } else { word };
                                let of_restart = text.split_once(" (").and_then(|(count, rest)| {
                                    let age = word(rest.strip_suffix(" ago)")?);
                                    Some(format!("{count} ({age} ago)"))
                                });
                                *text = of_restart.unwrap_or_else(|| word(text).to_owned());
                            }
                        }
                    }
                    // Ports that nodes open are drawn from a range.
                    if matches!(key.as_str(), "nodePort" | "healthCheckNodePort") && is_port(&value.to_string()) {
                        *value = self.port(&value.to_string()).into();
                    }
                    if key == "metadata"
                        && is_list
                        && let Some(version) = value.get_mut("resourceVersion")
                    {
                        *version = self.reached(version).into();
                    }
                    if MASKED.iter().any(|(masked, _)| masked == key) && value.as_str() != Some("") {
                        *value = key.to_uppercase().into();
                    }
                    if key == "token" && value.as_str().is_some_and(|token| token.len() > 40) {
                        *value = "TOKEN".into();
                    }
                    self.value(value, key);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, "");
                }
            }
            Value::String(text) => {
                *text = match text.parse::<u64>() {
                    Ok(version) if key == "resourceVersion" => self.version(version),
                    _ => self.text(text),
                };
            }
            _ => {}
        }
    }

    /// A message with the object that a patch led to in alphabetical order: on the real server, its members are in the
    /// order of a Go map.
    fn patched(&mut self, message: &str) -> String {
        let parts = message.split_once("Invalid value: \"{").and_then(|(start, rest)| {
            let end = closing_quote(rest)?;
            let text: String = serde_json::from_str(&format!("\"{{{}\"", &rest[..end])).ok()?;
            Some((start, serde_json::from_str(&text).ok()?, &rest[end + 1..]))
        });
        let Some((start, mut object, rest)): Option<(&str, Value, &str)> = parts else { return message.to_owned() };
        self.value(&mut object, "");
        format!("{start}Invalid value: {object}{rest}")
    }

    /// The name that stands for an address of this history.
    fn named(&mut self, address: &str) -> String {
        let next = format!("ADDRESS-{}", self.names.len());
        self.names.entry(address.to_owned()).or_insert(next).clone()
    }

    /// The name of a port that nodes open for the object.
    fn port(&mut self, port: &str) -> String {
        self.ports.name(&self.state, port.parse().unwrap_or_default())
    }

    /// The rank of a version.
    fn version(&self, version: u64) -> String {
        format!("VERSION-{}", self.versions.range(..version).count())
    }

    /// A string in which the versions behind some words are their ranks.
    fn ranked(&self, text: &str, before: &str) -> String {
        let mut parts = text.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            let (digits, rest) = part.split_at(part.find(|char: char| !char.is_ascii_digit()).unwrap_or(part.len()));
            let version = digits.parse().map_or_else(|_| digits.to_owned(), |version| self.version(version));
            all + before + &version + rest
        })
    }

    /// The last version of the history that a list or a bookmark has reached.
    fn reached(&self, version: &Value) -> String {
        let version = version.as_str().and_then(|text| text.parse::<u64>().ok());
        version.map_or_else(String::new, |version| format!("AFTER-{}", self.versions.range(..=version).count()))
    }

    /// Returns the placeholder for the part of a string that begins here, if there is one, and the
    /// length of that part.
    fn stand_in(&mut self, text: &str, at: usize) -> Option<(String, usize)> {
        let bytes = &text.as_bytes()[at..];
        let is = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
        match bytes[0] {
            b'0'..=b'9' | b'a'..=b'f' if is(8, b'-') && text[at..].get(..36).is_some_and(is_uid) => {
                let next = format!("UID-{}", self.uids.len());
                Some((self.uids.entry(text[at..at + 36].to_owned()).or_insert(next).clone(), 36))
            }
            b'0'..=b'9' if is(4, b'-') && text[at..].get(..20).is_some_and(is_time) => Some(("TIME".to_owned(), 20)),
            b'1' if is(1, b'0') && is(2, b'.') && !text[..at].ends_with(is_part) => {
                let length = address(&text[at..])?;
                Some((self.named(&text[at..at + length]), length))
            }
            b':' if bytes.get(1).is_some_and(u8::is_ascii_digit) && !text[..at].ends_with("resourceVersion") => {
                let port = text[at + 1..].get(..5).filter(|port| is_port(port))?;
                Some((format!(":{}", self.port(port)), 6))
            }
            b'T' | b'U' | b'S' if text[..at].ends_with("duplicate nodePort: {") => {
                let port = text[at..].get(4..9).filter(|port| is_port(port))?;
                Some((format!("{}{}", &text[at..at + 4], self.port(port)), 9))
            }
            b'g' => {
                let (base, after) = generated(&text[at..])?;
                Some((format!("{base}RANDOM"), text.len() - at - after.len()))
            }
            _ => None,
        }
    }

    /// A string: uids become names, times and versions in messages are masked.
    fn text(&mut self, text: &str) -> String {
        let mut normal = String::new();
        let (mut copied, mut at) = (0, 0);
        while at < text.len() {
            match self.stand_in(text, at) {
                Some((stand_in, length)) => {
                    normal.push_str(&text[copied..at]);
                    normal.push_str(&stand_in);
                    at += length;
                    copied = at;
                }
                None => at += 1,
            }
        }
        normal.push_str(&text[copied..]);
        // The rest applies to messages only.
        if !normal.as_bytes().contains(&b' ') {
            return normal;
        }
        // A refused pod update is explained by a diff of Go values, which is left out.
        if let Some((start, rest)) = normal.split_once("if it was previously negative)\n") {
            let end = rest.rfind(']').filter(|_| normal.contains("is invalid: [")).map_or("", |end| &rest[end..]);
            normal = format!("{start}if it was previously negative){end}");
        }
        // Fields of a map are checked in random order.
        if let Some((start, errors)) = normal.split_once("errors:\n") {
            let mut errors: Vec<_> = errors.lines().collect();
            errors.sort_unstable();
            normal = format!("{start}errors:\n{}", errors.join("\n"));
        }
        for before in [
            "ResourceVersion in the precondition (",
            "ResourceVersion in record (",
            "[resourceVersion:",
            " resourceVersion:",
        ] {
            normal = self.ranked(&normal, before);
        }
        for before in ["current: ", "too old resource version: "] {
            if let Some((start, after)) = normal.split_once(before) {
                let digits =
                    after.chars().take_while(|char| char.is_ascii_digit() || *char == ' ' || *char == '(').count();
                normal = format!("{start}{before}N{}", &after[digits..]);
            }
        }
        normal
    }
}

/// Where a string of Go ends that began before.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// A message with its list of causes, `[a, b]`, in alphabetical order.
fn sorted(message: &str) -> String {
    let list = message.split_once(": [").and_then(|(start, list)| Some((start, list.strip_suffix(']')?)));
    let Some((start, list)) = list else { return message.to_owned() };
    let mut causes: Vec<_> = list.split(", ").collect();
    causes.sort_unstable();
    format!("{start}: [{}]", causes.join(", "))
}

/// `/version` of a server, with what its build decides.
fn version_of(build: &Value, minor: &str) -> Vec<Answer> {
    let mut body = serde_json::json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.3")});
    for key in BUILD {
        body[key] = build[key].clone();
    }
    normal(vec![Answer { status: 200, headers: Vec::new(), body: body.to_string() }])
}

#[test]
fn a_server_that_others_built_differs_by_its_version_alone() {
    let built = |commit: &str, platform: &str| {
        serde_json::json!({
            "gitCommit": commit, "gitTreeState": "archive", "buildDate": "2026-07-22T18:07:38Z",
            "goVersion": "go1.26.8", "compiler": "gc", "platform": platform,
        })
    };
    let release = version_of(&built("1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d", "darwin/arm64"), "36");
    let here = version_of(&built("0000000000000000000000000000000000000000", "linux/amd64"), "36");
    assert_eq!(release[0].body, here[0].body);
    let older = version_of(&built("0000000000000000000000000000000000000000", "linux/amd64"), "35");
    assert_ne!(older[0].body, here[0].body);
}
