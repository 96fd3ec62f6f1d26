//! The reasons why keys are queued.

use std::fmt;
use std::sync::Arc;

use crate::object::key::ObjectKey;

/// A reason for a handler call; see [`Call::reasons`](crate::Call::reasons).
///
/// Use it for logs and metrics. A handler should reconcile the whole object
/// whatever the reason is: it is level-triggered.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::Reason;
/// use kooper::prelude::*;
///
/// async fn check(pod: Arc<Pod>, call: Call) -> Result<()> {
///     if call.reasons().contains(&Reason::Resync) {
///         tracing::info!(pod = %pod.name_any(), "checked by the resync");
///     }
///     Ok(())
/// }
/// # let _ = check;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The object was in the first list.
    Initial,
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted.
    Deleted,
    /// The resync interval of the key is over.
    Resync,
    /// The last call failed.
    Retry,
    /// The last call requested it with [`Action::requeue_after`](crate::Action::requeue_after).
    Requeue,
    /// A source outside the cluster added the key, or those of all objects.
    External,
    /// This replica became the leader, so every object is handled.
    Leader,
    /// This replica owns the shard of the object since then, see [`Call::shard`](crate::Call::shard).
    Shard,
    /// The cluster serves a kind that it did not serve before, and that the controller can do without.
    KindServed,
    /// Another object, of the given kind and key, has changed. It is owned by this one or mapped to it, or a slot of its
    /// declared children stands for it.
    Related(Arc<str>, ObjectKey),
}

/// The reasons about the object itself, in the order in which they are listed.
static SIMPLE: [Reason; 11] = [
    Reason::Initial,
    Reason::Added,
    Reason::Modified,
    Reason::Deleted,
    Reason::Resync,
    Reason::Retry,
    Reason::Requeue,
    Reason::External,
    Reason::Leader,
    Reason::Shard,
    Reason::KindServed,
];

impl Reason {
    /// Its bit in [`Reasons`]; 0 for another object.
    fn bit(&self) -> u16 {
        if matches!(self, Self::Related(..)) {
            return 0;
        }
        let index = SIMPLE.iter().position(|simple| simple == self);
        debug_assert!(index.is_some(), "{self} is missing in the list");
        index.map_or(0, |index| 1 << index)
    }

    /// Returns `true` if the object may have another state than before.
    pub(super) fn is_new_state(&self) -> bool {
        matches!(self, Self::Initial | Self::Added | Self::Modified)
    }

    /// Returns `true` if it is a change of the object or of a related one. A deletion is none, as nothing follows it.
    pub(crate) fn is_change(&self) -> bool {
        matches!(self, Self::Added | Self::Modified | Self::Related(..))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "initial",
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
            Self::Retry => "retry",
            Self::Requeue => "requeue",
            Self::External => "external",
            Self::Leader => "leader",
            Self::Shard => "shard",
            Self::KindServed => "kind served",
            Self::Related(kind, key) => return write!(f, "{kind} {key}"),
        })
    }
}

/// The reasons that were collected while a key waited. Their number is bounded, so that
/// their memory is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons {
    simple: u16,
    /// Most keys have none.
    related: Option<Box<RelatedReasons>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RelatedReasons {
    listed: Vec<Reason>,
    unlisted: u32,
}

impl Reasons {
    /// The maximum number of related objects that are listed; the others are counted.
    pub const LISTED: usize = 8;

    /// Adds a reason.
    pub fn add(&mut self, reason: Reason) {
        if reason.bit() != 0 {
            self.simple |= reason.bit();
            return;
        }
        let related = self.related.get_or_insert_default();
        if !related.listed.contains(&reason) {
            if related.listed.len() < Self::LISTED {
                related.listed.push(reason);
            } else {
                related.unlisted = related.unlisted.saturating_add(1);
            }
        }
    }

    /// Returns `true` if the set contains this reason.
    #[must_use]
    pub fn contains(&self, reason: &Reason) -> bool {
        self.simple & reason.bit() != 0 || self.listed().contains(reason)
    }

    /// Returns `true` if the set contains no reason.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.simple == 0 && self.related.is_none()
    }

    /// Returns `true` if the first run of every key is the only reason about the object itself.
    /// The first resyncs after such runs are spread. Reasons about children are ignored,
    /// because children may be listed later.
    pub(crate) fn only_first(&self) -> bool {
        self.only_of(Reason::Initial.bit() | Reason::Leader.bit() | Reason::Shard.bit())
    }

    /// Returns `true` if this is the only reason.
    pub(crate) fn only(&self, reason: &Reason) -> bool {
        self.only_of(reason.bit()) && self.related.is_none()
    }

    /// Returns `true` if there are reasons about the object itself, and all of them are in `bits`.
    fn only_of(&self, bits: u16) -> bool {
        self.simple & bits != 0 && self.simple & !bits == 0
    }

    /// The reasons, those about the object itself first.
    pub fn iter(&self) -> impl Iterator<Item = Reason> + '_ {
        SIMPLE.iter().filter(|reason| self.simple & reason.bit() != 0).chain(self.listed()).cloned()
    }

    /// The number of related objects that are not listed.
    #[must_use]
    pub fn unlisted(&self) -> u32 {
        self.related.as_ref().map_or(0, |related| related.unlisted)
    }

    fn listed(&self) -> &[Reason] {
        self.related.as_ref().map_or(&[], |related| &related.listed)
    }
}

impl From<Reason> for Reasons {
    fn from(reason: Reason) -> Self {
        let mut reasons = Self::default();
        reasons.add(reason);
        reasons
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{reason}")?;
        }
        if self.unlisted() > 0 {
            write!(f, " and {} more", self.unlisted())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_collected_once_and_their_number_is_bounded() {
        let mut reasons = Reasons::from(Reason::Modified);
        reasons.add(Reason::Modified);
        reasons.add(Reason::Resync);
        for n in 0..20 {
            reasons.add(Reason::Related("ConfigMap".into(), ObjectKey::namespaced("a", &n.to_string())));
        }
        assert_eq!(reasons.iter().count(), 2 + Reasons::LISTED);
        assert_eq!(reasons.unlisted(), 12);
        assert!(reasons.to_string().starts_with("modified, resync, ConfigMap a/0, "));
        assert!(reasons.to_string().ends_with(" and 12 more"));
    }

    #[test]
    fn a_run_for_a_shard_is_a_first_run() {
        let reasons = Reasons::from(Reason::Shard);
        assert!(reasons.only_first());
        assert_eq!(reasons.to_string(), "shard");
    }

    #[test]
    fn a_run_for_a_new_leader_is_a_first_run_unless_it_has_another_reason() {
        let mut reasons = Reasons::from(Reason::Leader);
        assert!(reasons.only_first() && !reasons.only(&Reason::Resync));
        reasons.add(Reason::Related("Pod".into(), ObjectKey::namespaced("a", "b")));
        assert!(reasons.only_first(), "its children were listed after it");
        reasons.add(Reason::Resync);
        assert!(!reasons.only_first() && !reasons.only(&Reason::Resync));
        assert!(!Reasons::default().only_first());
    }
}
