//! A program that logs each ConfigMap that it handles.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap)]
async fn echo(config: Arc<ConfigMap>) {
    tracing::info!("handled {}", config.name_any());
}
