//! What may differ between two servers is made the same: uids, versions and times.

use std::collections::BTreeMap;

use serde_json::Value;

/// The names that stand for uids and versions of one history.
#[derive(Default)]
pub(crate) struct Normal {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
}

impl Normal {
    /// A body, one JSON value or one a line.
    pub(crate) fn body(&mut self, body: &str) -> String {
        if let Ok(mut value) = serde_json::from_str::<Value>(body) {
            self.value(&mut value, "");
            return pretty(&value);
        }
        let lines: Vec<_> = body
            .lines()
            .map(|line| match serde_json::from_str::<Value>(line) {
                Ok(mut value) => {
                    self.value(&mut value, "");
                    value.to_string()
                }
                Err(_) => self.text(line),
            })
            .collect();
        lines.join("\n")
    }

    fn value(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::Object(entries) => {
                // The fields of each manager are compared by the tests of `patch`.
                entries.remove("managedFields");
                // The real server walks a schema's properties in the random order of a Go map.
                if let Some(Value::Array(causes)) = entries.get_mut("details").and_then(|all| all.get_mut("causes")) {
                    causes.sort_by_key(Value::to_string);
                    if let Some(Value::String(message)) = entries.get_mut("message") {
                        *message = sorted(message);
                    }
                }
                if entries.get("type").is_some_and(|kind| kind == "BOOKMARK")
                    && let Some(version) =
                        entries.get_mut("object").and_then(|object| object.pointer_mut("/metadata/resourceVersion"))
                {
                    *version = "BOOKMARK".into();
                }
                let is_list = entries.contains_key("items") || entries.contains_key("rows");
                for (key, value) in entries.iter_mut() {
                    match (is_list, key.as_str()) {
                        (true, "metadata") => {
                            // Others write too: only that there is a version can be compared.
                            if let Some(version) = value.get_mut("resourceVersion") {
                                *version = "LIST".into();
                            }
                            if let Some(token) = value.get_mut("continue") {
                                *token = "CONTINUE".into();
                            }
                        }
                        // Ports that nodes open are drawn from a range.
                        (_, "cells") => {
                            for cell in value.as_array_mut().into_iter().flatten() {
                                // How old an object is depends on how fast the servers are.
                                if cell.as_str().is_some_and(is_age) {
                                    *cell = "AGE".into();
                                } else {
                                    self.value(cell, "");
                                }
                            }
                        }
                        (_, "nodePort" | "healthCheckNodePort") => {
                            if is_port(&value.to_string()) {
                                *value = self.named(&value.to_string(), "PORT").into();
                            }
                        }
                        _ => self.value(value, key),
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, "");
                }
            }
            Value::String(text) => {
                if let (true, Ok(_)) = (key == "resourceVersion", text.parse::<u64>()) {
                    let next = format!("VERSION-{}", self.versions.len());
                    *text = self.versions.entry(text.clone()).or_insert(next).clone();
                } else {
                    *text = self.text(text);
                }
            }
            _ => {}
        }
    }

    /// The name that stands for a value of this history.
    fn named(&mut self, value: &str, what: &str) -> String {
        let next = format!("{what}-{}", self.names.len());
        self.names.entry(value.to_owned()).or_insert(next).clone()
    }

    /// A string: uids become names, times and versions in messages are masked.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut normal = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            if rest.get(..36).is_some_and(is_uid) {
                let next = format!("UID-{}", self.uids.len());
                normal.push_str(self.uids.entry(rest[..36].to_owned()).or_insert(next));
                rest = &rest[36..];
            } else if rest.get(..20).is_some_and(is_time) {
                normal.push_str("TIME");
                rest = &rest[20..];
            } else if let Some(length) = address(rest).filter(|_| !normal.ends_with(is_part)) {
                let named = self.named(&rest[..length], "ADDRESS");
                normal.push_str(&named);
                rest = &rest[length..];
            } else if let Some(port) =
                rest.strip_prefix(':').and_then(|rest| rest.get(..5)).filter(|port| is_port(port))
            {
                let named = self.named(port, "PORT");
                normal.push(':');
                normal.push_str(&named);
                rest = &rest[6..];
            } else {
                let char = rest.chars().next().unwrap_or_default();
                normal.push(char);
                rest = &rest[char.len_utf8()..];
            }
        }
        // A generated name ends in five random letters.
        if let Some(base) = normal.strip_prefix("generated-").filter(|suffix| suffix.len() == 5) {
            let next = format!("GENERATED-{}", self.names.len());
            return self.names.entry(base.to_owned()).or_insert(next).clone();
        }
        for before in ["current: ", "the ResourceVersion in record (", "too old resource version: "] {
            if let Some((start, after)) = normal.split_once(before) {
                let digits =
                    after.chars().take_while(|char| char.is_ascii_digit() || *char == ' ' || *char == '(').count();
                normal = format!("{start}{before}N{}", &after[digits..]);
            }
        }
        normal
    }
}

/// A message with its list of causes, `[a, b]`, in alphabetical order.
fn sorted(message: &str) -> String {
    let list = message.split_once(": [").and_then(|(start, list)| Some((start, list.strip_suffix(']')?)));
    let Some((start, list)) = list else { return message.to_owned() };
    let mut causes: Vec<_> = list.split(", ").collect();
    causes.sort_unstable();
    format!("{start}: [{}]", causes.join(", "))
}

/// The length of an address within the cluster, whose network is a setting of the server.
fn address(text: &str) -> Option<usize> {
    let length = text.find(|char| !is_part(char)).unwrap_or(text.len());
    let address = text[..length].trim_end_matches('.');
    (address.starts_with("10.") && address.parse::<std::net::Ipv4Addr>().is_ok()).then_some(address.len())
}

fn is_part(char: char) -> bool {
    char.is_ascii_digit() || char == '.'
}

/// One of the ports that nodes open, but for those that cases choose.
fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| (30_086..32_768).contains(&port))
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|seconds| seconds.parse::<u8>().is_ok())
}

fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00Z";
    text.bytes()
        .zip(shape.bytes())
        .all(|(byte, shape)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value can be written")
}
