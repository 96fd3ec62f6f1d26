//! The status of an owner: the conditions that summarize its children.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kooper_access::capability::{HasStatus, set_condition};
use kooper_access::extract::{Argument, Context};
use kooper_access::plan::Plan;
use kooper_access::{Conditions, StatusWriter};
use kooper_runtime::internal::clock::wall;
use kooper_runtime::{BoxError, Kind};
use serde::Serialize;
use serde_json::Value;

use crate::graph::GraphError;
use crate::record::owner;
use crate::typed::PlanSlot;

/// An owner whose status can have the conditions of its children. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status for the conditions of its children",
    label = "an owner without this status",
    note = "give it a status that implements `Default` and has the fields `conditions: Vec<Condition>` and `observed_generation: Option<i64>`, or write `status = none`"
)]
pub trait OwnerStatus<M>: HasStatus<M, Status: Serialize + Default> {}

#[diagnostic::do_not_recommend]
impl<P: HasStatus<M, Status: Serialize + Default>, M> OwnerStatus<M> for P {}

/// The fields of a status that summarize the children, see [`Declaration::status`](crate::Declaration::status).
#[derive(Debug)]
pub struct StatusFields {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

impl StatusFields {
    /// The field with the conditions.
    pub fn conditions(&mut self, field: &mut Vec<Condition>) -> &mut Self {
        std::mem::swap(&mut self.conditions, field);
        self
    }

    /// The field with the generation that the conditions are about.
    pub fn observed_generation(&mut self, field: &mut Option<i64>) -> &mut Self {
        std::mem::swap(&mut self.observed_generation, field);
        self
    }
}

/// The permission to write the status of the owner.
#[derive(Debug)]
pub struct Reports<M>(std::marker::PhantomData<fn() -> M>);

impl<P: OwnerStatus<M> + Kind, S, M> PlanSlot<P, S> for Reports<M> {
    fn plan(plan: &mut Plan) {
        <StatusWriter<P> as Argument<P, S, (P, M)>>::plan(plan);
    }
}

/// Makes the next status of an owner of the one before.
pub(crate) type Compose<P> = Box<dyn FnOnce(&P, Value) -> Result<Value, serde_json::Error> + Send>;

/// Writes the status of the owner of a call.
pub(crate) type Report<P, S> =
    Arc<dyn for<'a> Fn(&'a Context<P, S>, Compose<P>) -> BoxFuture<'a, Result<(), BoxError>> + Send + Sync>;

pub(crate) fn report<P: OwnerStatus<M> + Kind, S: Send + Sync + 'static, M: 'static>() -> Report<P, S> {
    Arc::new(|context, compose| {
        let owner = owner(context);
        let statuses = <StatusWriter<P> as Argument<P, S, (P, M)>>::extract(context);
        async move {
            statuses.compose_status(&owner, |status| compose(&*owner, status)).await?;
            Ok(())
        }
        .boxed()
    })
}

/// The condition of a paused object, and its reason, by which it is not taken for one of the handler.
const PAUSED: &str = "Paused";
const PAUSE_ANNOTATION: &str = "PauseAnnotation";

/// The reason of `Ready` while the handler fails.
pub(crate) const HANDLER_FAILED: &str = "HandlerFailed";

/// Returns whether the handler failed in the last call.
pub(crate) fn has_failed(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["reason"] == HANDLER_FAILED)
}

/// A status with the conditions that are set.
pub(crate) fn summarized<P: Kind>(
    owner: &P,
    mut status: Value,
    judge: impl FnOnce(&mut Conditions),
) -> Result<Value, serde_json::Error> {
    let mut before = conditions_of(&mut status)?;
    before.retain(|one| one.type_ != PAUSED || one.reason != PAUSE_ANNOTATION);
    let mut conditions = Conditions::of(owner, &before);
    judge(&mut conditions);
    status["conditions"] = serde_json::to_value(conditions.into_vec())?;
    status["observedGeneration"] = owner.meta().generation.into();
    Ok(status)
}

/// A status that says that its object is paused. The rest stays as it is, because the children are not looked at.
pub(crate) fn paused(mut status: Value, why: String) -> Result<Value, serde_json::Error> {
    let mut conditions = conditions_of(&mut status)?;
    // Without a generation: a new one does not change that it is paused, and would cause a write.
    let condition = Condition {
        last_transition_time: Time(wall()),
        message: why,
        observed_generation: None,
        reason: PAUSE_ANNOTATION.to_owned(),
        status: "True".to_owned(),
        type_: PAUSED.to_owned(),
    };
    set_condition(&mut conditions, condition);
    status["conditions"] = serde_json::to_value(conditions)?;
    Ok(status)
}

/// Takes the conditions out of a status.
fn conditions_of(status: &mut Value) -> Result<Vec<Condition>, serde_json::Error> {
    let conditions: Option<_> = serde_json::from_value(status["conditions"].take())?;
    Ok(conditions.unwrap_or_default())
}

/// Checks that the status has the fields by the names that Kubernetes' tools know: the API server would drop others.
pub(crate) fn check<T: Serialize + Default>(fields: impl FnOnce(&mut T, &mut StatusFields)) -> Option<GraphError> {
    let condition = Condition {
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        message: String::new(),
        observed_generation: None,
        reason: String::new(),
        status: "True".to_owned(),
        type_: "Ready".to_owned(),
    };
    let mut status = T::default();
    fields(&mut status, &mut StatusFields { conditions: vec![condition], observed_generation: Some(1) });
    let written = serde_json::to_value(status).unwrap_or_default();
    let wanted = [
        ("conditions", written["conditions"][0].is_object()),
        ("observedGeneration", written["observedGeneration"] == 1),
    ];
    wanted.into_iter().find(|(_, is_written)| !is_written).map(|(field, _)| GraphError::Status(field))
}
