//! Fields that the controller applied under a former name.

use serde_json::json;

use super::error::AccessError;
use super::request::{Doing, Objects};
use crate::object::Object;

impl Objects<'_> {
    /// Takes over the fields that the controller applied under its former
    /// names, once for each object. After this controller has applied the
    /// desired state, each former field manager applies nothing, which removes
    /// the fields that are no longer desired.
    pub(super) async fn take_over(&self, applied: Option<&Object>, status: bool) -> Result<(), AccessError> {
        let former = &self.backing.former;
        let pending = |object: &&Object| former.is_pending(&self.kind, object.key(), object.uid(), status);
        let Some(object) = applied.filter(pending) else { return Ok(()) };
        let nothing = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": {"name": object.key().name(), "namespace": object.key().namespace(), "uid": object.uid()},
        });
        for manager in &former.managers {
            let (body, manager) = (nothing.clone(), manager.clone());
            let doing = if status { Doing::ApplyStatus(body, manager) } else { Doing::Apply(body, manager) };
            self.send(object.key(), doing).await?;
        }
        former.complete(&self.kind, object.key(), object.uid(), status);
        Ok(())
    }
}
