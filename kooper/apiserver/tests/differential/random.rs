//! Random histories: each request is chosen by what the embedded server has at that moment.
//!
//! The same seed makes the same history, as long as the embedded server
//! answers the same. References keep it portable: no uid and no version is
//! written down.

mod fields;
mod objects;
mod patches;
mod queries;
mod subject;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::env;

use fastrand::Rng;
use serde_json::{Value, json};

use self::objects::{NAMES, chance, object, one};
use self::queries::Earlier;
pub(crate) use self::subject::{SUBJECTS, Subject};
use crate::case::{Case, Step};
use crate::run::{Run, install_fixture};
use crate::server::{Answer, Server};

/// A random history with what the embedded server answered.
pub(crate) struct History {
    pub(crate) case: Case,
    pub(crate) answers: Vec<Answer>,
    /// One for each request after the namespace's.
    pub(crate) notes: Vec<Note>,
}

/// Description of a generated request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) verb: &'static str,
    pub(crate) kind: &'static str,
    /// `true` if the object of the request existed.
    pub(crate) existing: bool,
}

/// Two kinds of which a history is, so that its objects meet often: each pair has its turn.
pub(crate) fn subjects(turn: u64) -> [&'static Subject; 2] {
    let chosen = chosen();
    let pairs: Vec<_> =
        chosen.iter().enumerate().flat_map(|(at, one)| chosen[at..].iter().map(|other| [*one, *other])).collect();
    pairs[(turn % pairs.len() as u64) as usize]
}

/// Makes a history of some requests and sends it to a fresh embedded server.
pub(crate) async fn history(seed: u64, name: &str, subjects: [&'static Subject; 2], requests: usize) -> History {
    let (_running, server) = Server::embedded().await;
    install_fixture(&server).await;
    let mut case = Case::new(name);
    let mut run = Run::new(&server, name, None);
    run.step(&case.steps[0]).await;
    let (rng, references) = (Rng::with_seed(seed), References::default());
    let mut writer = Writer { rng, references, present: Vec::new(), tables: Vec::new() };
    let mut notes = Vec::new();
    // The objects of a kind, as long as none was written.
    let mut listed = HashMap::new();
    while notes.len() < requests {
        let subject = one(&mut writer.rng, &subjects);
        let objects = match listed.entry(subject.kind) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(objects(&server, &subject.path.replace("$ns", name)).await),
        };
        writer.present.clone_from(objects);
        let (mut step, note) = writer.step(subject);
        step.id = case.steps.len();
        let answer = run.step(&step).await;
        if answer.status < 300 && !matches!(&*step.method, "GET" | "WATCH") {
            listed.remove(subject.kind);
        }
        writer.references.learn(step.id, answer);
        case.steps.push(step);
        notes.push(note);
    }
    let answers = run.finish().await;
    History { case, answers, notes }
}

/// The objects in a collection.
async fn objects(server: &Server, collection: &str) -> Vec<Value> {
    let list = server.send(&Step::get(collection)).await;
    let mut list: Value = serde_json::from_str(&list.body).unwrap_or_default();
    list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// The kinds that histories are about: all, or those that the environment variable `KOOPER_KINDS` lists.
pub(crate) fn chosen() -> Vec<&'static Subject> {
    let only = env::var("KOOPER_KINDS").ok();
    let listed = |subject: &&Subject| only.as_ref().is_none_or(|only| only.split(',').any(|kind| kind == subject.kind));
    SUBJECTS.iter().filter(listed).collect()
}

/// Where versions and uids are found in the answers so far.
#[derive(Default)]
struct References {
    places: HashMap<String, String>,
    /// References to the versions of objects, in order.
    written: Vec<String>,
    /// The same, and those of lists, which may be later: others write too.
    reached: Vec<String>,
    token: Option<String>,
}

impl References {
    fn learn(&mut self, id: usize, answer: &Answer) {
        if answer.status >= 300 {
            return;
        }
        let Ok(body) = serde_json::from_str::<Value>(&answer.body) else { return };
        let is_list = body.get("items").is_some() || body.get("rows").is_some();
        for pointer in ["/metadata/uid", "/metadata/resourceVersion", "/metadata/name"] {
            let Some(value) = body.pointer(pointer).and_then(Value::as_str) else { continue };
            if pointer.ends_with("name") && !value.starts_with("generated-") {
                continue;
            }
            // A dry run answers with the version that it was sent, which the real server's storage has compacted, or not.
            if pointer.ends_with("Version") && value == "1" {
                continue;
            }
            let reference = format!("${{@{id}{pointer}}}");
            if pointer.ends_with("Version") {
                self.reached.push(reference.clone());
                if !is_list {
                    self.written.push(reference.clone());
                }
            }
            if !is_list {
                self.places.insert(value.to_owned(), reference);
            }
        }
        if body["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty()) {
            self.token = Some(format!("${{@{id}/metadata/continue}}"));
        }
    }

    /// A reference to a uid or a version, if an answer had it.
    fn to(&self, value: &Value) -> Option<String> {
        self.places.get(value.as_str()?).cloned()
    }

    fn earlier(&self, rng: &mut Rng) -> Earlier {
        let older = if self.reached.is_empty() { None } else { Some(one(rng, &self.reached)) };
        Earlier { newest: self.reached.last().cloned(), older, token: self.token.clone() }
    }
}

/// Chooses the next request.
struct Writer {
    rng: Rng,
    references: References,
    /// The objects of the chosen kind.
    present: Vec<Value>,
    /// The kinds that are watched in tables.
    tables: Vec<&'static str>,
}

impl Writer {
    fn step(&mut self, subject: &'static Subject) -> (Step, Note) {
        let verbs = subject.verbs();
        let total: u32 = verbs.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.u32(..total);
        let chosen = verbs.iter().find(|(_, weight)| {
            let here = at < *weight;
            at = at.saturating_sub(if here { 0 } else { *weight });
            here
        });
        let verb = chosen.map_or("get", |(verb, _)| *verb);
        let (name, present) = self.target(verb == "create");
        // Servers generate different names.
        let name = self.references.to(&json!(name)).unwrap_or(name);
        let mut existing = present.is_some();
        // A write of the status of a Service that is absent creates one without an address; the real server panics at
        // its next update.
        let verb = if verb == "update-status" && subject.kind == "Service" && !existing { "get-status" } else { verb };
        let earlier = self.references.earlier(&mut self.rng);
        let rng = &mut self.rng;
        let item = format!("{}/{name}", subject.path);
        let mut step = match verb {
            "list" | "watch" | "deletecollection" => {
                existing = !self.present.is_empty();
                let (method, query) = match verb {
                    "list" => ("GET", queries::list(rng, &earlier)),
                    "watch" => ("WATCH", queries::watch(rng, &earlier)),
                    _ => ("DELETE", queries::delete_collection(rng)),
                };
                request(method, subject.path, &query, None)
            }
            "create" => {
                let body = self.created(subject, &name);
                request("POST", subject.path, &queries::write(&mut self.rng, false), body)
            }
            "update" => {
                let body = self.replaced(subject, &name, present.as_ref());
                request("PUT", &item, &queries::write(&mut self.rng, false), body)
            }
            "apply" => {
                let mut body = patches::configuration(rng, subject, &name);
                if let Some(present) = present.as_ref().filter(|_| subject.custom) {
                    patches::keep_owned(&mut body, present);
                }
                if chance(rng, 60) {
                    self.precondition(&mut body, present.as_ref());
                }
                request("PATCH", &item, &queries::write(&mut self.rng, true), body)
            }
            "delete" => {
                let body = self.delete_options(present.as_ref());
                request("DELETE", &item, &queries::delete(&mut self.rng), body)
            }
            "get-status" => request("GET", &format!("{item}/status"), "", None),
            "get-scale" => request("GET", &format!("{item}/scale"), "", None),
            "update-status" => {
                let body = self.replaced(subject, &name, present.as_ref());
                request("PUT", &format!("{item}/status"), "", body)
            }
            "patch-status" => {
                let body = self.patch("merge-patch", subject, true, present.as_ref());
                request("PATCH", &format!("{item}/status"), &queries::write(&mut self.rng, false), body)
            }
            "update-scale" => {
                let mut body = json!({
                    "apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": {"name": name, "namespace": "$ns"}, "spec": {"replicas": replicas(rng)}
                });
                if chance(rng, 500) {
                    self.precondition(&mut body, present.as_ref());
                }
                request("PUT", &format!("{item}/scale"), "", body)
            }
            "patch-scale" => {
                let body = json!({"spec": {"replicas": replicas(rng)}});
                request("PATCH", &format!("{item}/scale"), "", body)
            }
            "get" => request("GET", &item, "", None),
            _ => {
                let body = self.patch(verb, subject, false, present.as_ref());
                request("PATCH", &item, &queries::write(&mut self.rng, false), body)
            }
        };
        // A patch may have copied a generated name to where a later body takes it from.
        for (name, reference) in self.references.places.iter().filter(|(name, _)| name.starts_with("generated-")) {
            step.body = step.body.replace(name, reference);
        }
        if let Some(media) = content_type(verb) {
            step.headers.push(("content-type".into(), media.into()));
        }
        // Of two watches in tables, the real server may repeat the columns: where both get an event, it encodes it once.
        let in_table = |accept: &str| verb == "watch" && accept.contains("as=Table");
        if matches!(verb, "get" | "list" | "watch")
            && let Some(accept) = queries::accept(&mut self.rng)
            && !(in_table(&accept) && self.tables.contains(&subject.kind))
        {
            if in_table(&accept) {
                self.tables.push(subject.kind);
            }
            step.headers.push(("accept".into(), accept));
        }
        self.spoil(&mut step);
        (step, Note { verb, kind: subject.kind, existing })
    }

    /// Whom a request is about: mostly an object that exists, for a creation mostly one that does not.
    fn target(&mut self, create: bool) -> (String, Option<Value>) {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let taken: Vec<_> = self.present.iter().map(name).collect();
        if create {
            let free: Vec<_> = NAMES.iter().filter(|name| taken.iter().all(|taken| taken != *name)).collect();
            if !free.is_empty() && chance(&mut self.rng, 800) {
                return (one(&mut self.rng, &free).to_string(), None);
            }
        } else if !taken.is_empty() && chance(&mut self.rng, 920) {
            let at = self.rng.usize(..taken.len());
            return (taken[at].clone(), Some(self.present[at].clone()));
        }
        let name = one(&mut self.rng, &NAMES).to_owned();
        let at = taken.iter().position(|taken| *taken == name);
        (name, at.map(|at| self.present[at].clone()))
    }

    fn created(&mut self, subject: &Subject, name: &str) -> Value {
        let mut body = object(&mut self.rng, subject, name);
        if chance(&mut self.rng, 8) {
            body["metadata"]["resourceVersion"] = json!("1");
        }
        let letter = one(&mut self.rng, &["a", "b", "c"]);
        let base = format!("generated-{letter}-");
        let text = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        // Two names of one base would be in random order.
        if chance(&mut self.rng, 50) && !self.present.iter().any(|object| text(object).starts_with(&base)) {
            body["metadata"]["generateName"] = json!(base);
            body["metadata"].as_object_mut().expect("it is an object").remove("name");
        }
        body
    }

    /// The body of an update: another object of the name, or the present one with a change.
    fn replaced(&mut self, subject: &Subject, name: &str, present: Option<&Value>) -> Value {
        let fresh = object(&mut self.rng, subject, name);
        let mut body = match present {
            Some(present) if chance(&mut self.rng, 550) => {
                let mut body = present.clone();
                let metadata = body["metadata"].as_object_mut().expect("objects have metadata");
                metadata.retain(|key, _| {
                    matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations" | "finalizers")
                });
                if chance(&mut self.rng, 400) {
                    let key = one(&mut self.rng, &["labels", "labels", "annotations", "finalizers"]);
                    match fresh["metadata"].get(key) {
                        Some(value) => drop(metadata.insert(key.into(), value.clone())),
                        None => drop(metadata.remove(key)),
                    }
                }
                body["metadata"]["name"] = json!(name);
                body["metadata"]["namespace"] = json!("$ns");
                body["apiVersion"] = json!(subject.api_version);
                body["kind"] = json!(subject.kind);
                let keys: Vec<_> = fresh
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key.as_str())
                    .filter(|key| *key != "metadata")
                    .collect();
                forget_allocated(&mut body);
                if chance(&mut self.rng, 650) {
                    let key = one(&mut self.rng, &keys);
                    body[key] = fresh[key].clone();
                }
                body
            }
            _ => fresh,
        };
        let spec = &body["spec"];
        if spec["type"] == "ExternalName" && spec["clusterIPs"].is_null() {
            // The real server stores it without `clusterIPs`, which it adds to what it answers, but for `/status`.
            body["spec"].as_object_mut().map(|spec| spec.remove("clusterIP"));
        }
        let strict = subject.custom;
        if chance(&mut self.rng, if strict { 900 } else { 500 }) {
            self.precondition(&mut body, present);
        }
        body
    }

    /// Adds the version or uid that the object is to have: mostly the one that it has.
    fn precondition(&mut self, body: &mut Value, present: Option<&Value>) {
        let Some(present) = present else { return };
        let current = self.references.to(&present["metadata"]["resourceVersion"]);
        let version = match self.rng.u32(..12) {
            0 if !self.references.written.is_empty() => Some(one(&mut self.rng, &self.references.written)),
            1 => Some("1".to_owned()),
            _ => current,
        };
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        if chance(&mut self.rng, 60)
            && let Some(uid) = self.references.to(&present["metadata"]["uid"])
        {
            body["metadata"]["uid"] = json!(uid);
        } else if chance(&mut self.rng, 8) {
            body["metadata"]["uid"] = json!("none");
        }
    }

    fn patch(&mut self, verb: &str, subject: &Subject, status: bool, present: Option<&Value>) -> Value {
        let rng = &mut self.rng;
        let held = present.is_some_and(|present| !present["metadata"]["deletionTimestamp"].is_null());
        let mut patch = match verb {
            "json-patch" if held && chance(rng, 400) => json!([{"op": "remove", "path": "/metadata/finalizers"}]),
            "json-patch" => return patches::json(rng, subject, status),
            _ if held && !status && chance(rng, 400) => json!({"metadata": {"finalizers": null}}),
            "strategic-patch" => patches::strategic(rng, subject),
            _ => patches::merge(rng, subject, status),
        };
        if patch.is_object() && chance(rng, 120) {
            self.precondition(&mut patch, present);
        }
        patch
    }

    /// The body of a deletion: `null` for none.
    fn delete_options(&mut self, present: Option<&Value>) -> Value {
        let Some(present) = present.filter(|_| chance(&mut self.rng, 200)) else { return Value::Null };
        let (uid, version) = (&present["metadata"]["uid"], &present["metadata"]["resourceVersion"]);
        let preconditions = match self.rng.u32(..6) {
            0..=1 => json!({"uid": self.references.to(uid)}),
            2..=3 => json!({"resourceVersion": self.references.to(version)}),
            4 => json!({"uid": "none"}),
            _ => json!({"resourceVersion": "1"}),
        };
        json!({"preconditions": preconditions})
    }

    /// Makes a request wrong, rarely: its media type, its body or its names.
    fn spoil(&mut self, step: &mut Step) {
        let rng = &mut self.rng;
        if step.body.is_empty() {
            return;
        }
        match rng.u32(..1000) {
            0..35 => {
                step.headers.retain(|(name, _)| name != "content-type");
                let media =
                    if step.method == "PATCH" { one(rng, &["application/json", "text/plain"]) } else { "text/plain" };
                step.headers.push(("content-type".into(), media.into()));
            }
            35..41 => {
                let body: Value = serde_json::from_str(&step.body).unwrap_or_default();
                if body.is_object() {
                    let (path, value) = one(
                        rng,
                        &[
                            (["metadata", "namespace"], "other"),
                            (["metadata", "name"], "other"),
                            (["kind", ""], "Other"),
                            (["apiVersion", ""], "other/v1"),
                        ],
                    );
                    let path: Vec<_> =
                        path.iter().filter(|part| !part.is_empty()).map(|part| (*part).to_owned()).collect();
                    let mut body = body;
                    patches::set(&mut body, &path, json!(value));
                    step.body = body.to_string();
                }
            }
            41..44 => step.body = "[]".to_owned(),
            _ => {}
        }
    }
}

/// The replicas of a Scale.
fn replicas(rng: &mut Rng) -> Value {
    if chance(rng, 40) {
        return one(rng, &[json!(-1), json!("1"), json!(1.5), Value::Null]);
    }
    json!(rng.u32(..5))
}

/// Removes the addresses, ports and times that each server chooses by itself.
fn forget_allocated(body: &mut Value) {
    for condition in body.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
    }
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

fn request(method: &str, path: &str, query: &str, body: impl Into<Option<Value>>) -> Step {
    let body = body.into().filter(|body| !body.is_null()).map(|body| body.to_string()).unwrap_or_default();
    Step { method: method.to_owned(), path: format!("{path}{query}"), body, ..Step::default() }
}

fn content_type(verb: &str) -> Option<&'static str> {
    match verb {
        "json-patch" => Some("application/json-patch+json"),
        "merge-patch" | "patch-status" | "patch-scale" => Some("application/merge-patch+json"),
        "strategic-patch" => Some("application/strategic-merge-patch+json"),
        "apply" => Some("application/apply-patch+yaml"),
        _ => None,
    }
}
