//! Webhooks that are not what they should be.

/// How a webhook fails, see [`Faults::webhook`](super::Faults::webhook).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookFault {
    /// Nothing listens at its address.
    Away,
    /// It does not answer within its timeout.
    Slow,
    /// Its certificate is not of the authority of its configuration.
    WrongCertificate,
    /// Its answer is no review.
    Garbage,
}

/// Returns whether a webhook has this name, or begins with it, as `check.shop.kooper.rs` with `check`.
pub(super) fn is_named(webhook: &str, name: &str) -> bool {
    webhook == name || webhook.split('.').next() == Some(name)
}
