//! A program with strict lints: its `main` causes no warnings either.
#![deny(missing_docs, unreachable_pub, unused, warnings)]
#![deny(clippy::all, clippy::pedantic, clippy::unused_async)]

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pod>) {
    tracing::info!(pod = %pod.name_any(), "seen");
}
