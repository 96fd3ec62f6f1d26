//! The objects of a history without what is another one in each history: uids, generated names, hashes, times and
//! addresses, also inside of longer texts.

use std::collections::HashMap;
use std::net::IpAddr;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// Metadata fields that the server assigns, or that count writes.
const ASSIGNED: [&str; 5] = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"];

/// The annotations and labels that count the changes of a Deployment or a DaemonSet begin so.
const COUNTERS: [&str; 3] =
    ["deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation", "pod-template-generation"];

/// The labels whose values are hashes of templates.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

const TIME: &str = "(a time)";
const UID: &str = "(a uid)";
const HASH: &str = "(a hash)";
const ADDRESS: &str = "(an address)";

/// The length of a uid, and of the part of it that names often end in.
const UID_LENGTH: usize = 36;
const SHORT_UID: usize = 8;

/// Placeholders for texts that differ between histories.
pub(super) struct Placeholders {
    /// Each text with its placeholder, by the first word.
    known: HashMap<String, Vec<(String, String)>>,
    span: Span,
    /// The first and the last day of the history, such as `20260102`.
    days: (String, String),
}

/// When a history began and ended, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub(super) began: i64,
    pub(super) ended: i64,
}

impl Placeholders {
    /// Those of what the objects of one history have.
    pub(super) fn of(objects: &[Value], span: Span) -> Self {
        let mut all = Self { known: HashMap::new(), span, days: (day(span.began), day(span.ended)) };
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if let Some(uid) = object["metadata"]["uid"].as_str() {
                all.add(uid, format!("(uid of a {kind})"));
                all.add(&uid.replace('-', ""), format!("(uid of a {kind})"));
                if let Some(short) = uid.get(..SHORT_UID) {
                    all.add(short, format!("(uid of a {kind}, {SHORT_UID} characters)"));
                }
            }
            for hash in HASHES.iter().filter_map(|label| object["metadata"]["labels"][label].as_str()) {
                // That of a StatefulSet's pod is the name of a revision, which ends in its hash.
                all.add(hash.rsplit('-').next().unwrap_or(hash), HASH.to_owned());
            }
            all.add_addresses(object);
        }
        // The prefix of a generated name may contain a hash.
        for (name, prefix) in objects.iter().filter_map(generated) {
            let placeholder = format!("{}…", all.text(prefix));
            all.add(name, placeholder);
        }
        all
    }

    /// Adds a text that is another one in each history.
    pub(super) fn add(&mut self, text: &str, placeholder: String) {
        let word = &text[..word_end(text, 0)];
        if !word.is_empty() {
            let known = self.known.entry(word.to_owned()).or_default();
            known.retain(|(other, _)| other != text);
            known.push((text.to_owned(), placeholder));
        }
    }

    fn add_addresses(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => fields.values().for_each(|value| self.add_addresses(value)),
            Value::Array(items) => items.iter().for_each(|value| self.add_addresses(value)),
            Value::String(text) if text.parse::<IpAddr>().is_ok() => self.add(text, ADDRESS.to_owned()),
            _ => {}
        }
    }

    /// An object without what differs, and without what the server assigns.
    pub(super) fn object(&self, mut object: Value) -> Value {
        if object["kind"] == "Secret" {
            object["data"].as_object_mut().into_iter().flatten().for_each(|(_, value)| decode(value));
        }
        assigned(&mut object);
        if let Some(status) = object.get_mut("status") {
            without_generations(status);
        }
        self.value(&mut object);
        object
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.fields(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::String(text) => {
                if let Some(mut inner) = embedded(text) {
                    self.value(&mut inner);
                    *text = inner.to_string();
                } else {
                    *text = self.text(text);
                }
            }
            Value::Number(number) => {
                let digits = number.to_string();
                if self.time(&digits, 0) == Some(digits.len()) {
                    *value = TIME.into();
                }
            }
            _ => {}
        }
    }

    fn fields(&self, fields: &mut Map<String, Value>) {
        let mut named: HashMap<String, Vec<Value>> = HashMap::new();
        for (name, mut value) in std::mem::take(fields) {
            self.value(&mut value);
            if let Value::Array(items) = &mut value {
                match name.as_str() {
                    // In the order in which they were added, which means nothing.
                    "finalizers" | "ownerReferences" => items.sort_by_cached_key(Value::to_string),
                    "conditions" => items.sort_by_cached_key(|condition| condition["type"].to_string()),
                    _ => {}
                }
            }
            named.entry(self.text(&name)).or_default().push(value);
        }
        for (name, mut values) in named {
            // Several names may have one placeholder.
            values.sort_by_cached_key(Value::to_string);
            let value = if values.len() > 1 { values.into() } else { values.pop().unwrap_or_default() };
            fields.insert(name, value);
        }
    }

    /// A text without what differs.
    pub(super) fn text(&self, text: &str) -> String {
        if text.parse::<IpAddr>().is_ok() {
            return ADDRESS.to_owned();
        }
        let mut replaced = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(begin) = text[at..].find(|c: char| c.is_ascii_alphanumeric()) {
            replaced.push_str(&text[at..at + begin]);
            at += begin;
            let (end, placeholder) = self.at(text, at).unwrap_or_else(|| {
                let end = word_end(text, at);
                (end, &text[at..end])
            });
            replaced.push_str(placeholder);
            at = end;
        }
        replaced.push_str(&text[at..]);
        replaced
    }

    /// Finds a text that begins at this word and differs between histories. Returns its end and its
    /// placeholder.
    fn at(&self, text: &str, at: usize) -> Option<(usize, &str)> {
        let (rest, word) = (&text[at..], &text[at..word_end(text, at)]);
        if word.starts_with(|c: char| c.is_ascii_digit())
            && let Some(end) = self.time(text, at)
        {
            return Some((end, TIME));
        }
        let is_whole = |known: &str| {
            rest.strip_prefix(known).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        };
        let all = self.known.get(word).into_iter().flatten();
        let longest = all.filter(|(known, _)| is_whole(known)).max_by_key(|(known, _)| known.len());
        if let Some((known, placeholder)) = longest {
            return Some((at + known.len(), placeholder));
        }
        let is_uid = word.len() == SHORT_UID && rest.get(..UID_LENGTH).is_some_and(|uid| is_uid(uid) && is_whole(uid));
        is_uid.then_some((at + UID_LENGTH, UID))
    }

    /// Returns whether the history ran on this day, such as `20260102`.
    fn is_day(&self, day: &str) -> bool {
        (&*self.days.0..=&*self.days.1).contains(&day)
    }

    /// The end of a time that begins at this place. A date, or a number, is one if the history was then.
    fn time(&self, text: &str, at: usize) -> Option<usize> {
        let bytes = text.as_bytes().get(at..)?;
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let like = |pattern: &[u8], from: usize| {
            let part = bytes.get(from..from + pattern.len());
            part.is_some_and(|part| {
                part.iter().zip(pattern).all(|(byte, as_)| match as_ {
                    b'0' => byte.is_ascii_digit(),
                    _ => byte == as_,
                })
            })
        };
        let end = match digits {
            4 if like(b"0000-00-00T00:00", 0) || like(b"0000-00-00 00:00", 0) => {
                let clock = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
                let end = 11 + bytes[11..].iter().take_while(clock).count();
                match bytes.get(end) {
                    Some(b'Z') => end + 1,
                    Some(b'+' | b'-') if like(b"00:00", end + 1) => end + 6,
                    _ => end,
                }
            }
            4 if like(b"0000-00-00", 0) && self.is_day(&text[at..at + 10].replace('-', "")) => 10,
            8 if self.is_day(&text[at..at + 8]) => match bytes.get(8) {
                Some(b'-' | b'_' | b'T') if like(b"000000Z", 9) => 16,
                Some(b'-' | b'_' | b'T') if like(b"000000", 9) => 15,
                _ => 8,
            },
            14 if self.is_day(&text[at..at + 8]) => 14,
            8 | 10 | 13 | 16 | 19 if self.span.has(&text[at..at + digits]) => match bytes.get(digits) {
                Some(b'.') if digits == 10 => 11 + bytes[11..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
                _ => digits,
            },
            _ => return None,
        };
        bytes.get(end).is_none_or(|next| !next.is_ascii_alphanumeric()).then_some(at + end)
    }
}

impl Span {
    /// Returns whether the digits are a time during the history: a Unix time in minutes, or in
    /// seconds, milliseconds, microseconds or nanoseconds.
    fn has(self, digits: &str) -> bool {
        let Ok(number) = digits.parse::<i64>() else { return false };
        let seconds = match digits.len() {
            8 => return (self.began / 60..=self.ended / 60).contains(&number),
            10 => number,
            13 => number / 1_000,
            16 => number / 1_000_000,
            _ => number / 1_000_000_000,
        };
        (self.began..=self.ended).contains(&seconds)
    }
}

/// A day, such as `20260102`.
fn day(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).strftime("%Y%m%d").to_string()
}

fn word_end(text: &str, at: usize) -> usize {
    text[at..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(text.len(), |length| at + length)
}

fn is_uid(text: &str) -> bool {
    let groups = text.split('-').map(str::len);
    groups.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// A name that was generated, and what it begins with.
fn generated(object: &Value) -> Option<(&str, &str)> {
    let metadata = &object["metadata"];
    let (prefix, name) = (metadata["generateName"].as_str()?, metadata["name"].as_str()?);
    name.starts_with(prefix).then_some((name, prefix))
}

/// A list or an object that a text has.
pub(super) fn embedded(text: &str) -> Option<Value> {
    let is_embedded = text.trim_start().starts_with(['{', '[']);
    is_embedded.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Reads what a Secret has, if it is text.
fn decode(value: &mut Value) {
    let bytes = serde_json::from_value(value.clone()).ok();
    if let Some(text) = bytes.and_then(|ByteString(bytes)| String::from_utf8(bytes).ok()) {
        *value = text.into();
    }
}

/// Removes what the server assigns to an object, and to the templates in it.
fn assigned(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(fields) = value.as_object_mut() {
                    if name == "metadata" {
                        fields.retain(|name, _| !ASSIGNED.contains(&name.as_str()));
                        for notes in ["annotations", "labels"] {
                            let notes = fields.get_mut(notes).and_then(Value::as_object_mut);
                            let is_counter = |name: &str| COUNTERS.iter().any(|counter| name.starts_with(counter));
                            notes.into_iter().for_each(|all| all.retain(|name, _| !is_counter(name)));
                        }
                    } else if name.ends_with("Ref") {
                        fields.remove("resourceVersion");
                    }
                }
                assigned(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(assigned),
        _ => {}
    }
}

fn without_generations(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("observedGeneration");
            fields.values_mut().for_each(without_generations);
        }
        Value::Array(items) => items.iter_mut().for_each(without_generations),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Placeholders, Span};

    const UID: &str = "0b5c8a2e-1f4d-4e6a-9c3b-7d2f1a0e9b8c";

    fn placeholders() -> Placeholders {
        let pod = json!({
            "kind": "Pod",
            "metadata": {
                "name": "web-6d4b75cb6d-x7k2p", "generateName": "web-6d4b75cb6d-", "uid": UID,
                "labels": {"pod-template-hash": "6d4b75cb6d"},
            },
            "status": {"podIP": "10.244.0.5"},
        });
        // 2026-11-23, from 12:00 to 13:00.
        Placeholders::of(&[pod], Span { began: 1_795_435_200, ended: 1_795_438_800 })
    }

    #[test]
    fn what_is_another_one_in_each_history_is_replaced_in_longer_texts() {
        let cases = [
            (format!("opened {UID}\n"), "opened (uid of a Pod)\n"),
            (format!("{}x {}", &UID[..8], &UID[..8]), "0b5c8a2ex (uid of a Pod, 8 characters)"),
            ("by 11111111-2222-4333-8444-555555555555.".to_owned(), "by (a uid)."),
            ("pod/web-6d4b75cb6d-x7k2p-data".to_owned(), "pod/web-(a hash)-…-data"),
            ("web-6d4b75cb6d".to_owned(), "web-(a hash)"),
            ("http://10.244.0.5:80/".to_owned(), "http://(an address):80/"),
            ("at 2026-01-02T03:04:05.678+01:00, and".to_owned(), "at (a time), and"),
            ("1795435260 1795435260123 29923921 1795439999".to_owned(), "(a time) (a time) (a time) 1795439999"),
            ("backup-20261123-121500 2026-11-23 2026-11-24".to_owned(), "backup-(a time) (a time) 2026-11-24"),
            ("1.2.3 is as it is: 1795435260a".to_owned(), "1.2.3 is as it is: 1795435260a"),
        ];
        for (text, expected) in cases {
            assert_eq!(placeholders().text(&text), expected);
        }
    }

    #[test]
    fn keys_and_documents_and_secrets_are_read_and_only_the_servers_own_fields_are_left_out() {
        let object = json!({
            "kind": "Secret", "metadata": {"uid": UID, "generation": 2, "labels": {"generation": "3"}},
            "data": {"owner": "MGI1YzhhMmUtMWY0ZC00ZTZhLTljM2ItN2QyZjFhMGU5Yjhj", "bytes": "/w=="},
            "status": {"observedGeneration": 2, UID: 1_795_435_260, "json": format!("[ \"{UID}\" ]")},
            "spec": {"generation": 4, "uid": "kept"},
        });
        let expected = json!({
            "kind": "Secret", "metadata": {"labels": {"generation": "3"}},
            "data": {"owner": "(uid of a Pod)", "bytes": "/w=="},
            "status": {"(uid of a Pod)": "(a time)", "json": "[\"(uid of a Pod)\"]"},
            "spec": {"generation": 4, "uid": "kept"},
        });
        assert_eq!(placeholders().object(object), expected);
    }
}
