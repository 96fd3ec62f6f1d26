//! The faults that were added, and which of them a request or a watch event meets.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::plan::{Entry, Plan};
use super::{Effect, EventEffect, RequestAttributes, Requests, WatchEvents, chance};

/// When a fault is injected, of the times at which it could be.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultTiming {
    pub(super) after: u64,
    pub(super) times: Option<u64>,
    pub(super) probability: f64,
}

impl Default for FaultTiming {
    fn default() -> Self {
        Self { after: 0, times: None, probability: 1.0 }
    }
}

/// The faults of a server, what they were counted with, and what they did.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) seed: u64,
    added: u64,
    requests: Vec<Rule<Requests, Effect>>,
    events: Vec<Rule<WatchEvents, EventEffect>>,
    /// Number of occurrences of each request and watch event.
    counts: HashMap<String, u64>,
    injected: Vec<Entry>,
    /// Users that meet no faults.
    pub(super) spared: HashSet<String>,
    replayed: Option<Plan>,
}

#[derive(Debug)]
struct Rule<M, E> {
    number: u64,
    matcher: M,
    when: FaultTiming,
    effect: E,
    /// Number of requests or events that have matched.
    seen: u64,
    hits: Arc<watch::Sender<u64>>,
}

impl<M, E: Clone> Rule<M, E> {
    /// Counts one more, and whether it is injected into it.
    fn is_injected(&mut self, seed: u64, address: &str, nth: u64) -> bool {
        self.seen += 1;
        let FaultTiming { after, times, probability } = self.when;
        let due = self.seen > after && times.is_none_or(|times| self.seen - after <= times);
        due && (probability >= 1.0 || chance::injects(seed, self.number, address, nth, probability))
    }
}

/// The effect of the rule that was added last, of those that strike.
fn last<M, E: Clone>(
    rules: &mut [Rule<M, E>],
    matches: impl Fn(&M) -> bool,
    (seed, address, nth): (u64, &str, u64),
) -> Option<E> {
    let mut struck: Option<&Rule<M, E>> = None;
    // All of them count, also those that another one precedes.
    for rule in rules.iter_mut().filter(|rule| matches(&rule.matcher)) {
        if rule.is_injected(seed, address, nth) {
            struck = Some(rule);
        }
    }
    let struck = struck?;
    struck.hits.send_modify(|hits| *hits += 1);
    Some(struck.effect.clone())
}

/// The effect that was planned for this time. It counts for the rule that it came from, as far as that shows.
fn replayed<M, E: Clone + PartialEq>(
    rules: &[Rule<M, E>],
    matches: impl Fn(&M) -> bool,
    plan: &HashMap<(String, u64), E>,
    (address, nth): (&str, u64),
) -> Option<E> {
    let effect = plan.get(&(address.to_owned(), nth))?;
    if let Some(rule) = rules.iter().rev().find(|rule| rule.effect == *effect && matches(&rule.matcher)) {
        rule.hits.send_modify(|hits| *hits += 1);
    }
    Some(effect.clone())
}

impl Rules {
    pub(super) fn add(
        &mut self,
        matcher: Requests,
        when: FaultTiming,
        effect: Effect,
    ) -> (u64, Arc<watch::Sender<u64>>) {
        let (number, hits) = self.next();
        self.requests.push(Rule { number, matcher, when, effect, seen: 0, hits: Arc::clone(&hits) });
        (number, hits)
    }

    pub(super) fn add_for_events(
        &mut self,
        matcher: WatchEvents,
        when: FaultTiming,
        effect: EventEffect,
    ) -> (u64, Arc<watch::Sender<u64>>) {
        let (number, hits) = self.next();
        self.events.push(Rule { number, matcher, when, effect, seen: 0, hits: Arc::clone(&hits) });
        (number, hits)
    }

    fn next(&mut self) -> (u64, Arc<watch::Sender<u64>>) {
        self.added += 1;
        (self.added, Arc::new(watch::Sender::new(0)))
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.requests.retain(|rule| rule.number != number);
        self.events.retain(|rule| rule.number != number);
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.events.clear();
    }

    pub(super) fn replay(&mut self, plan: Plan) {
        self.seed = plan.seed.unwrap_or(self.seed);
        self.replayed = Some(plan);
    }

    /// Returns whether any fault was ever added or replayed.
    pub(super) fn used(&self) -> bool {
        self.added > 0 || self.replayed.is_some()
    }

    pub(super) fn injections(&self) -> &[Entry] {
        &self.injected
    }

    /// Returns the injected faults in the format of a [`Plan`].
    pub(super) fn injected(&self) -> String {
        let lines = std::iter::once(Entry::Seed(self.seed)).chain(self.injected.iter().cloned());
        lines.map(|entry| entry.line() + "\n").collect()
    }

    /// The fault of a request.
    pub(super) fn meet(&mut self, request: &RequestAttributes) -> Option<Effect> {
        let (of, nth) = self.count(request);
        let matches = |requests: &Requests| requests.matches(request);
        let effect = match &self.replayed {
            Some(plan) => replayed(&self.requests, matches, &plan.requests, (&of, nth)),
            None => last(&mut self.requests, matches, (self.seed, &of, nth)),
        };
        self.injected.extend(effect.clone().map(|fault| Entry::Request { of, nth, fault }));
        effect
    }

    /// The fault of a watch event.
    pub(super) fn meet_event(&mut self, event: &RequestAttributes) -> Option<EventEffect> {
        let (of, nth) = self.count(event);
        let matches = |events: &WatchEvents| events.matches(event);
        let effect = match &self.replayed {
            Some(plan) => replayed(&self.events, matches, &plan.events, (&of, nth)),
            None => last(&mut self.events, matches, (self.seed, &of, nth)),
        };
        self.injected.extend(effect.clone().map(|fault| Entry::Event { of, nth, fault }));
        effect
    }

    fn count(&mut self, attributes: &RequestAttributes) -> (String, u64) {
        let address = attributes.address();
        let count = self.counts.entry(address.clone()).or_default();
        *count += 1;
        (address, *count)
    }
}
