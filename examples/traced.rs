//! Measures the steps of a call with custom spans. They are children of the
//! call's span, which has the controller, the key, the attempt and the reasons.
//!
//! Every line of the log has the spans that contain it. With `--log-format
//! json` they are fields, for a log collector.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin traced -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl label pod hello broken=yes`. The log has `works` in the span
//! `work` of four attempts, and then `the handler failed: it is broken`.
//!
//! The feature `otel` of `kooper` exports the spans to an OpenTelemetry
//! collector, if an environment variable sets its address. Jaeger is such a collector and
//! shows them on <http://localhost:16686>:
//! `docker run --rm -p 4318:4318 -p 16686:16686 jaegertracing/jaeger`
//! `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run --bin traced -- dev`

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;
use kooper::tracing::{Instrument, info_span};

/// The steps of a call, one of which fails for pods with the label `broken`.
#[kooper::controller(resource = Pod, retries = 3)]
async fn traced(pod: Arc<Pod>, configs: Getter<ConfigMap>) -> Result<()> {
    let namespace = pod.namespace().unwrap_or_default();
    let settings = ObjectKey::namespaced(&namespace, "kube-root-ca.crt");
    let found = configs.fetch(&settings).instrument(info_span!("fetch", %settings)).await?;
    let work = async {
        tracing::info!(settings = found.is_some(), "works");
        if pod.labels().contains_key("broken") { Err("it is broken") } else { Ok(()) }
    };
    Ok(work.instrument(info_span!("work", node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()))).await?)
}
