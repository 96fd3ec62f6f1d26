//! The ports of the program: that of metrics, which may be secured, that of probes, and that of webhooks.

use serde_json::{Value, json};

use super::Part;

/// The ports as the documents have them.
pub(crate) struct Ports {
    /// Those of the container.
    pub(crate) container: Value,
    /// The name of the port of probes.
    pub(crate) probe: Value,
    /// Those of the Service.
    pub(crate) service: Value,
    /// The ingress rules of the NetworkPolicy.
    pub(crate) ingress: Value,
    /// The endpoint of the ServiceMonitor.
    pub(crate) endpoint: Value,
    pub(crate) has_any: Part,
    pub(crate) has_metrics: Part,
    pub(crate) has_probes: Part,
}

/// Where probes are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbePort {
    /// On the port of the metrics.
    Shared,
    Off,
    Own(u16),
}

/// The authentication of clients, and the certificate of the metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Security {
    pub(crate) reviews_tokens: bool,
    /// `true` if tokens have to be for another audience than the API server.
    pub(crate) has_audience: bool,
    /// `true` if a certificate is in files.
    pub(crate) has_certificate: bool,
    /// The Secret with the certificate.
    pub(crate) secret: Option<String>,
}

impl Security {
    pub(super) fn has_tls(&self) -> bool {
        self.has_certificate || self.reviews_tokens
    }

    /// Returns `true` if the program signs its own certificate.
    fn signs_itself(&self) -> bool {
        self.has_tls() && !self.has_certificate
    }
}

/// The name of the port of probes, if they have one of their own.
const PROBES: &str = "probes";

/// The port of webhooks: its name, and its usual number.
pub(crate) const WEBHOOKS: (&str, u16) = ("webhooks", 10250);

/// The file in the pods of Prometheus with the token of their service account.
pub(crate) const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

impl Ports {
    /// The ports of these numbers; `server` is the name that the certificate has to have.
    pub(crate) fn new(
        metrics: Option<u16>,
        probes: ProbePort,
        webhooks: Option<u16>,
        security: &Security,
        server: &str,
    ) -> Self {
        // Meshes read the protocol from the name.
        let name = if security.has_tls() { "https" } else { "http" };
        let metrics = metrics.map(|port| (name, port));
        let probe = match probes {
            ProbePort::Shared => metrics,
            ProbePort::Off => None,
            ProbePort::Own(port) => Some((PROBES, port)),
        };
        let own_probe = probe.filter(|_| probes != ProbePort::Shared);
        let webhooks = webhooks.map(|port| (WEBHOOKS.0, port));
        let all: Vec<_> = metrics.into_iter().chain(own_probe).chain(webhooks).collect();
        let each = |port: fn(&(&str, u16)) -> Value| all.iter().map(port).collect::<Vec<_>>();
        Self {
            container: each(|(name, port)| json!({"name": name, "containerPort": port, "protocol": "TCP"})).into(),
            probe: probe.map(|(name, _)| name).into(),
            service: metrics
                .map(|(name, port)| json!([{"name": name, "port": port, "targetPort": name, "protocol": "TCP"}]))
                .into(),
            ingress: all
                .iter()
                .map(|(name, _)| {
                    let ports = json!([{"port": name, "protocol": "TCP"}]);
                    // A kubelet may always connect to the pods of its node, and API servers have no pods to select.
                    let is_open = [PROBES, WEBHOOKS.0].contains(name);
                    if is_open { json!({"ports": ports}) } else { json!({"from": clients(), "ports": ports}) }
                })
                .collect(),
            endpoint: endpoint(name, security, server),
            has_any: Part::when(!all.is_empty()),
            has_metrics: Part::when(metrics.is_some()),
            has_probes: Part::when(probe.is_some()),
        }
    }
}

/// Who may connect to the metrics: the pods of namespaces with a label, as of Kubebuilder.
pub(crate) fn clients() -> Value {
    json!([{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}])
}

fn endpoint(port: &str, security: &Security, server: &str) -> Value {
    let mut endpoint = json!({"port": port, "path": "/metrics"});
    if security.has_tls() {
        endpoint["scheme"] = "https".into();
        endpoint["tlsConfig"] = json!({"serverName": server});
    }
    if security.signs_itself() {
        endpoint["tlsConfig"] = json!({"insecureSkipVerify": true});
    }
    if let Some(secret) = &security.secret {
        endpoint["tlsConfig"]["ca"] = json!({"secret": {"name": secret, "key": "ca.crt"}});
    }
    if security.reviews_tokens {
        endpoint["bearerTokenFile"] = TOKEN_FILE.into();
    }
    endpoint
}

#[cfg(all(test, feature = "webhooks"))]
mod tests {
    #[test]
    fn the_port_of_webhooks_is_the_one_that_they_are_served_on() {
        assert_eq!(super::WEBHOOKS.1, kooper_webhooks::PORT);
    }
}
