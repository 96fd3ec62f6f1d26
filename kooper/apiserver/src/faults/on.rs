//! A fault while it is described: what it is for, when, and what happens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::rules::FaultTiming;
use super::{Effect, EventEffect, Faults, Reply, Requests, WatchEvents};

/// A fault while it is described: when it is injected, then what happens.
///
/// Without a restriction it is injected each time.
#[derive(Clone, Debug)]
#[must_use = "it is not injected until an effect is chosen, such as `reply(503)`"]
pub struct On<M> {
    faults: Faults,
    matcher: M,
    when: FaultTiming,
}

impl<M> On<M> {
    pub(super) fn new(faults: Faults, matcher: M) -> Self {
        Self { faults, matcher, when: FaultTiming::default() }
    }

    /// Only the nth time, from 1. Each fault counts what it is for from the moment at which it is added;
    /// with [`after`](Self::after), from then on.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn nth(mut self, n: u64) -> Self {
        assert!(n > 0, "the first time is 1: write `nth(1)`");
        self.when.after = self.when.after.saturating_add(n - 1);
        self.when.times = Some(1);
        self
    }

    /// Only the first so many times.
    pub fn first(mut self, times: u64) -> Self {
        self.when.times = Some(times);
        self
    }

    /// Not before it happened so many times.
    pub fn after(mut self, times: u64) -> Self {
        self.when.after = self.when.after.saturating_add(times);
        self
    }

    /// By chance, from 0 (never) to 1 (each time). The seed decides, see the [module](super).
    ///
    /// # Panics
    ///
    /// If the probability is not in this range.
    pub fn with_probability(mut self, probability: f64) -> Self {
        assert!((0.0..=1.0).contains(&probability), "a probability is from 0 to 1: {probability}");
        self.when.probability = probability;
        self
    }
}

#[expect(clippy::must_use_candidate, reason = "a fault stays when its handle is dropped")]
impl On<Requests> {
    /// Refuses the request with a code, such as 503, or with a [`Reply`].
    pub fn reply(self, reply: impl Into<Reply>) -> Fault {
        self.add(Effect::Reply(reply.into()))
    }

    /// Serves the request later. With `Duration::MAX` it is never answered.
    pub fn delay(self, delay: Duration) -> Fault {
        self.add(Effect::Delay(delay))
    }

    /// Serves the request at once, and answers later.
    pub fn delay_answer(self, delay: Duration) -> Fault {
        self.add(Effect::DelayAnswer(delay))
    }

    /// Resets the connection before the request is served.
    pub fn reset(self) -> Fault {
        self.add(Effect::Reset)
    }

    /// Serves the request, and resets the connection instead of the answer: a write has happened, and the client
    /// cannot know.
    pub fn drop_response(self) -> Fault {
        self.add(Effect::DropResponse)
    }

    /// The previous name of [`drop_response`](Self::drop_response).
    #[deprecated = "use `drop_response`"]
    pub fn lose_answer(self) -> Fault {
        self.drop_response()
    }

    /// Serves the request, and resets the connection in the middle of the answer.
    pub fn cut_answer(self) -> Fault {
        self.add(Effect::CutAnswer)
    }

    fn add(self, effect: Effect) -> Fault {
        let (number, hits) = self.faults.state.rules().add(self.matcher, self.when, effect);
        Fault { faults: self.faults, number, hits }
    }
}

#[expect(clippy::must_use_candidate, reason = "a fault stays when its handle is dropped")]
impl On<WatchEvents> {
    /// Does not send the event.
    pub fn skip(self) -> Fault {
        self.add(EventEffect::Skip)
    }

    /// Sends the event twice.
    pub fn repeat(self) -> Fault {
        self.add(EventEffect::Repeat)
    }

    /// Sends the event, and what follows it, later.
    pub fn delay(self, delay: Duration) -> Fault {
        self.add(EventEffect::Delay(delay))
    }

    /// Sends neither the event nor what follows it; the watch stays open.
    pub fn stall(self) -> Fault {
        self.add(EventEffect::Stall)
    }

    /// Sends the event after the next one of another object. If none follows, it is not sent.
    pub fn reorder(self) -> Fault {
        self.add(EventEffect::Reorder)
    }

    /// Ends the watch before the event. A client that continues from the last version receives it then.
    pub fn close(self) -> Fault {
        self.add(EventEffect::Close)
    }

    /// Resets the connection before the event.
    pub fn reset(self) -> Fault {
        self.add(EventEffect::Reset)
    }

    /// Resets the connection in the middle of the event.
    pub fn cut(self) -> Fault {
        self.add(EventEffect::Cut)
    }

    /// Sends half of the event as if it were whole, which is not JSON.
    pub fn corrupt(self) -> Fault {
        self.add(EventEffect::Corrupt)
    }

    /// The previous name of [`corrupt`](Self::corrupt).
    #[deprecated = "use `corrupt`"]
    pub fn garble(self) -> Fault {
        self.corrupt()
    }

    /// Ends the watch with an `ERROR` event, `410 Gone`, before the event.
    pub fn expire(self) -> Fault {
        self.add(EventEffect::Expire)
    }

    /// Sends neither the event nor what follows it, and ends the watch with an `ERROR` event, `410 Gone`, after this
    /// time: the client lists again, and observes of all that happened meanwhile only the result.
    pub fn expire_after(self, time: Duration) -> Fault {
        self.add(EventEffect::ExpireAfter(time))
    }

    fn add(self, effect: EventEffect) -> Fault {
        let state = &self.faults.state;
        let (number, hits) = state.rules().add_for_events(self.matcher, self.when, effect);
        state.watch_events();
        Fault { faults: self.faults, number, hits }
    }
}

/// A fault of a server. It stays when this is dropped.
#[derive(Clone, Debug)]
pub struct Fault {
    faults: Faults,
    number: u64,
    hits: Arc<watch::Sender<u64>>,
}

impl Fault {
    /// Returns the number of times that the fault was injected. When a plan is replayed, its faults
    /// count for the rule with the same effect.
    #[must_use]
    pub fn times(&self) -> u64 {
        *self.hits.borrow()
    }

    /// Waits until it was injected so many times. It waits forever if that never happens: limit it with
    /// `tokio::time::timeout`.
    pub async fn injected(&self, times: u64) {
        // The sender lives as long as this.
        drop(self.hits.subscribe().wait_for(|hits| *hits >= times).await);
    }

    /// Removes it.
    pub fn lift(&self) {
        self.faults.state.rules().remove(self.number);
    }
}
