//! Objects that are cleaned up, that leave a selector, and that are deleted.

use k8s_openapi::api::core::v1::{PodTemplate, ReplicationController, Service, ServiceAccount, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kooper::__private::v1::Program;
use kooper::Controller;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use serde_json::json;

use crate::fresh;

pub(super) fn define(program: &mut Program) {
    program.add(
        Controller::builder::<Service>("services")
            .handler(delete_service)
            .cleanup("permissions.example.com/service", clean_service),
    );
    program.add(
        Controller::builder::<PodTemplate>("templates")
            .labels("leaves=yes")
            .cleanup_on_leave()
            .handler(leave)
            .cleanup("permissions.example.com/template", async || tracing::info!("templates: done")),
    );
    program.add(
        Controller::builder::<PodTemplate>("abandoned")
            .labels("leaves=alone")
            .handler(leave)
            .cleanup("permissions.example.com/abandoned", async || {}),
    );
    program.add(
        Controller::builder::<ServiceAccount>("accounts")
            .labels("departs=yes")
            .handler(delete_account)
            .deleted(account_deleted),
    );
}

async fn delete_service(service: Arc<Service>, services: Deleter<Service>) -> Result {
    Ok(services.delete_object(&service).await?)
}

/// Writes the object, so that the finalizer must be removed from a newer version.
async fn clean_service(service: Arc<Service>, statuses: StatusWriter<Service>) -> Result {
    let condition = Condition {
        type_: "Clean".to_owned(),
        status: "True".to_owned(),
        reason: "Done".to_owned(),
        message: fresh(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    };
    let status = ServiceStatus { conditions: Some(vec![condition]), ..ServiceStatus::default() };
    statuses.apply_status(&service, &status).await?;
    tracing::info!("services: cleaned up");
    Ok(())
}

/// Removes the label of the controllers' selectors.
async fn leave(template: Arc<PodTemplate>, templates: Patcher<PodTemplate>) -> Result {
    templates.patch_object(&template, PatchBody::merge(json!({"metadata": {"labels": {"leaves": null}}}))).await?;
    Ok(())
}

async fn delete_account(account: Arc<ServiceAccount>, accounts: Deleter<ServiceAccount>) -> Result {
    Ok(accounts.delete_object(&account).await?)
}

async fn account_deleted(account: Arc<ServiceAccount>, gone: Gone, others: Getter<ReplicationController>) -> Result {
    others.fetch(&ObjectKey::namespaced(&account.namespace().unwrap_or_default(), "none")).await?;
    tracing::info!("accounts: {gone:?}");
    Ok(())
}
