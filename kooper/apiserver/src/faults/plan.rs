//! The faults that were injected, as lines that can be replayed.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Effect, EventEffect};

/// Faults, each for one request or watch event alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) seed: Option<u64>,
    pub(super) requests: HashMap<(String, u64), Effect>,
    pub(super) events: HashMap<(String, u64), EventEffect>,
}

/// One line of a plan: a fault, and the nth request or watch event of its kind, which met it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    Seed(u64),
    Request { of: String, nth: u64, fault: Effect },
    Event { of: String, nth: u64, fault: EventEffect },
}

impl Entry {
    pub(super) fn line(&self) -> String {
        // It has only strings and numbers, and no keys that are not strings.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// For people: `patch shops.example.com default/a, time 2: refused with 503`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "seed {seed}"),
            Self::Request { of, nth, fault } => {
                write!(f, "{of}, time {nth}: ")?;
                match fault {
                    Effect::Reply(reply) => write!(f, "refused with {}", reply.code()),
                    Effect::Delay(delay) => write!(f, "served after {delay:?}"),
                    Effect::DelayAnswer(delay) => write!(f, "answered after {delay:?}"),
                    Effect::Reset => f.write_str("connection reset before it was served"),
                    Effect::DropResponse => f.write_str("served, answer lost"),
                    Effect::CutAnswer => f.write_str("served, connection reset in the middle of the answer"),
                }
            }
            Self::Event { of, nth, fault } => {
                write!(f, "{of}, time {nth}: ")?;
                match fault {
                    EventEffect::Skip => f.write_str("not sent"),
                    EventEffect::Repeat => f.write_str("sent twice"),
                    EventEffect::Delay(delay) => write!(f, "sent after {delay:?}"),
                    EventEffect::Stall => f.write_str("watch stalled"),
                    EventEffect::Reorder => f.write_str("sent after a later event"),
                    EventEffect::Close => f.write_str("watch ended before it"),
                    EventEffect::Reset => f.write_str("connection reset before it"),
                    EventEffect::Cut => f.write_str("connection reset in the middle of it"),
                    EventEffect::Corrupt => f.write_str("half of it sent as a line"),
                    EventEffect::Expire => f.write_str("watch ended with 410 before it"),
                    EventEffect::ExpireAfter(time) => {
                        write!(f, "not sent, and watch ended with 410 after {time:?}")
                    }
                }
            }
        }
    }
}

/// A line of a plan that cannot be read.
#[derive(Debug)]
pub struct PlanError {
    line: usize,
    problem: serde_json::Error,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a fault that can be replayed", self.line)
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}

pub(super) fn parse(text: &str) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line).map_err(|problem| PlanError { line: number + 1, problem })? {
            Entry::Seed(seed) => plan.seed = Some(seed),
            Entry::Request { of, nth, fault } => drop(plan.requests.insert((of, nth), fault)),
            Entry::Event { of, nth, fault } => drop(plan.events.insert((of, nth), fault)),
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Effect, Entry, EventEffect, parse};
    use crate::faults::Reply;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let of = || "patch shops.example.com default/a".to_owned();
        let entries = [
            Entry::Seed(7),
            Entry::Request { of: of(), nth: 2, fault: Effect::Reply(Reply::new(429).retry_after(1)) },
            Entry::Request { of: of(), nth: 3, fault: Effect::Delay(Duration::from_millis(5)) },
            Entry::Event { of: "ADDED shops.example.com default/a".to_owned(), nth: 1, fault: EventEffect::Skip },
        ];
        let lines: Vec<_> = entries.iter().map(Entry::line).collect();
        assert_eq!(
            lines[1],
            r#"{"request":{"of":"patch shops.example.com default/a","nth":2,"fault":{"reply":{"code":429,"retry_after":1}}}}"#
        );
        let plan = parse(&lines.join("\n")).expect("it was written so");
        assert_eq!((plan.seed, plan.requests.len(), plan.events.len()), (Some(7), 2, 1));
        assert_eq!(plan.requests[&(of(), 3)], Effect::Delay(Duration::from_millis(5)));
        let error = parse("{\"seed\":1}\n\nnothing").expect_err("it is not JSON");
        assert_eq!(error.to_string(), "line 3 is not a fault that can be replayed");
    }
}
