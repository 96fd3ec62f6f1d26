//! Verdicts of the API server, for a limited time and in a limited number.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long a client is served after its token was reviewed. A token that is revoked,
/// or loses its permission, is served for no longer than this.
const ALLOWED: Duration = Duration::from_secs(60);

/// How long a client is refused before its token is reviewed again.
const REFUSED: Duration = Duration::from_secs(10);

/// The most verdicts that are remembered.
const MOST: usize = 1024;

/// What the API server is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) token: String,
    pub(super) verb: String,
    pub(super) path: String,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// The token is not valid.
    Unknown,
    /// The token is valid, and its user has no permission.
    Forbidden {
        user: String,
    },
}

impl Verdict {
    fn lasts(&self) -> Duration {
        match self {
            Self::Allowed => ALLOWED,
            Self::Unknown | Self::Forbidden { .. } => REFUSED,
        }
    }
}

/// The verdicts, each with the time until which it is valid.
#[derive(Default)]
pub(super) struct Verdicts(HashMap<Question, (Verdict, Instant)>);

impl Verdicts {
    pub(super) fn find(&self, question: &Question, now: Instant) -> Option<Verdict> {
        self.0.get(question).filter(|(_, until)| now < *until).map(|(verdict, _)| verdict.clone())
    }

    /// Whether the last verdict was that the client is allowed, even if it has expired.
    pub(super) fn was_allowed(&self, question: &Question) -> bool {
        self.0.get(question).is_some_and(|(verdict, _)| *verdict == Verdict::Allowed)
    }

    /// Remembers a verdict. If there are too many, those of refused clients go first:
    /// anyone can be refused any number of times.
    pub(super) fn remember(&mut self, question: Question, verdict: Verdict, now: Instant) {
        let is_allowed = |verdict: &Verdict| *verdict == Verdict::Allowed;
        if self.0.len() >= MOST {
            self.0.retain(|_, (verdict, until)| is_allowed(verdict) || now < *until);
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, (verdict, _)| is_allowed(verdict));
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let until = now + verdict.lasts();
        self.0.insert(question, (verdict, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(token: usize) -> Question {
        Question { token: token.to_string(), verb: "get".into(), path: "/metrics".into() }
    }

    #[test]
    fn a_verdict_is_valid_for_its_time_and_its_question_only() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        verdicts.remember(question(1), Verdict::Allowed, now);
        verdicts.remember(question(2), Verdict::Unknown, now);
        assert_eq!(verdicts.find(&question(1), now + ALLOWED - Duration::from_nanos(1)), Some(Verdict::Allowed));
        assert_eq!(verdicts.find(&question(1), now + ALLOWED), None);
        assert_eq!(verdicts.find(&question(2), now + REFUSED - Duration::from_nanos(1)), Some(Verdict::Unknown));
        assert_eq!(verdicts.find(&question(2), now + REFUSED), None);
        for other in [
            question(3),
            Question { verb: "head".into(), ..question(1) },
            Question { path: "/status".into(), ..question(1) },
        ] {
            assert_eq!(verdicts.find(&other, now), None, "{other:?}");
        }
    }

    #[test]
    fn the_number_of_verdicts_is_limited_and_refused_clients_remove_no_other() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        verdicts.remember(question(0), Verdict::Allowed, now);
        for token in 1..10 * MOST {
            verdicts.remember(question(token), Verdict::Unknown, now);
            assert!(verdicts.0.len() <= MOST);
        }
        assert_eq!(verdicts.find(&question(0), now), Some(Verdict::Allowed));
        let later = now + ALLOWED;
        for token in 1..2 * MOST {
            verdicts.remember(question(token), Verdict::Unknown, later);
        }
        assert!(verdicts.was_allowed(&question(0)) && verdicts.find(&question(0), later).is_none());
        assert!(!verdicts.was_allowed(&question(2 * MOST - 1)));
        for token in 0..3 * MOST {
            verdicts.remember(question(token), Verdict::Allowed, now);
            assert!(verdicts.0.len() <= MOST);
            assert_eq!(verdicts.find(&question(token), now), Some(Verdict::Allowed));
        }
    }
}
