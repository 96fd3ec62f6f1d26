//! Verdicts of the API server, for a limited time and in a limited number.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// Validity of a positive verdict. A token that is revoked or loses its permission is
/// accepted for no longer than this.
const ALLOWED: Duration = Duration::from_secs(60);

/// Validity of a negative verdict, after which the token is reviewed again.
const REFUSED: Duration = Duration::from_secs(10);

/// The most verdicts that are remembered.
const MOST: usize = 1024;

/// A question to the API server: may the owner of this token use the verb on the path?
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct AccessRequest {
    pub(super) token: String,
    pub(super) verb: String,
    pub(super) path: String,
}

/// A keyed hash of a question, from which its token cannot be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u64; 2]);

/// The random key of this process, by which questions are hashed.
#[derive(Default)]
pub(super) struct Key([RandomState; 2]);

impl Key {
    pub(super) fn digest(&self, question: &AccessRequest) -> Digest {
        Digest(self.0.each_ref().map(|key| key.hash_one(question)))
    }
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
pub(super) struct Verdicts(HashMap<Digest, (Verdict, Instant)>);

impl Verdicts {
    pub(super) fn find(&self, question: Digest, now: Instant) -> Option<Verdict> {
        self.0.get(&question).filter(|(_, until)| now < *until).map(|(verdict, _)| verdict.clone())
    }

    /// Returns `true` if the last verdict allowed the client, even if it has expired.
    pub(super) fn was_allowed(&self, question: Digest) -> bool {
        self.0.get(&question).is_some_and(|(verdict, _)| *verdict == Verdict::Allowed)
    }

    /// Remembers a verdict. If there are too many, those of refused clients go first:
    /// anyone can be refused any number of times.
    pub(super) fn remember(&mut self, question: Digest, verdict: Verdict, now: Instant) {
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

    fn digest(token: usize) -> Digest {
        Digest([token as u64, 0])
    }

    #[test]
    fn a_digest_belongs_to_one_question_and_to_one_process() {
        let question = |token: &str, verb: &str, path: &str| AccessRequest {
            token: token.into(),
            verb: verb.into(),
            path: path.into(),
        };
        let key = Key::default();
        let one = question("a", "get", "/metrics");
        assert_eq!(key.digest(&one), key.digest(&one.clone()));
        assert_ne!(key.digest(&one), Key::default().digest(&one), "another process has another key");
        for other in [
            question("b", "get", "/metrics"),
            question("a", "head", "/metrics"),
            question("a", "get", "/status"),
            question("ag", "et", "/metrics"),
        ] {
            assert_ne!(key.digest(&one), key.digest(&other), "{other:?}");
        }
    }

    #[test]
    fn a_verdict_is_valid_for_its_time_and_its_digest_only() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        verdicts.remember(digest(1), Verdict::Allowed, now);
        verdicts.remember(digest(2), Verdict::Unknown, now);
        assert_eq!(verdicts.find(digest(1), now + ALLOWED - Duration::from_nanos(1)), Some(Verdict::Allowed));
        assert_eq!(verdicts.find(digest(1), now + ALLOWED), None);
        assert_eq!(verdicts.find(digest(2), now + REFUSED - Duration::from_nanos(1)), Some(Verdict::Unknown));
        assert_eq!(verdicts.find(digest(2), now + REFUSED), None);
        assert_eq!(verdicts.find(digest(3), now), None);
    }

    #[test]
    fn the_number_of_verdicts_is_limited_and_refused_clients_remove_no_other() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        verdicts.remember(digest(0), Verdict::Allowed, now);
        for token in 1..10 * MOST {
            verdicts.remember(digest(token), Verdict::Unknown, now);
            assert!(verdicts.0.len() <= MOST);
        }
        assert_eq!(verdicts.find(digest(0), now), Some(Verdict::Allowed));
        let later = now + ALLOWED;
        for token in 1..2 * MOST {
            verdicts.remember(digest(token), Verdict::Unknown, later);
        }
        assert!(verdicts.was_allowed(digest(0)) && verdicts.find(digest(0), later).is_none());
        assert!(!verdicts.was_allowed(digest(2 * MOST - 1)));
        for token in 0..3 * MOST {
            verdicts.remember(digest(token), Verdict::Allowed, now);
            assert!(verdicts.0.len() <= MOST);
            assert_eq!(verdicts.find(digest(token), now), Some(Verdict::Allowed));
        }
    }
}
