//! Composition of random histories: the shares that they must reach.

use std::collections::BTreeMap;
use std::fmt;

use crate::random::{History, SUBJECTS, chosen};

/// Number of requests from which the shares are meaningful.
const ENOUGH: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Coverage {
    requests: usize,
    on_existing: usize,
    statuses: BTreeMap<u16, usize>,
    cells: BTreeMap<(&'static str, &'static str), usize>,
    watches: usize,
    expired: usize,
    events: usize,
}

impl Coverage {
    pub(crate) fn add(&mut self, history: &History) {
        for (note, answer) in history.notes.iter().zip(&history.answers[1..]) {
            self.requests += 1;
            self.on_existing += usize::from(note.existing);
            *self.statuses.entry(answer.status).or_default() += 1;
            *self.cells.entry((note.verb, note.kind)).or_default() += 1;
            if note.verb == "watch" {
                self.watches += 1;
                self.expired += usize::from(answer.body.contains(r#""code":410"#));
                self.events += answer.body.lines().count();
            }
        }
    }

    /// The shares that are too low. Few requests, or those of some kinds, need not reach any.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let mut short = Vec::new();
        if self.requests < ENOUGH || chosen().len() < SUBJECTS.len() {
            return short;
        }
        let mut least = |what: &str, part: usize, of: usize, thousandths: usize| {
            if part * 1000 < of * thousandths {
                short.push(format!("{what}: {part} of {of} is less than {thousandths} per thousand"));
            }
        };
        least("requests on existing objects", self.on_existing, self.requests, 600);
        for status in [404, 409, 415, 422] {
            let count = self.statuses.get(&status).copied().unwrap_or_default();
            least(&format!("answers {status}"), count, self.requests, 10);
        }
        least("watches that expire", self.expired, self.watches, 10);
        least("events", self.events, self.requests, 1000);
        for subject in &SUBJECTS {
            for (verb, _) in subject.verbs() {
                let count = self.cells.get(&(verb, subject.kind)).copied().unwrap_or_default();
                least(&format!("{verb} of a {}", subject.kind), count, self.requests, 3);
            }
        }
        short
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        writeln!(f, "{} requests, {:.1} % on existing objects", self.requests, share(self.on_existing, self.requests))?;
        for (status, count) in &self.statuses {
            write!(f, "{status}: {:.1} %  ", share(*count, self.requests))?;
        }
        writeln!(
            f,
            "\n{} watches with {} events, {:.1} % expired",
            self.watches,
            self.events,
            share(self.expired, self.watches)
        )?;
        for ((verb, kind), count) in &self.cells {
            write!(f, "{verb} {kind}: {count}  ")?;
        }
        writeln!(f)
    }
}
