//! The webhooks of a program, in the section of the controller that registers them.

use kooper_runtime::internal::controller::view::ControllerView;

/// A webhook.
#[derive(Debug)]
pub(crate) struct WebhookRow {
    pub(crate) name: String,
    pub(crate) purpose: String,
    /// The state of its registration.
    pub(crate) registered: &'static str,
    pub(crate) is_bad: bool,
}

/// The webhooks, if this is the controller that registers them, and remarks about the certificates and the last probe.
#[cfg(feature = "webhooks")]
pub(super) fn of(view: &ControllerView, is_standby: bool) -> (Vec<WebhookRow>, Vec<String>) {
    shown(view.extensions().get::<kooper_webhooks::States>().known(), is_standby)
}

/// A standby may have been the leader: since then another replica registers the webhooks.
#[cfg(feature = "webhooks")]
fn shown(known: kooper_webhooks::KnownWebhooks, is_standby: bool) -> (Vec<WebhookRow>, Vec<String>) {
    let rows = known.webhooks.into_iter().map(|one| {
        let registered = if is_standby { kooper_webhooks::Registered::Unknown } else { one.registered };
        let (registered, is_bad) = (registered.text(), registered.is_bad());
        WebhookRow { name: one.name, purpose: one.purpose, registered, is_bad }
    });
    let until = |what: &str, at| format!("The certificate of {what} is valid until {at}.");
    let certificates = [("the authority", known.authority_until), ("this replica", known.serving_until)];
    let certificates = certificates.into_iter().filter_map(|(what, at)| Some(until(what, at?)));
    let probed = known.probed.filter(|_| !is_standby);
    let probed = probed.map(|at| format!("An API server last reached the webhooks at {at}."));
    (rows.collect(), certificates.chain(probed).collect())
}

#[cfg(not(feature = "webhooks"))]
pub(super) fn of(_: &ControllerView, _: bool) -> (Vec<WebhookRow>, Vec<String>) {
    (Vec::new(), Vec::new())
}

#[cfg(all(test, feature = "webhooks"))]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use kooper_webhooks::{KnownWebhooks, Registered, WebhookState};

    use super::*;

    #[test]
    fn a_replica_that_was_the_leader_does_not_say_how_webhooks_are_registered_now() {
        let known = || {
            let (name, purpose) = ("check".to_owned(), "validates shops.example.com".to_owned());
            let webhooks = vec![WebhookState { name, purpose, registered: Registered::Unreached }];
            KnownWebhooks { webhooks, probed: Some(Timestamp::UNIX_EPOCH), ..KnownWebhooks::default() }
        };
        let (rows, remarks) = shown(known(), false);
        assert_eq!((rows[0].registered, rows[0].is_bad, remarks.len()), (Registered::Unreached.text(), true, 1));
        let (rows, remarks) = shown(known(), true);
        assert_eq!((rows[0].registered, rows[0].is_bad, remarks.len()), (Registered::Unknown.text(), false, 0));
    }
}
