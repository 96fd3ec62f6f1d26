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
pub(super) fn of(view: &ControllerView) -> (Vec<WebhookRow>, Vec<String>) {
    let known = view.extensions().get::<kooper_webhooks::States>().known();
    let rows = known.webhooks.into_iter().map(|one| WebhookRow {
        name: one.name,
        purpose: one.purpose,
        registered: one.registered.text(),
        is_bad: one.registered.is_bad(),
    });
    let until = |what: &str, at| format!("The certificate of {what} is valid until {at}.");
    let certificates = [("the authority", known.authority_until), ("this replica", known.serving_until)];
    let certificates = certificates.into_iter().filter_map(|(what, at)| Some(until(what, at?)));
    let probed = known.probed.map(|at| format!("An API server last reached the webhooks at {at}."));
    (rows.collect(), certificates.chain(probed).collect())
}

#[cfg(not(feature = "webhooks"))]
pub(super) fn of(_: &ControllerView) -> (Vec<WebhookRow>, Vec<String>) {
    (Vec::new(), Vec::new())
}
