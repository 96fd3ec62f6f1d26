//! The alerts for webhooks.

use super::{Alert, Condition, Severity};
use crate::metrics::table;
use crate::query::Scope;

/// Adds them.
pub(super) fn add(scope: &Scope, alerts: &mut Vec<Alert>) {
    alerts.push(Alert {
        name: "KooperWebhookAbsent",
        severity: Severity::Critical,
        hold: "10m",
        value: scope.of(&table::WEBHOOK_PROBED),
        condition: Condition::absent(scope, "installation"),
        summary: "The webhooks have no metrics",
        description: "The program does not run, or its metrics are not collected. See the state and the log of its pods, \
                      and the targets page of Prometheus.",
        controller: None,
    });
    let mut add = |name, severity, hold, value, condition: &str, [summary, description]: [&'static str; 2]| {
        let condition = Condition::Is(condition.to_owned());
        alerts.push(Alert { name, severity, hold, value, condition, summary, description, controller: None });
    };
    let matchers = scope.webhooks.iter().map(String::as_str).chain(["code!=\"200\""]).collect::<Vec<_>>().join(", ");
    let failed = Scope { webhooks: Some(matchers), ..scope.clone() };
    add(
        "KooperWebhookFailing",
        Severity::Warning,
        "10m",
        failed.rate(&table::WEBHOOK_REQUESTS, "5m", &["webhook", "code"]),
        "> 0",
        [
            "Requests to the webhook {{ $labels.webhook }} fail with {{ $labels.code }}",
            "With its failure policy Fail they are denied, and with Ignore nothing is checked. With 500, the function \
             fails, panics or takes too long, and the log of the program has the reason.",
        ],
    );
    add(
        "KooperWebhookUnreached",
        Severity::Critical,
        "10m",
        format!("time() - {}", scope.max(&table::WEBHOOK_PROBED, &["installation"])),
        "> 300",
        [
            "No API server has reached the webhooks of {{ $labels.installation }} for {{ $value | humanizeDuration }}",
            "With their failure policy Fail, requests are denied, and with Ignore nothing is checked. See the Events \
             about the Secret of the webhooks' certificate authority, the Service, and the NetworkPolicies between the \
             API servers and the pods. The alert also fires if Prometheus cannot scrape the replica that registers \
             the webhooks: see its targets page.",
        ],
    );
    add(
        "KooperWebhookCertificateExpires",
        Severity::Critical,
        "1h",
        format!("{} - time()", scope.min(&table::WEBHOOK_EXPIRY, &["installation", "certificate"])),
        "< 172800",
        [
            "The {{ $labels.certificate }} certificate of the webhooks of {{ $labels.installation }} expires in {{ $value | \
             humanizeDuration }}",
            "It is renewed after two thirds of its time, so that this has failed for days. The log of the program has \
             the reason: most often the Secret of the certificate authority cannot be read or written.",
        ],
    );
}
