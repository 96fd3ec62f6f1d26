//! Webhooks that are not what they should be.

/// The way in which a webhook fails, see [`Faults::webhook`](super::Faults::webhook).
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
