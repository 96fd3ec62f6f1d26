//! DELETE: marks an object, or removes it when nothing holds it back.

mod grace;

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use self::grace::{grace, mark};
use super::{Call, answer_object, answer_value, draft, served, warned};
use crate::admission::{self, Operation};
use crate::cluster::Cluster;
use crate::http::{Answer, Query};
use crate::kinds::Kind;
use crate::schema::published;
use crate::select::Selection;
use crate::status::{Cause, StatusError, details, success};
use crate::store::Object;
use crate::{decode, meta, registry};

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    grace: Option<i64>,
    propagation: Option<String>,
    orphan: Option<bool>,
    uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) dry_run: Vec<String>,
}

/// Result of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// It is marked and stays until its finalizers are gone.
    Marked(Arc<Object>),
    /// It is gone; this was its last state.
    Gone(Value),
}

pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, StatusError> {
    let options = DeleteOptions::parse(call)?;
    let mut warnings = Vec::new();
    let answer = delete_one(call, &options, &mut warnings).await;
    Ok(options.warn(&call.kind, warned(answer, &warnings)))
}

async fn delete_one(
    call: &Call<'_>,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<Answer, StatusError> {
    let name = call.target.name.as_deref().unwrap_or_default();
    let key = call.key()?;
    admit(call, &key, options, warnings).await?;
    match remove_object(call.cluster, &call.kind, &key, options)? {
        Deleted::Marked(object) => {
            let status = if options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
            Ok(answer_object(call, status, &object))
        }
        Deleted::Gone(object) if returns_object(&call.kind) => Ok(answer_value(call, StatusCode::OK, &object)),
        Deleted::Gone(object) => {
            let mut about = details(name, &call.kind.group, &call.kind.resource);
            about["uid"] = object["metadata"]["uid"].clone();
            Ok(Answer::json(StatusCode::OK, &success(&about)))
        }
    }
}

fn returns_object(kind: &Kind) -> bool {
    kind.custom.is_none() && kind.flags.returned
}

/// Lets webhooks judge the deletion of an object.
async fn admit(
    call: &Call<'_>,
    key: &str,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    let name = key.rsplit('/').next().unwrap_or_default();
    let stored = call.kind.table.get(key).ok_or_else(|| StatusError::not_found(&call.kind, name))?;
    check_preconditions(&call.kind, name, &stored, options)?;
    let present = served(&call.kind, &stored);
    let request = call.attributes(Operation::Delete, &Value::Null, options.is_dry_run(), options.to_value());
    admission::delete(&request, &present, warnings).await
}

pub(super) async fn delete_collection(call: &Call<'_>) -> Result<Answer, StatusError> {
    let selection = super::list::selection(call, false)?;
    let options = DeleteOptions::parse(call)?;
    let mut warnings = Vec::new();
    let answer = delete_all(call, &selection, &options, &mut warnings).await;
    Ok(options.warn(&call.kind, warned(answer, &warnings)))
}

async fn delete_all(
    call: &Call<'_>,
    selection: &Selection,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<Answer, StatusError> {
    let snapshot = call.kind.table.snapshot();
    let prefix = call.target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let limit = super::list::number(&call.request.query, "limit")?.filter(|limit| *limit > 0);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let mut items: Vec<Arc<Object>> = Vec::new();
    let mut metadata = json!({"resourceVersion": snapshot.version.to_string()});
    if call.kind.custom.is_some() {
        metadata["continue"] = json!("");
    }
    let after = call.request.query.get("continue").map(super::list::read_token).transpose()?;
    let from = after.map_or_else(|| prefix.clone(), |(_, after)| format!("{after}\0"));
    let mut entries = snapshot.tree.range(&from).take_while(|(key, _)| key.starts_with(&prefix));
    let mut last = None;
    while let Some((key, object)) = entries.next() {
        if items.len() >= limit {
            metadata["continue"] = json!(super::list::token(Some(snapshot.version), last.unwrap_or_default()));
            if selection.is_empty() {
                metadata["remainingItemCount"] = json!(entries.count() + 1);
            }
            break;
        }
        last = Some(&**key);
        if !selection.matches(key, object) {
            continue;
        }
        let admitted = admit(call, key, options, warnings).await;
        match admitted.and_then(|()| remove_object(call.cluster, &call.kind, key, options)) {
            Ok(_) => items.push(Arc::clone(object)),
            // Another request was faster.
            Err(refusal) if refusal.code == StatusCode::NOT_FOUND => {}
            Err(refusal) => return Err(refusal),
        }
    }
    super::list::answer(call, &metadata, items.into_iter()).await
}

impl DeleteOptions {
    pub(crate) fn background() -> Self {
        Self { propagation: Some("Background".to_owned()), ..Self::default() }
    }

    pub(crate) fn foreground() -> Self {
        Self { propagation: Some("Foreground".to_owned()), ..Self::default() }
    }

    /// Options of the body, else of the query.
    fn parse(call: &Call<'_>) -> Result<Self, StatusError> {
        let request = call.request;
        // With a body, the query counts for nothing.
        let options = if request.body.is_empty() {
            let mut options = Self::of_query(&request.query)?;
            let dry_run = request.query.all("dryRun").filter(|value| !value.is_empty());
            options.dry_run.extend(dry_run.map(ToOwned::to_owned));
            options
        } else {
            let body = super::body::parse(call, "v1", "DeleteOptions")?;
            Self::of_body(&body)?
        };
        options.check()?;
        Ok(options)
    }

    fn of_query(query: &Query) -> Result<Self, StatusError> {
        Ok(Self {
            grace: super::list::number(query, "gracePeriodSeconds")?,
            propagation: query.get("propagationPolicy").map(ToOwned::to_owned),
            orphan: query.has("orphanDependents").then(|| query.flag("orphanDependents")),
            ..Self::default()
        })
    }

    pub(super) fn of_body(body: &Value) -> Result<Self, StatusError> {
        let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            let version = body["apiVersion"].as_str().unwrap_or("meta.k8s.io/v1");
            return Err(StatusError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme {:?}",
                super::body::SCHEME
            )));
        }
        if let Some(error) = decode::check(body, published::name_of("", "v1", "DeleteOptions")).error {
            return Err(StatusError::bad_request(error));
        }
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation: text(&body["propagationPolicy"]),
            orphan: body["orphanDependents"].as_bool(),
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: body["dryRun"].as_array().into_iter().flatten().filter_map(text).collect(),
        })
    }

    /// Adds the warning that the kind has for a deletion without a policy.
    fn warn(&self, kind: &Kind, answer: Answer) -> Answer {
        match registry::of(kind).deletion_warning() {
            Some(warning) if self.propagation.is_none() && self.orphan.is_none() => {
                answer.with_warnings(&[warning.to_owned()])
            }
            _ => answer,
        }
    }

    /// The options as admission sees them.
    fn to_value(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut set = |key: &str, value: Value| {
            if !value.is_null() {
                options[key] = value;
            }
        };
        set("gracePeriodSeconds", json!(self.grace));
        set("propagationPolicy", json!(self.propagation));
        set("orphanDependents", json!(self.orphan));
        if self.is_dry_run() {
            set("dryRun", json!(self.dry_run));
        }
        let mut preconditions = json!({});
        for (key, value) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(value) = value {
                preconditions[key] = json!(value);
            }
        }
        if self.uid.is_some() || self.version.is_some() {
            options["preconditions"] = preconditions;
        }
        options
    }

    pub(super) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    fn check(&self) -> Result<(), StatusError> {
        let mut causes = Vec::new();
        if self.dry_run.iter().any(|value| value != "All") {
            causes.push(Cause::not_supported("dryRun", &format!("{:?}", self.dry_run), &["All"]));
        }
        if self.propagation.is_some() && self.orphan.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &json!(self.propagation), why));
        } else if let Some(other) = self.propagation.as_deref()
            && !matches!(other, "Foreground" | "Background" | "Orphan")
        {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::not_supported("propagationPolicy", &format!("{other:?}"), &supported));
        }
        if causes.is_empty() { Ok(()) } else { Err(StatusError::invalid("meta.k8s.io", "DeleteOptions", "", &causes)) }
    }
}

/// Deletes an object as its kind demands.
pub(crate) fn remove_object(
    cluster: &Arc<Cluster>,
    kind: &Arc<Kind>,
    key: &str,
    options: &DeleteOptions,
) -> Result<Deleted, StatusError> {
    let name = key.rsplit('/').next().unwrap_or_default();
    loop {
        let stored = kind.table.get(key).ok_or_else(|| StatusError::not_found(kind, name))?;
        check_preconditions(kind, name, &stored, options)?;
        let present = served(kind, &stored);
        let mut next = present.clone();
        let grace = grace(kind, &present, options);
        change_finalizers(kind, &mut next, options);
        let held = !meta::finalizers(&next).is_empty()
            || grace > 0
            || kind.is_namespace() && !meta::is_deleting(&present)
            || next["spec"]["finalizers"].as_array().is_some_and(|list| kind.is_namespace() && !list.is_empty());
        if kind.is_namespace() && matches!(name, "default" | "kube-system" | "kube-public") {
            let why = "this namespace may not be deleted";
            return Err(StatusError::forbidden_named("", "namespaces", name, why));
        }
        let running = present["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let graceful = registry::of(kind).ends_gracefully();
        let shortened = running.is_some_and(|running| running > grace);
        if held || graceful && (shortened || !meta::is_deleting(&present)) {
            mark(kind, &mut next, grace);
        }
        if held {
            if next == present {
                return Ok(Deleted::Marked(stored));
            }
            if options.is_dry_run() {
                return Ok(Deleted::Marked(Arc::new(draft(kind, &next).hiding(stored.traits()).at(stored.version))));
            }
            let Ok(marked) = kind.table.put(key, Some(stored.version), draft(kind, &next).hiding(stored.traits()))
            else {
                continue;
            };
            cluster.work.after_write(kind, &next, Some(&present));
            return Ok(Deleted::Marked(marked));
        }
        if options.is_dry_run() {
            return Ok(Deleted::Gone(next));
        }
        let mut last = stored;
        if next != present {
            // A pod is marked first, and gone at once when no node has it.
            match kind.table.put(key, Some(last.version), draft(kind, &next).hiding(last.traits())) {
                Ok(marked) => last = marked,
                Err(_) => continue,
            }
            meta::of(&mut next).insert("resourceVersion".into(), json!(last.version.to_string()));
        }
        let Ok(gone) = kind.table.remove(key, &last) else { continue };
        cluster.work.after_delete(kind, &next);
        meta::of(&mut next).insert("resourceVersion".into(), json!(gone.version.to_string()));
        return Ok(Deleted::Gone(next));
    }
}

/// Refuses to delete another object, or another version of it, than the options name.
pub(super) fn check_preconditions(
    kind: &Kind,
    name: &str,
    stored: &Object,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let found = stored.traits().uid.as_ref();
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != found) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been \
             deleted and then recreated"
        );
        return Err(StatusError::conflict_named(&kind.group, &kind.kind, name, why));
    }
    let found = stored.version.to_string();
    if let Some(version) = options.version.as_deref().filter(|version| *version != found) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        );
        return Err(StatusError::conflict_named(&kind.group, &kind.kind, name, why));
    }
    Ok(())
}

/// The finalizers that a propagation policy asks for.
fn change_finalizers(kind: &Kind, object: &mut Value, options: &DeleteOptions) {
    let policy = match (options.propagation.as_deref(), options.orphan) {
        (Some(policy), _) => Some(policy),
        (None, Some(true)) => Some("Orphan"),
        (None, Some(false)) => Some("Background"),
        // A finalizer of a policy that the object has stays, and overrides the default of the kind.
        (None, None) => {
            let has_own = meta::finalizers(object).iter().any(|name| matches!(*name, "orphan" | "foregroundDeletion"));
            (kind.custom.is_none() && kind.flags.orphans && !has_own).then_some("Orphan")
        }
    };
    let Some(policy) = policy else { return };
    meta::change_finalizers(object, |all| {
        all.retain(|name| !matches!(name.as_str(), "orphan" | "foregroundDeletion"));
        match policy {
            "Foreground" => all.push("foregroundDeletion".to_owned()),
            "Orphan" => all.push("orphan".to_owned()),
            _ => {}
        }
    });
}
