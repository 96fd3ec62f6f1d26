//! Fields that the controller applied under a previous name.

use serde_json::json;

use super::author::{ManagedEntry, ManagedObject};
use super::error::AccessError;
use super::request::{ApiResponse, Operation, ResourceClient};

impl ResourceClient<'_> {
    /// Takes over the fields that the controller applied under its previous names.
    /// After this controller has applied the desired state, each previous field
    /// manager of the object applies nothing, which removes the fields that are no
    /// longer desired.
    pub(super) async fn take_over(&self, (object, text): &ApiResponse, status: bool) -> Result<(), AccessError> {
        let Some(object) = object else { return Ok(()) };
        for manager in applied_by(&self.controller.previous, text, status) {
            let nothing = json!({
                "apiVersion": self.kind.api_version(),
                "kind": self.kind.kind,
                "metadata": {"name": object.key().name(), "namespace": object.key().namespace(), "uid": object.uid()},
            });
            let operation =
                if status { Operation::ApplyStatus(nothing, manager) } else { Operation::Apply(nothing, manager) };
            self.send(object.key(), operation).await?;
        }
        Ok(())
    }
}

/// Those of the field managers that have applied fields of an object, or of its status.
fn applied_by(managers: &[String], text: &str, status: bool) -> Vec<String> {
    // Almost no object has one of them.
    if !managers.iter().any(|manager| text.contains(manager)) {
        return Vec::new();
    }
    let Ok(ManagedObject { metadata }) = serde_json::from_str(text) else { return Vec::new() };
    let of_part =
        |entry: &ManagedEntry| entry.operation == "Apply" && entry.subresource == if status { "status" } else { "" };
    let has =
        |manager: &String| metadata.managed_fields.iter().any(|entry| entry.manager == *manager && of_part(entry));
    managers.iter().filter(|manager| has(manager)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_previous_managers_that_have_applied_the_same_part_of_the_object_are_found() {
        let object = json!({"metadata": {"name": "a", "managedFields": [
            {"manager": "shop/web", "operation": "Apply", "fieldsV1": {"f:data": {}}},
            {"manager": "shop/old", "operation": "Update"},
            {"manager": "shop/status", "operation": "Apply", "subresource": "status"},
            {"manager": "shop/web-2", "operation": "Apply"},
        ]}});
        let managers = ["shop/web", "shop/old", "shop/status", "shop/we"].map(str::to_owned);
        let found = |text: &str, status| applied_by(&managers, text, status);
        assert_eq!(found(&object.to_string(), false), ["shop/web"]);
        assert_eq!(found(&object.to_string(), true), ["shop/status"]);
        assert!(found(r#"{"metadata": {"name": "shop/web"}}"#, false).is_empty());
        assert!(found("shop/web", false).is_empty());
    }
}
