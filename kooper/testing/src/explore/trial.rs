//! The fault, or the sequence of desired states, of one history of an exploration.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The fault of one history and its position, or its sequence of desired states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trial {
    /// Nothing.
    Undisturbed,
    /// Something happens to the nth write of its kind, such as `apply secrets default/a`.
    Write { of: String, nth: u64, mishap: WriteFault },
    /// The same happens to each of the first writes, so many.
    Prefix { writes: usize, mishap: WriteFault },
    /// Something happens to the nth watch event of its kind, such as `MODIFIED secrets default/a`.
    Event { of: String, nth: u64, gap: EventFault },
    /// Everything that may go wrong does by chance, for a while; or again what has gone wrong so.
    Storm {
        seed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<String>,
    },
    /// The states of this number, in this order.
    Sequence(Sequence),
}

/// A fault that affects a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WriteFault {
    /// The process is killed before the write is sent.
    KilledBefore,
    /// The process is killed when the write is stored, before the answer arrives.
    KilledUnanswered,
    /// The process is killed when the answer has arrived.
    KilledAfter,
    /// The write is rejected with 500.
    Rejected,
    /// The write is stored, and its answer is lost.
    Unanswered,
    /// When the answer has arrived, another process starts, to which this one hands over its shards before it stops.
    HandedOver,
}

impl WriteFault {
    /// Those of all controllers. Shards of controllers without shards cannot be handed over.
    pub(super) const ALL: [Self; 5] =
        [Self::KilledBefore, Self::KilledUnanswered, Self::KilledAfter, Self::Rejected, Self::Unanswered];

    /// Returns whether the process survives and the failed call is retried.
    pub(super) fn is_retried(self) -> bool {
        matches!(self, Self::Rejected | Self::Unanswered)
    }

    /// Writes what happens to each of these writes, or to all of them.
    fn describe(self, f: &mut fmt::Formatter<'_>, each: &str, all: &str, answers: &str) -> fmt::Result {
        match self {
            Self::KilledBefore => write!(f, "with a crash before {each} was sent"),
            Self::KilledUnanswered => write!(f, "with a crash after {each} was stored and before its answer arrived"),
            Self::KilledAfter => write!(f, "with a crash after the answer to {each}"),
            Self::Rejected => write!(f, "with {all} rejected"),
            Self::Unanswered => write!(f, "with the {answers} to {all} lost"),
            Self::HandedOver => write!(f, "with all shards handed over to another process after {each}"),
        }
    }
}

/// A fault that begins at a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventFault {
    /// It arrives late, and so does what follows it: the cache is stale.
    Late,
    /// Nothing arrives any more, and later only the result of all that happened.
    Missed,
}

impl EventFault {
    pub(super) const ALL: [Self; 2] = [Self::Late, Self::Missed];
}

/// The desired states that an object has in turn, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sequence {
    /// Only one: what the others are compared with.
    Only { to: usize },
    /// One, and when it is reached another one.
    Changed { from: usize, to: usize },
    /// One, and at once another one.
    Overtaken { from: usize, to: usize },
    /// One, another one, and back.
    RolledBack { to: usize, over: usize },
    /// One, which is deleted, and then another one.
    Recreated { from: usize, to: usize },
}

impl Sequence {
    /// The state that is the last one.
    pub(super) fn last(self) -> usize {
        match self {
            Self::Only { to }
            | Self::Changed { to, .. }
            | Self::Overtaken { to, .. }
            | Self::RolledBack { to, .. }
            | Self::Recreated { to, .. } => to,
        }
    }

    pub(super) fn steps(self) -> Vec<Step> {
        use Step::{Apply, Delete, Settle};
        match self {
            Self::Only { to } => vec![Apply(to)],
            Self::Changed { from, to } => vec![Apply(from), Settle, Apply(to)],
            Self::Overtaken { from, to } => vec![Apply(from), Apply(to)],
            Self::RolledBack { to, over } => vec![Apply(to), Settle, Apply(over), Settle, Apply(to)],
            Self::Recreated { from, to } => vec![Apply(from), Settle, Delete(from), Apply(to)],
        }
    }

    /// All sequences of so many states.
    pub(super) fn all(states: usize) -> Vec<Self> {
        let pairs = || (0..states).flat_map(move |from| (0..states).map(move |to| (from, to)));
        let two = || pairs().filter(|(from, to)| from != to);
        let changed = two().map(|(from, to)| Self::Changed { from, to });
        let overtaken = two().map(|(from, to)| Self::Overtaken { from, to });
        let back = two().map(|(to, over)| Self::RolledBack { to, over });
        let recreated = pairs().map(|(from, to)| Self::Recreated { from, to });
        changed.chain(overtaken).chain(back).chain(recreated).collect()
    }
}

/// A step after the scenario. The numbers are those of the desired states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Apply(usize),
    /// Waits until the cluster is at rest.
    Settle,
    Delete(usize),
}

/// As the beginning of a sentence, which ends with what came of it.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undisturbed => f.write_str("without faults"),
            Self::Write { of, nth, mishap } => {
                let write = format!("the {} `{of}`", Ordinal(*nth));
                mishap.describe(f, &write, &write, "answer")
            }
            Self::Prefix { writes: 1, mishap } => mishap.describe(f, "the first write", "the first write", "answers"),
            Self::Prefix { writes, mishap } => {
                let all = format!("the first {writes} writes");
                mishap.describe(f, &format!("each of {all}"), &all, "answers")
            }
            Self::Event { of, nth, gap } => {
                let nth = Ordinal(*nth);
                match gap {
                    EventFault::Late => write!(f, "with a cache that is stale from the {nth} event `{of}` on"),
                    EventFault::Missed => write!(f, "with all events missed from the {nth} `{of}` on"),
                }
            }
            Self::Storm { seed, .. } => write!(f, "after a storm of faults of the seed {seed}"),
            Self::Sequence(sequence) => match sequence {
                Sequence::Only { to } => write!(f, "with state {to} alone"),
                Sequence::Changed { from, to } => write!(f, "with state {from} changed to state {to}"),
                Sequence::Overtaken { from, to } => write!(f, "with state {from} changed at once to state {to}"),
                Sequence::RolledBack { to, over } => write!(f, "with state {to} changed to state {over} and back"),
                Sequence::Recreated { from, to } => write!(f, "with state {from} deleted and state {to} created"),
            },
        }
    }
}

/// `1st`, `2nd`, `3rd`, `4th`.
struct Ordinal(u64);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match (self.0 % 100, self.0 % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        write!(f, "{}{ending}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{EventFault, Sequence, Trial, WriteFault};

    #[test]
    fn a_trial_reads_as_a_part_of_a_sentence_and_is_read_as_it_was_written() {
        let of = || "apply secrets default/a".to_owned();
        let trials = [
            (
                Trial::Write { of: of(), nth: 2, mishap: WriteFault::KilledUnanswered },
                "with a crash after the 2nd `apply secrets default/a` was stored and before its answer arrived",
            ),
            (
                Trial::Prefix { writes: 3, mishap: WriteFault::KilledAfter },
                "with a crash after the answer to each of the first 3 writes",
            ),
            (
                Trial::Event { of: "ADDED secrets default/a".to_owned(), nth: 11, gap: EventFault::Missed },
                "with all events missed from the 11th `ADDED secrets default/a` on",
            ),
            (Trial::Sequence(Sequence::RolledBack { to: 0, over: 1 }), "with state 0 changed to state 1 and back"),
        ];
        for (trial, text) in trials {
            assert_eq!(trial.to_string(), text);
            let written = serde_json::to_string(&trial).expect("it has strings and numbers");
            assert_eq!(serde_json::from_str::<Trial>(&written).expect("it was written so"), trial);
        }
    }

    #[test]
    fn a_single_state_is_only_recreated() {
        assert_eq!(Sequence::all(0), []);
        assert_eq!(Sequence::all(1), [Sequence::Recreated { from: 0, to: 0 }]);
        assert_eq!(Sequence::all(2).len(), 10);
    }
}
