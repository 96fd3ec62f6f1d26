//! Faults on demand: what a server does wrong because a test asks for it.
//!
//! A fault is for requests or for watch events, and is injected into all of
//! them, the nth, or some by chance:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::time::Duration;
//!
//! use kooper_apiserver::ApiServer;
//! use kooper_apiserver::faults::{Reply, Requests, Verb, WatchEvent};
//!
//! let server = ApiServer::start().await?;
//! let faults = server.faults();
//!
//! faults.on(Verb::Patch.of("shops")).nth(2).reply(503);
//! faults.on(Verb::Create.of("pods").in_namespace("shop")).reply(Reply::new(429).retry_after(1));
//! faults.on(Verb::Update.of("shops/status").named("a")).first(3).reply(409);
//! faults.on(Requests::writes().by("system:serviceaccount:default:shops")).nth(4).drop_response();
//! faults.on(Requests::all()).with_probability(0.01).delay(Duration::from_millis(50));
//! faults.on_event(WatchEvent::Modified.of("shops")).nth(1).skip();
//! # Ok::<_, std::io::Error>(())
//! # })?;
//! # Ok::<_, std::io::Error>(())
//! ```
//!
//! [`ApiServer::compact`] expires the history, [`Faults::restart`] restarts the
//! server, [`Faults::freeze`] freezes its watch cache.
//!
//! Where several faults are for one request, the one that was added last is
//! injected. Clients in the process meet the same faults as those of a socket.
//!
//! # Once more
//!
//! Chance comes from one seed. It is drawn when [`ApiServer::faults`] is first
//! called, or taken from the environment variable `KOOPER_SEED`. Whether a
//! request meets a fault depends on the seed, the fault, the object and how
//! often it was asked for, and not on what other clients do meanwhile. Watch
//! events of objects with generated names are counted by what the names begin with.
//!
//! If a test panics, the seed and the injected faults are printed, and the
//! faults are written to a file. With `KOOPER_FAULTS=FILE` exactly those are
//! injected, and none of those that the test adds.
//!
//! [`ApiServer::compact`]: crate::ApiServer::compact
//! [`ApiServer::faults`]: crate::ApiServer::faults

mod chance;
mod effect;
mod journal;
mod on;
mod outage;
mod plan;
mod reply;
mod report;
mod request_attributes;
mod requests;
mod rules;
mod state;
mod stream;
mod view;
mod walk;
mod watch_events;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::effect::{Effect, EventEffect};
pub use self::journal::Answered;
pub use self::on::{Fault, On};
pub use self::outage::Outage;
pub use self::plan::PlanError;
pub use self::reply::Reply;
pub(crate) use self::report::Report;
pub(crate) use self::request_attributes::RequestAttributes;
pub use self::requests::{Requests, Verb};
pub(crate) use self::state::State;
pub use self::view::Frozen;
pub(crate) use self::view::View;
pub(crate) use self::walk::serve;
pub use self::watch_events::{WatchEvent, WatchEvents};
pub use self::webhooks::WebhookFault;
use crate::store::Store;

/// The faults of a server. All clones are of the same server. See the [module](self).
#[derive(Clone, Debug)]
pub struct Faults {
    state: Arc<State>,
    store: Store,
}

impl Faults {
    pub(crate) fn of(state: &Arc<State>, store: &Store) -> Self {
        state.arm();
        Self { state: Arc::clone(state), store: store.clone() }
    }

    /// Begins a fault for requests: for [`Requests`], a [`Verb`] or the name of a resource.
    pub fn on(&self, requests: impl Into<Requests>) -> On<Requests> {
        On::new(self.clone(), requests.into())
    }

    /// Begins a fault for watch events: for [`WatchEvents`] or a [`WatchEvent`].
    pub fn on_event(&self, events: impl Into<WatchEvents>) -> On<WatchEvents> {
        On::new(self.clone(), events.into())
    }

    /// Freezes the watch cache for some clients or resources, until the answer is
    /// dropped: watches show no further changes, and lists that accept a cached
    /// state, with `resourceVersion=0`, show that of now. Other reads and all
    /// writes are served as usual, as by another replica of the server.
    ///
    /// A list or watch of a newer version gets the 504 of a cache that is behind.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let server = kooper_apiserver::ApiServer::start().await?;
    /// let frozen = server.faults().freeze("configmaps");
    /// // … what is written now is not seen …
    /// drop(frozen);
    /// # Ok::<_, std::io::Error>(())
    /// # })?;
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn freeze(&self, requests: impl Into<Requests>) -> Frozen {
        self.state.views.freeze(requests.into(), self.store.version())
    }

    /// Makes the server unavailable until the answer is dropped: watches are cut,
    /// and requests end without an answer. Its data and its tokens remain, its
    /// history does not: watches that continue from before get `410 Gone`.
    pub fn outage(&self) -> Outage {
        Outage::begin(&self.state, &self.store)
    }

    /// Restarts the server with the same data: an [`outage`](Self::outage) that is over at once.
    pub fn restart(&self) {
        drop(self.outage());
    }

    /// Lets a webhook fail from now on: by its name in its configuration, or what this name begins with. It is not
    /// called then, and its failure policy decides.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let server = kooper_apiserver::ApiServer::start().await?;
    /// use kooper_apiserver::faults::WebhookFault;
    ///
    /// server.faults().webhook("check", WebhookFault::Away);
    /// // … what it guards cannot be written, or is not guarded …
    /// server.faults().clear();
    /// # Ok::<_, std::io::Error>(())
    /// # })?;
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn webhook(&self, name: &str, fault: WebhookFault) {
        self.state.webhooks.lock().insert(name.to_owned(), fault);
    }

    /// Spares a user, such as the one by which a test looks at the result: its requests meet no faults,
    /// no frozen view and no outage, and are not among [`requests`](Self::requests).
    pub fn spare(&self, user: &str) {
        self.state.rules().spared.insert(user.to_owned());
    }

    /// Removes all faults that were added. What is frozen or out of service remains so.
    pub fn clear(&self) {
        self.state.rules().clear();
        self.state.webhooks.lock().clear();
    }

    /// The seed of chance.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.state.rules().seed
    }

    /// Sets the seed of chance, for tests that try many.
    pub fn set_seed(&self, seed: u64) {
        self.state.rules().seed = seed;
    }

    /// The faults that were injected so far, a line of JSON for each: what [`replay`](Self::replay) takes.
    #[must_use]
    pub fn injected(&self) -> String {
        self.state.rules().injected()
    }

    /// Injects these faults again, each into the same request or watch event, and none of those that are added.
    /// Requests are counted from the first call of [`ApiServer::faults`](crate::ApiServer::faults).
    ///
    /// # Errors
    ///
    /// When a line cannot be read.
    pub fn replay(&self, injected: &str) -> Result<(), PlanError> {
        let plan = plan::parse(injected)?;
        self.state.rules().replay(plan);
        self.state.watch_events();
        Ok(())
    }

    /// The seed, what was injected, and how to repeat it; `None` if no fault was ever added. It is printed when the
    /// server is dropped by a panic, unless it was asked for before. The faults are written to a file, as [`replay`](Self::replay) takes them.
    #[must_use]
    pub fn report(&self) -> Option<String> {
        self.state.reported.store(true, Ordering::Release);
        report::text(&self.state)
    }

    /// The last requests and how they were answered, at most a hundred, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Answered> {
        self.state.journal.requests()
    }
}
