//! Requests to the API server, independent of the Rust type of the object.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use kooper_grammar::name;
use kooper_runtime::internal::call::context::Written;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::object::segment::escape;
use kooper_runtime::internal::queue::WriteOrigin;
use kooper_runtime::internal::watch::selected::Selected;
use kooper_runtime::object::Object;
use kooper_runtime::{Call, ControllerContext, Kind, ObjectKey};
use kube::api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams, PropagationPolicy};
use kube::core::Request as Requests;
use kube::core::params::GetParams;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Access;
use super::author::{Author, SentBody};
use super::children::Children;
use super::error::{AccessError, RequestInfo};
use super::patch::PatchBody;

/// Longer than the API server takes for a write with all its webhooks.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of retries of a request after conflicts.
pub(super) const CONFLICTS: u32 = 5;

/// Waits after the given conflict in a row, counted from 1.
pub(super) async fn pause_after(conflict: u32) {
    tokio::time::sleep(Duration::from_millis(5) * conflict).await;
}

/// The objects of one kind, for one argument of one call.
pub(super) struct ResourceClient<'a> {
    pub(super) controller: &'a ControllerContext,
    pub(super) call: Option<&'a Call>,
    pub(super) kind: KindInfo,
    /// The only objects that may be requested; `None` for all.
    pub(super) subset: Option<&'static Selected>,
    /// `true` if entries that other clients add to a child are removed.
    pub(super) exclusive: bool,
    /// The memory for the children.
    pub(super) children: Arc<Children>,
    path: fn(Option<&str>) -> String,
}

/// A request for an object.
#[derive(Debug)]
pub(super) enum Operation {
    Get,
    Create(Value),
    /// Creates an object in a dry run.
    TryCreate(Value),
    /// Applies as this field manager.
    Apply(Value, String),
    ApplyStatus(Value, String),
    /// Patches as this field manager.
    Patch(PatchBody, String),
    Delete(DeleteParams),
    /// Evicts the pod with this uid.
    Evict(String),
}

impl Operation {
    /// Returns whether the operation is a write to any version of the object, so that it can be
    /// sent again after a conflict.
    fn is_for_any_version(&self) -> bool {
        match self {
            Self::Apply(body, _) | Self::ApplyStatus(body, _) => body["metadata"]["resourceVersion"].is_null(),
            Self::Patch(patch, _) => !patch.names_version(),
            Self::Delete(params) => {
                params.preconditions.as_ref().is_none_or(|wanted| wanted.resource_version.is_none())
            }
            Self::Get | Self::Create(_) | Self::TryCreate(_) | Self::Evict(_) => false,
        }
    }

    /// The name in the object to write, if it has one. That in the key of a cluster-scoped
    /// object ends where a namespace would.
    fn name(&self) -> Option<&str> {
        let name = match self {
            Self::Create(body) | Self::TryCreate(body) | Self::Apply(body, _) | Self::ApplyStatus(body, _) => {
                body["metadata"]["name"].as_str()
            }
            _ => None,
        };
        name.filter(|name| !name.is_empty())
    }
}

/// The object in a response, and the whole response.
pub(super) type ApiResponse = (Option<Object>, String);

impl<T: Kind, V> Access<T, V> {
    pub(super) fn objects(&self) -> ResourceClient<'_> {
        ResourceClient {
            controller: &self.controller,
            call: self.call.as_ref(),
            kind: KindInfo::of::<T>(),
            subset: None,
            exclusive: self.exclusive,
            children: self.controller.extensions.get(),
            path: |namespace| T::url_path(&(), namespace),
        }
    }
}

impl ResourceClient<'_> {
    /// Sends a request and notes what it wrote. Returns the object, if the
    /// response has one.
    pub(super) async fn send(&self, key: &ObjectKey, operation: Operation) -> Result<Option<Object>, AccessError> {
        Ok(self.send_raw(key, operation).await?.0)
    }

    /// Like [`send`](Self::send), and also returns the response with its managed
    /// fields, which an [`Object`] does not have.
    ///
    /// Boxed in this crate: an async function is otherwise compiled again, and all that it awaits, wherever it is polled.
    pub(super) fn send_raw<'a>(&'a self, key: &'a ObjectKey, operation: Operation) -> super::Request<'a, ApiResponse> {
        Box::pin(async move {
            self.check(key, &operation)?;
            let info = self.request_info(key, &operation);
            let writes = !matches!(operation, Operation::Get | Operation::TryCreate(_) | Operation::Evict(_));
            let (author, before) = (self.author(&operation), self.cached(key));
            let deletes = matches!(operation, Operation::Delete(_));
            let text = self.answer(key, &operation, &info).await?;
            // The response to a deletion or an eviction may be a Status. Anything else that is not an object comes from
            // something before the API server, such as the login page of a proxy.
            let object = if matches!(operation, Operation::Delete(_) | Operation::Evict(_)) && is_status(&text) {
                None
            } else {
                Some(Object::parse(text.as_bytes()).map_err(|malformed| info.unanswered(malformed))?)
            };
            match &object {
                Some(object) if writes => {
                    let origin = if author.made(object, &text, before.as_deref()) {
                        WriteOrigin::Own
                    } else {
                        WriteOrigin::Foreign
                    };
                    let remains = !deletes || object.remains();
                    self.note(object.key(), object.uid(), remains.then_some(object), origin);
                }
                None if deletes => self.removed(key, &text),
                _ => {}
            }
            Ok((object, text))
        })
    }

    /// Sends a request, and again if the server could not store its result, or the usage of a
    /// quota, because of a write at the same time.
    async fn answer(&self, key: &ObjectKey, operation: &Operation, info: &RequestInfo) -> Result<String, AccessError> {
        let mut conflicts = 0;
        loop {
            let mut request = self
                .request(key, operation)
                .map_err(|error| AccessError::of(info.clone(), kube::Error::BuildRequest(error)))?;
            if let Some(call) = self.call {
                call.fence(request.extensions_mut());
            }
            let error = match tokio::time::timeout(TIMEOUT, self.controller.client().request_text(request)).await {
                Ok(Ok(text)) => return Ok(text),
                Ok(Err(error)) => AccessError::of(info.clone(), error),
                Err(elapsed) => return Err(info.clone().unanswered(elapsed)),
            };
            let may_repeat = error.is_of_quota() || (error.is_stale() && operation.is_for_any_version());
            if conflicts == CONFLICTS || !may_repeat {
                return Err(error);
            }
            conflicts += 1;
            pause_after(conflicts).await;
        }
    }

    fn request_info(&self, key: &ObjectKey, operation: &Operation) -> RequestInfo {
        let rule = |subresource, verbs| self.kind.rule(subresource, verbs);
        let (verb, rule) = match operation {
            Operation::Get => ("get", rule(None, &["get"])),
            Operation::Create(_) => ("create", rule(None, &["create"])),
            Operation::TryCreate(_) => ("try to create", rule(None, &["create"])),
            Operation::Apply(..) => ("apply", rule(None, &["create", "patch"])),
            Operation::ApplyStatus(..) => ("apply the status of", rule(Some("status"), &["patch"])),
            Operation::Patch(patch, _) if patch.status => ("patch the status of", rule(Some("status"), &["patch"])),
            Operation::Patch(..) => ("patch", rule(None, &["patch"])),
            Operation::Delete(_) => ("delete", rule(None, &["delete"])),
            Operation::Evict(_) => ("evict", rule(Some("eviction"), &["create"])),
        };
        let owner = self.controller.kind.rule(Some("finalizers"), &["update"]);
        let named = self.subset.is_some_and(|subset| !subset.names.is_empty());
        RequestInfo { verb, kind: self.kind.kind.clone(), object: key.clone(), rule, named, owner }
    }

    fn request(&self, key: &ObjectKey, operation: &Operation) -> Result<Request<Vec<u8>>, kube::core::request::Error> {
        let requests = Requests::new((self.path)(key.namespace()));
        let manager = self.controller.field_manager();
        let name = &*escape(key.name());
        let posted = || PostParams { field_manager: Some(manager.clone()), ..PostParams::default() };
        let forced = |manager: &String| PatchParams {
            field_manager: Some(manager.clone()),
            force: true,
            ..PatchParams::default()
        };
        match operation {
            Operation::Get => requests.get(name, &GetParams::default()),
            Operation::Create(body) => requests.create(&posted(), body.to_string().into_bytes()),
            Operation::TryCreate(body) => {
                requests.create(&PostParams { dry_run: true, ..posted() }, body.to_string().into_bytes())
            }
            Operation::Apply(body, manager) => requests.patch(name, &forced(manager), &KubePatch::Apply(body)),
            Operation::ApplyStatus(body, manager) => {
                requests.patch_subresource("status", name, &forced(manager), &KubePatch::Apply(body))
            }
            Operation::Patch(patch, manager) => {
                let params = PatchParams { field_manager: Some(manager.clone()), ..PatchParams::default() };
                let (content_type, status) = (patch.content_type(), patch.status);
                let patch = KubePatch::Merge(&patch.value);
                let mut request = match status {
                    true => requests.patch_subresource("status", name, &params, &patch)?,
                    false => requests.patch(name, &params, &patch)?,
                };
                request.headers_mut().insert(CONTENT_TYPE, content_type);
                Ok(request)
            }
            // The API server's default for a Job leaves its pods behind.
            Operation::Delete(params) => {
                let policy = params.propagation_policy.clone().or(Some(PropagationPolicy::Background));
                requests.delete(name, &DeleteParams { propagation_policy: policy, ..params.clone() })
            }
            // kube's `Request::evict` sends its options under a name that the API server does not know.
            Operation::Evict(uid) => {
                let body = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": key.name(), "namespace": key.namespace()},
                    "deleteOptions": {"preconditions": {"uid": uid}},
                });
                requests.create_subresource("eviction", name, &posted(), body.to_string().into_bytes())
            }
        }
    }

    /// Checks that an object has a name, that it has a namespace if its kind needs one, and
    /// only then, and that both fit into a path. The API server checks the rest of a name.
    fn check(&self, key: &ObjectKey, operation: &Operation) -> Result<(), AccessError> {
        let kind = &self.kind.kind;
        let name = operation.name().unwrap_or(key.name());
        let invalid = key.namespace().and_then(|namespace| name::label(namespace).err());
        let problem = match (key.namespace(), self.kind.namespaced) {
            _ if key.name().is_empty() => match operation {
                Operation::Get | Operation::Patch(..) | Operation::Delete(_) | Operation::Evict(_) => {
                    format!("the key `{key}` of a {kind} has no name: pass that of an object")
                }
                _ => format!("a {kind} to write has no name: set `metadata.name`"),
            },
            _ if !is_possible(name) => {
                format!(
                    "{kind} `{key}` has an invalid `metadata.name`: a name cannot contain `/` or `%`, and cannot be \
                     `.` or `..`"
                )
            }
            (None, true) => {
                format!(
                    "{kind} `{key}` has no namespace, but its kind is namespaced: set `metadata.namespace`, or use \
                     `ObjectKey::namespaced`"
                )
            }
            (Some(_), false) => {
                format!(
                    "{kind} `{key}` has a namespace, but its kind is cluster-scoped: clear `metadata.namespace`, or use \
                     `ObjectKey::cluster_scoped`"
                )
            }
            _ => match (invalid, self.subset.filter(|subset| !subset.admits(key))) {
                (Some(error), _) => {
                    format!("{kind} `{key}` has an invalid `metadata.namespace`: {error}")
                }
                (None, Some(subset)) => format!("{kind} `{key}` is not in the subset of the `Getter`: it has {subset}"),
                (None, None) => return Ok(()),
            },
        };
        Err(AccessError::wrong(problem))
    }

    /// The key of an object to write. Its namespace defaults to that of the call.
    pub(super) fn key_of(&self, body: &mut Value) -> ObjectKey {
        let own = self.call.and_then(|call| call.key().namespace()).filter(|_| self.kind.namespaced);
        let metadata = &mut body["metadata"];
        if metadata["namespace"].as_str().is_none_or(str::is_empty)
            && let Some(namespace) = own
        {
            metadata["namespace"] = namespace.into();
        }
        ObjectKey::new(metadata["namespace"].as_str(), metadata["name"].as_str().unwrap_or_default())
    }

    /// Notes that an object was removed. The response names its uid; no cache may have it yet.
    fn removed(&self, key: &ObjectKey, response: &str) {
        #[derive(serde::Deserialize)]
        struct Removed {
            details: RemovedDetails,
        }
        #[derive(serde::Deserialize)]
        struct RemovedDetails {
            uid: String,
        }
        let named = serde_json::from_str::<Removed>(response).ok().map(|removed| removed.details.uid);
        let uid = named.or_else(|| Some(self.cached(key)?.uid().to_owned()));
        if let Some(uid) = uid {
            self.note(key, &uid, None, WriteOrigin::Own);
        }
    }

    /// The object in a cache of the controller.
    pub(super) fn cached(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let own = self.kind.is_same(&self.controller.kind).then_some(&self.controller.own);
        let mut caches = self.controller.caches.of_kind(&self.kind).map(|(_, cache)| cache).chain(own);
        caches.find_map(|cache| cache.get(key))
    }

    /// Notes in the queue what a write of the call resulted in, for each cache that
    /// will show it.
    fn note(&self, key: &ObjectKey, uid: &str, now: Option<&Object>, origin: WriteOrigin) {
        let Some(call) = self.call else { return };
        self.controller.wrote(call.key(), &Written { kind: &self.kind, key, uid, now }, origin);
    }

    /// Returns the evidence by which the response will show that the request made its version.
    fn author(&self, operation: &Operation) -> Author {
        match operation {
            Operation::Create(_) => Author::Creation,
            Operation::Delete(_) => Author::Deletion,
            Operation::Patch(patch, _) if patch.is_empty() => Author::NoChange,
            Operation::Apply(sent, _) | Operation::ApplyStatus(sent, _) => {
                Author::Manager(self.controller.field_manager(), SentBody::Applied(sent.clone()))
            }
            Operation::Patch(patch, _) => {
                Author::Manager(self.controller.field_manager(), SentBody::Patch(patch.clone()))
            }
            Operation::Get | Operation::TryCreate(_) | Operation::Evict(_) => Author::NoChange,
        }
    }
}

/// The body of an object, without the fields that only the API server sets.
pub(super) fn body<T: Kind + Serialize>(object: &T) -> Result<Value, AccessError> {
    let (kind, mut body) = (T::kind(&()), as_json(object)?);
    let Value::Object(fields) = &mut body else {
        return Err(AccessError::wrong(format!("a {kind} serializes to JSON that is not an object")));
    };
    if (&*T::group(&()), &*kind) == ("", "Secret") {
        encode_strings(fields);
    }
    fields.insert("apiVersion".to_owned(), T::api_version(&()).into_owned().into());
    fields.insert("kind".to_owned(), kind.into_owned().into());
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        for field in ["managedFields", "creationTimestamp", "deletionTimestamp", "generation", "selfLink"] {
            metadata.remove(field);
        }
    }
    Ok(body)
}

/// Writes the strings of a Secret as its data. The API server does the same, but after an apply: no field manager owns the
/// data then, and a key that is no longer applied stays.
fn encode_strings(secret: &mut Map<String, Value>) {
    let Some(Value::Object(strings)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    for (key, text) in strings {
        data[key] = json!(ByteString(text.as_str().unwrap_or_default().into()));
    }
}

/// All fields of an object.
pub(super) fn as_json<T: Kind + Serialize>(object: &T) -> Result<Value, AccessError> {
    serde_json::to_value(object)
        .map_err(|error| AccessError::wrong(format!("a {} cannot be written as JSON: {error}", T::kind(&()))))
}

fn is_status(response: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        kind: String,
    }
    serde_json::from_str::<Head>(response).is_ok_and(|head| head.kind == "Status")
}

/// Returns `true` if the name follows the rule that all kinds share. The API server
/// checks the stricter rules of each kind.
fn is_possible(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::is_possible;

    #[test]
    fn a_name_that_no_path_can_have_is_impossible() {
        for name in ["", ".", "..", "a/b", "/", "50%"] {
            assert!(!is_possible(name), "{name}");
        }
        assert!(["...", "a.b", "a?b", "a role"].into_iter().all(is_possible));
    }
}
