//! The authorities of a program's webhooks, and when which one signs.
//!
//! An API server learns a new authority with some delay, and replicas sign with it with
//! another delay. So the next authority is published beside the current one, and signs only
//! when it has been published for a while; the old one stays published until every
//! certificate that it signed has expired.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;

use super::{AUTHORITY, Authority, AuthorityError, LEAF, is_early};

/// The age at which an authority gets a successor.
const RENEWED: Duration = Duration::from_secs(AUTHORITY.as_secs() / 3 * 2);

/// The time for which the next authority is published before it signs. One API server learned it within
/// 150 ms; others may read from a cache, or be partitioned for a while.
pub(crate) const PUBLISHED: Duration = Duration::from_secs(5 * 60);

/// The authorities, as the Secret holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorities {
    /// The one that signs.
    pub(crate) current: Authority,
    /// The one that signs next, and since when it has been published.
    next: Option<(Authority, Option<Timestamp>)>,
    /// The certificate of the one that signed before, and the time when the last certificate
    /// that it signed expires.
    old: Option<(String, Timestamp)>,
}

impl Authorities {
    pub(crate) fn new(now: Timestamp) -> Result<Self, AuthorityError> {
        Ok(Self { current: Authority::new(now)?, next: None, old: None })
    }

    /// The bundle by which API servers verify the server.
    pub(crate) fn bundle(&self) -> String {
        let next = self.next.iter().map(|(next, _)| &*next.certificate);
        let old = self.old.iter().map(|(old, _)| &**old);
        let all = [&*self.current.certificate].into_iter().chain(next).chain(old);
        // One that was written by hand may lack the end of its last line: with the next one it would be no PEM.
        all.map(|certificate| format!("{}\n", certificate.trim_end())).collect()
    }

    /// The authorities after what is due now, or `None` if nothing is. `published` is the
    /// bundle that every configuration has; with none there is no progress.
    pub(crate) fn advance(&self, now: Timestamp, published: &str) -> Result<Option<Self>, AuthorityError> {
        let mut due = self.clone();
        if self.old.as_ref().is_some_and(|(_, until)| *until <= now) {
            due.old = None;
        }
        let signed_by_current = || Some((self.current.certificate.clone(), now.checked_add(LEAF).unwrap_or(now)));
        let is_published = |next: &Authority| published.contains(next.certificate.trim());
        match &self.next {
            // The program did not run for so long that nobody trusts it any more.
            _ if self.current.age(now) >= AUTHORITY => due = Self::new(now)?,
            // The API servers do not trust it yet. If this clock is the wrong one, what it signed is in use.
            _ if is_early(self.current.made, now) => due = Self { old: signed_by_current(), ..Self::new(now)? },
            None if self.current.age(now) >= RENEWED => due.next = Some((Authority::new(now)?, None)),
            None => {}
            // The clock by which it was made was ahead: API servers would not trust what it signs.
            Some((next, _)) if is_early(next.made, now) => due.next = None,
            // Somebody has replaced the configuration: the wait begins again.
            Some((next, Some(_))) if !is_published(next) => due.next = Some((next.clone(), None)),
            Some((next, None)) if is_published(next) => due.next = Some((next.clone(), Some(now))),
            // The clock of the replica that began it is ahead, or this one was set back: the wait begins again.
            Some((next, Some(since))) if *since > now => due.next = Some((next.clone(), Some(now))),
            Some((next, Some(since))) if now.duration_since(*since).unsigned_abs() >= PUBLISHED => {
                due.old = signed_by_current();
                due.current = next.clone();
                due.next = None;
            }
            Some(_) => {}
        }
        Ok((due != *self).then_some(due))
    }

    /// The content of the Secret.
    pub(crate) fn to_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: String| drop(data.insert(key.to_owned(), ByteString(value.into_bytes())));
        let mut put_authority = |name: &str, authority: &Authority| {
            put(&format!("{name}.crt"), authority.certificate.clone());
            put(&format!("{name}.key"), authority.key.clone());
            put(&format!("{name}.made"), authority.made.to_string());
        };
        put_authority("ca", &self.current);
        if let Some((next, since)) = &self.next {
            put_authority("next", next);
            if let Some(since) = since {
                put("next.published", since.to_string());
            }
        }
        if let Some((old, until)) = &self.old {
            put("old.crt", old.clone());
            put("old.until", until.to_string());
        }
        data
    }

    /// Reads the content of the Secret.
    ///
    /// # Errors
    /// When the current authority cannot be used. What cannot be used of the others is left
    /// out: they are made again.
    pub(crate) fn from_data(data: &BTreeMap<String, ByteString>) -> Result<Self, AuthorityError> {
        let text = |key: &str| data.get(key).and_then(|value| std::str::from_utf8(&value.0).ok());
        let time = |key: &str| text(key).and_then(|text| text.parse::<Timestamp>().ok());
        let authority = |name: &str| match (
            text(&format!("{name}.crt")),
            text(&format!("{name}.key")),
            time(&format!("{name}.made")),
        ) {
            (Some(certificate), Some(key), Some(made)) => Authority::parse(certificate, key, made),
            _ => Err(AuthorityError::Malformed),
        };
        let current = authority("ca")?;
        let next = authority("next").ok().map(|next| (next, time("next.published")));
        let old = text("old.crt").filter(|old| super::is_bundle(old)).map(str::to_owned).zip(time("old.until"));
        Ok(Self { current, next, old })
    }
}
