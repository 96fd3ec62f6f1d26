//! The state of the webhooks as this process knows it, for the status page.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

/// The states of the webhooks, which the registration keeps up to date in the replica that leads.
#[derive(Debug, Clone, Default)]
pub struct States(Arc<Mutex<KnownWebhooks>>);

/// The known state.
#[derive(Debug, Clone, Default)]
pub struct KnownWebhooks {
    /// The webhooks, in the order of the program.
    pub webhooks: Vec<WebhookState>,
    /// Until when the certificate of this replica is valid, if it has one.
    pub serving_until: Option<Timestamp>,
    /// Until when that of the authority is valid, if it is known.
    pub authority_until: Option<Timestamp>,
    /// When an API server last reached the webhooks of this replica's configurations.
    pub probed: Option<Timestamp>,
}

/// The state of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookState {
    /// Its name.
    pub name: String,
    /// Its purpose, such as `validates shops.example.com`.
    pub purpose: String,
    /// The state of its registration.
    pub registered: Registered,
}

/// The registration of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// This replica does not know, as another one registers it.
    Unknown,
    /// It is registered when all replicas are of this version.
    Later,
    /// With `Ignore`, until an API server has reached it.
    Unreached,
    /// With `Ignore`, as it says.
    Ignore,
    /// With `Fail`.
    Fail,
}

impl States {
    /// The state that is known now.
    #[must_use]
    pub fn known(&self) -> KnownWebhooks {
        self.0.lock().clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut KnownWebhooks)) {
        change(&mut self.0.lock());
    }
}

impl Registered {
    /// A text for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "by the replica that leads",
            Self::Later => "when all replicas are of this version",
            Self::Unreached => "with Ignore: no API server has reached it yet",
            Self::Ignore => "with Ignore",
            Self::Fail => "with Fail",
        }
    }

    /// Returns whether it is not as it should be.
    #[must_use]
    pub fn is_bad(self) -> bool {
        self == Self::Unreached
    }
}
