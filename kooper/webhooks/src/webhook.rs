//! A webhook: a function with its rules, whatever the type of its objects.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper_access::handler::Init;
use kooper_access::plan::Plan;
use kooper_access::{Controller, controller};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admission::{Admission, Operation};
use crate::argument::{Context, Process};
use crate::denied::Denied;
use crate::function::{ArgumentSources, Function, MutateFunction, ValidateFunction};
use crate::inputs::{self, Inputs};
use crate::patch::{Patch, patch};
use crate::review::{Request, Verdict};
use crate::states::{Registered, WebhookState};

mod checks;
mod matching;
pub(crate) mod typed;

pub(crate) use checks::{is_of_kubernetes, is_selected_by_namespace};
pub(crate) use matching::Matching;
use matching::Requested;

/// The result of a request if the webhook fails or cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is denied.
    Fail,
    /// The request is admitted.
    Ignore,
}

/// The type parameter of a [`Builder`] for a validating webhook.
#[derive(Debug)]
pub struct Validate;

/// The type parameter of a [`Builder`] for a mutating webhook.
#[derive(Debug)]
pub struct Mutate;

/// A function that the API server calls before it stores an object of a kind.
pub struct Webhook {
    pub(crate) rules: Rules,
    call: Decide,
    /// Its inputs from the process, if it needs any.
    pub(crate) inputs: Option<Controller>,
}

/// The rules of a webhook's registration.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) name: String,
    pub(crate) mutates: bool,
    pub(crate) kind: KindInfo,
    pub(crate) operations: BTreeSet<&'static str>,
    pub(crate) failure: FailurePolicy,
    pub(crate) timeout: Duration,
    pub(crate) matching: Matching,
    /// It can have side effects, but not in a dry run.
    pub(crate) has_side_effects: bool,
}

/// Decides on a request, after its objects were decoded.
type Decide = Box<
    dyn Fn(&Request<'_>, Admission) -> Result<BoxFuture<'static, Result<Verdict, BoxError>>, BoxError> + Send + Sync,
>;

/// Makes [`Decide`] of what the function takes, if it takes anything of the process.
type Bind<S> = Box<dyn FnOnce(Option<Inputs<S>>, Arc<str>, bool) -> Decide + Send>;

/// An error in the description of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("webhook `{webhook}`: {problem}")]
pub struct ConfigError {
    /// The name of the webhook.
    pub webhook: String,
    /// The mistake, and its correction.
    pub problem: String,
}

/// Builds a [`Webhook`]. `M` is [`Validate`] or [`Mutate`], and `S` is the state.
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<K, M, S = ()> {
    name: String,
    operations: Vec<Operation>,
    failure: Option<FailurePolicy>,
    timeout: Duration,
    requested: Requested,
    overwrite: bool,
    inputs: controller::Builder<ConfigMap, ConfigMap, S>,
    function: Option<Bound<S>>,
    kind: PhantomData<fn() -> (K, M)>,
}

/// A function without the type of its objects.
struct Bound<S> {
    bind: Bind<S>,
    sources: ArgumentSources,
}

impl Webhook {
    /// Starts the builder of a webhook that validates objects of the kind `K`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper_webhooks::{Denied, FailurePolicy, Webhook};
    ///
    /// async fn check(new: Arc<ConfigMap>) -> Result<(), Denied> {
    ///     let has_motto = new.data.as_ref().is_some_and(|data| data.contains_key("motto"));
    ///     if has_motto { Ok(()) } else { Err(Denied::default().field("data.motto", "must be set")) }
    /// }
    ///
    /// let webhook = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Ignore).function(check).build()?;
    /// assert_eq!(webhook.path(), "/validate--v1-configmap/check");
    /// # Ok::<_, kooper_webhooks::ConfigError>(())
    /// ```
    pub fn validate<K: Kind>(name: impl Into<String>) -> Builder<K, Validate> {
        Builder::new(name.into())
    }

    /// Starts the builder of a webhook that mutates objects of the kind `K` before they are
    /// stored.
    ///
    /// The function fills in absent fields. If it changes an existing value, the call fails,
    /// unless [`overwrite`](Builder::overwrite) is set: the value belongs to the client that
    /// applied it. Fields that the type does not know are kept, and `status` and
    /// `metadata.managedFields` cannot be changed.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper_webhooks::{FailurePolicy, Webhook};
    ///
    /// async fn fill(mut object: ConfigMap) -> ConfigMap {
    ///     object.data.get_or_insert_default().entry("motto".into()).or_insert("keep calm".into());
    ///     object
    /// }
    ///
    /// let webhook = Webhook::mutate::<ConfigMap>("fill").failure(FailurePolicy::Ignore).function(fill).build();
    /// # assert!(webhook.is_ok());
    /// ```
    pub fn mutate<K: Kind + Serialize>(name: impl Into<String>) -> Builder<K, Mutate> {
        Builder::new(name.into())
    }

    /// The name, which is part of the path and of the API server's messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.rules.name
    }

    /// The path on the server, such as `/validate-example-com-v1-shop/check`: the path that
    /// controller-runtime uses, followed by the name. An API server accepts no underscore in the path of a Service.
    #[must_use]
    pub fn path(&self) -> String {
        let Rules { name, mutates, kind, .. } = &self.rules;
        let verb = if *mutates { "mutate" } else { "validate" };
        let (group, name) = (kind.group.replace('.', "-"), name.replace('_', "-"));
        format!("/{verb}-{group}-{}-{}/{name}", kind.version, kind.kind.to_lowercase())
    }

    /// Its state for the status page.
    pub(crate) fn state(&self, registered: Registered) -> WebhookState {
        let Rules { name, mutates, kind, .. } = &self.rules;
        let verb = if *mutates { "changes" } else { "validates" };
        WebhookState { name: name.clone(), purpose: format!("{verb} {}", kind.resource()), registered }
    }

    /// Decodes the objects of a request. The future decides on it.
    pub(crate) fn decide(
        &self,
        request: &Request<'_>,
        admission: Admission,
    ) -> Result<BoxFuture<'static, Result<Verdict, BoxError>>, BoxError> {
        (self.call)(request, admission)
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.rules.fmt(f)
    }
}

impl<K, M> Builder<K, M> {
    fn new(name: String) -> Self {
        Self {
            inputs: inputs::builder(&name),
            name,
            operations: vec![Operation::Create, Operation::Update],
            failure: None,
            timeout: checks::TIMEOUT,
            requested: Requested::default(),
            overwrite: false,
            function: None,
            kind: PhantomData,
        }
    }

    /// Sets `init`, which builds the state that the function takes as `State<S>`; see
    /// [`init` of a controller](controller::Builder::init). Webhooks and controllers with the same `init`
    /// share the state. Call this method before `function`.
    pub fn init<I, S, Args>(self, init: I) -> Builder<K, M, S>
    where
        I: Init<S, Args> + Clone,
        S: Send + Sync + 'static,
        Args: 'static,
    {
        self.with(|inputs| inputs.init(init))
    }

    /// Sets the state that the function takes as `State<S>`. Call this method before `function`.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Builder<K, M, S> {
        self.with(|inputs| inputs.state(state))
    }

    fn with<S>(
        self,
        change: impl FnOnce(controller::Builder<ConfigMap>) -> controller::Builder<ConfigMap, ConfigMap, S>,
    ) -> Builder<K, M, S> {
        let Self { name, operations, failure, timeout, requested, overwrite, inputs, kind, .. } = self;
        let inputs = change(inputs);
        Builder { name, operations, failure, timeout, requested, overwrite, inputs, function: None, kind }
    }
}

impl<K: Kind, M: 'static, S: Send + Sync + 'static> Builder<K, M, S> {
    /// Sets the operations for which the function is called. The default is creations and updates.
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Sets the failure policy. It is required for Kubernetes' own kinds; for other kinds the
    /// default is [`Fail`](FailurePolicy::Fail).
    pub fn failure(mut self, failure: FailurePolicy) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Sets how long the API server waits for a response, 30 seconds at most. The default is 5
    /// seconds. The function is cancelled after nine tenths of this time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the conditions of a call: names, and expressions in CEL, which all have to be true. They replace the usual
    /// ones: no updates of an object that is being deleted that change only its status and metadata other than labels and
    /// annotations, such as finalizers, whose removal must not fail; and for custom resources no updates that change
    /// neither spec, labels nor annotations, unless an object has no spec.
    pub fn match_conditions<N: Into<String>, E: Into<String>>(
        mut self,
        conditions: impl IntoIterator<Item = (N, E)>,
    ) -> Self {
        let conditions = conditions.into_iter().map(|(name, expression)| (name.into(), expression.into()));
        self.requested.conditions = Some(conditions.collect());
        self
    }

    /// Limits the calls to objects in namespaces with these labels, such as `environment=production,!legacy`. For kinds
    /// of Kubernetes it replaces the usual limit: all namespaces except `kube-system`, `kube-node-lease` and the
    /// program's own.
    pub fn namespace_selector(mut self, selector: impl Into<String>) -> Self {
        self.requested.namespaces = Some(selector.into());
        self
    }

    /// Adds subresources, such as `status`, that the function is called for beside the object.
    pub fn subresources<N: Into<String>>(mut self, subresources: impl IntoIterator<Item = N>) -> Self {
        self.requested.subresources = subresources.into_iter().map(Into::into).collect();
        self
    }

    /// Adds RBAC rules for the requests of a `Client`.
    pub fn rbac<R: AsRef<str>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        self.inputs = self.inputs.rbac(rules);
        self
    }

    pub(crate) fn planned(mut self, plan: impl FnOnce(&mut Plan)) -> Self {
        self.inputs = self.inputs.planned(plan);
        self
    }

    /// Builds the webhook.
    ///
    /// # Errors
    /// If the function is missing, or a setting does not fit it.
    pub fn build(self) -> Result<Webhook, ConfigError> {
        let mutates = TypeId::of::<M>() == TypeId::of::<Mutate>();
        let kind = KindInfo::of::<K>();
        let error = |problem: String| ConfigError { webhook: self.name.clone(), problem };
        let name: Arc<str> = self.name.as_str().into();
        checks::name(&self.name).map_err(error)?;
        checks::kind(&kind).map_err(error)?;
        checks::operations(&self.operations, mutates).map_err(error)?;
        checks::timeout(self.timeout).map_err(error)?;
        let failure = checks::failure(self.failure, &kind).map_err(error)?;
        let matching = self.requested.check(&kind, mutates).map_err(error)?;
        let Some(function) = self.function else {
            return Err(error("it has no function: set one with `function`".to_owned()));
        };
        if self.operations.contains(&Operation::Delete) && !function.sources.is_optional {
            let ty = &kind.kind;
            return Err(error(format!(
                "a deletion has no new object: take `Option<Arc<{ty}>>` as the first argument, and the deleted object as \
                 another `Option<Arc<{ty}>>`"
            )));
        }
        let inputs = function.sources.process.then(|| inputs::build(self.inputs, &self.name)).transpose();
        let (controller, inputs) = inputs.map_err(|problem| error(problem.to_string()))?.unzip();
        let rules = Rules {
            name: self.name,
            mutates,
            kind,
            operations: self.operations.iter().map(|operation| operation.name()).collect(),
            failure,
            timeout: self.timeout,
            matching,
            has_side_effects: function.sources.client,
        };
        let call = (function.bind)(inputs, name, self.overwrite);
        Ok(Webhook { rules, call, inputs: controller })
    }
}

impl<K: Kind, S: Send + Sync + 'static> Builder<K, Validate, S> {
    /// Sets the function.
    pub fn function<F: ValidateFunction<K, S, Args>, Args>(self, function: F) -> Self {
        self.planned(F::plan).validated_by(function.function())
    }

    pub(crate) fn validated_by(mut self, function: Function<K, S, ()>) -> Self {
        let Function { call, sources } = function;
        let bind: Bind<S> = Box::new(move |inputs, _, _| {
            Box::new(move |request, admission| {
                let new = request.object.map(decode).transpose()?;
                let old = old(request, sources)?;
                let process = inputs.as_ref().map(process).transpose()?;
                let called = call(Context { new, old, admission, process });
                // It was checked that the operation has an object.
                let called = called.ok_or("the request has no object")?;
                Ok(Box::pin(async move { verdict(called.await.map(|()| Patch::default())) }))
            })
        });
        self.function = Some(Bound { bind, sources });
        self
    }
}

impl<K: Kind + Serialize, S: Send + Sync + 'static> Builder<K, Mutate, S> {
    /// Lets the function change and remove existing values. Two clients that apply the same
    /// object then conflict with each other about these fields.
    pub fn overwrite(mut self) -> Self {
        self.overwrite = true;
        self
    }

    /// Sets the function.
    pub fn function<F: MutateFunction<K, S, Args>, Args>(self, function: F) -> Self {
        self.planned(F::plan).mutated_by(function.function())
    }

    pub(crate) fn mutated_by(mut self, function: Function<K, S, K>) -> Self {
        let Function { call, sources } = function;
        let bind: Bind<S> = Box::new(move |inputs, name, overwrite| {
            Box::new(move |request, admission| {
                let raw = request.object.ok_or("the request has no object")?;
                let object: K = decode(raw)?;
                let before = serde_json::to_value(&object)?;
                let old = old(request, sources)?;
                let process = inputs.as_ref().map(process).transpose()?;
                let called = call(Context { new: Some(object), old, admission, process });
                let called = called.ok_or("the request has no object")?;
                let (raw, name) = (raw.get().to_owned(), Arc::clone(&name));
                Ok(Box::pin(async move {
                    let after = match called.await {
                        Ok(object) => serde_json::to_value(&object)?,
                        Err(error) => return verdict(Err(error)),
                    };
                    if before == after {
                        return Ok(Verdict::Allowed(Patch::default()));
                    }
                    let raw: Value = serde_json::from_str(&raw)?;
                    Ok(Verdict::Allowed(patch(&name, &before, &after, &raw, overwrite)?))
                }))
            })
        });
        self.function = Some(Bound { bind, sources });
        self
    }
}

/// The process, as the source of arguments.
fn process<S>(inputs: &Inputs<S>) -> Result<Arc<Process<S>>, BoxError> {
    let none = "it is not ready: the caches of its readers are not synced yet, or its state is not built yet";
    inputs.get().cloned().ok_or_else(|| none.into())
}

fn verdict(result: Result<Patch, BoxError>) -> Result<Verdict, BoxError> {
    match result {
        Ok(patch) => Ok(Verdict::Allowed(patch)),
        Err(error) => match Denied::in_chain(&*error) {
            Some(denied) => Ok(Verdict::Denied(denied.clone())),
            None => Err(error),
        },
    }
}

/// The object before the request, if the function takes it. One that does not decode can be corrected, but not deleted, as
/// the function may protect it.
fn old<K: DeserializeOwned>(request: &Request<'_>, sources: ArgumentSources) -> Result<Option<Arc<K>>, BoxError> {
    let Some(raw) = request.old_object.filter(|_| sources.old) else { return Ok(None) };
    match decode(raw) {
        Ok(old) => Ok(Some(Arc::new(old))),
        Err(error) if request.operation == Operation::Update => {
            tracing::warn!("{error}; its update is checked as if it had not existed");
            Ok(None)
        }
        Err(error) => Err(format!("{error}; correct the stored object, then delete it").into()),
    }
}

/// Decodes an object. The error names the field, and no value of it.
fn decode<K: DeserializeOwned>(raw: &RawValue) -> Result<K, BoxError> {
    serde_json::from_str(raw.get()).map_err(|error| match undecodable::<K>(raw) {
        Some(known) => known,
        None => format!("the object does not decode (line {}, column {})", error.line(), error.column()).into(),
    })
}

/// The runtime's error about an object that does not decode, which needs a name.
fn undecodable<K: DeserializeOwned>(raw: &RawValue) -> Option<BoxError> {
    let named = Object::parse(raw.get().as_bytes()).ok();
    let object = named.or_else(|| {
        let mut object: Value = serde_json::from_str(raw.get()).ok()?;
        object.get_mut("metadata")?.as_object_mut()?.insert("name".to_owned(), "(generated)".into());
        Object::parse(object.to_string().as_bytes()).ok()
    })?;
    object.decode::<K>().err().map(Into::into)
}

kooper_runtime::internal::debug_fields! { Builder<K, M, S> { name } }

#[cfg(test)]
mod tests;
