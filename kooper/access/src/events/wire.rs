//! Events as they are sent to the API server.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kooper_grammar::name;
use kooper_runtime::Note;
use kooper_runtime::internal::watch::retriever::fnv1a;

/// The API server's limits, in bytes.
const MESSAGE: usize = 1024;
const WORD: usize = 128;
const NAME: usize = 253;

/// The reporter of Events.
#[derive(Debug)]
pub(super) struct EventSource {
    controller: String,
    instance: String,
    count: AtomicU32,
}

impl EventSource {
    pub(super) fn new(program: &str, controller: &str, instance: &str) -> Self {
        let program = if name::subdomain(program).is_ok() { program } else { "kooper" };
        // An identity is the host's name and something random.
        let host = instance.rsplit_once('_').map_or(instance, |(host, _)| host);
        let host = if host.is_empty() { program } else { host };
        Self {
            controller: format!("{program}/{controller}"),
            instance: cut(host, WORD, "").to_owned(),
            count: AtomicU32::default(),
        }
    }

    /// The Event of a note, with a name of its own.
    pub(super) fn event(&self, note: &Note, at: Timestamp) -> Event {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Event {
            metadata: metadata(note, &format!(".{:x}{count:x}", at.as_nanosecond())),
            event_time: Some(MicroTime(at)),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(word(&note.action)),
            reason: Some(word(&note.reason)),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            note: Some(with_tail(&note.message, "")),
            regarding: Some(note.regarding.clone()),
            related: note.related.clone(),
            ..Event::default()
        }
    }

    /// The Event of a note about something that lasts. It has the same name whenever
    /// the object, by its uid, and the reason are the same.
    pub(super) fn lasting(&self, note: &Note, at: Timestamp) -> CoreEvent {
        let uid = note.regarding.uid.as_deref().unwrap_or_default();
        let hash = hash(&[&self.controller, uid, &note.reason]);
        CoreEvent {
            metadata: metadata(note, &format!(".{hash:016x}")),
            event_time: Some(MicroTime(at)),
            reporting_component: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(word(&note.action)),
            reason: Some(word(&note.reason)),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            message: Some(with_tail(&note.message, "")),
            involved_object: note.regarding.clone(),
            related: note.related.clone(),
            ..CoreEvent::default()
        }
    }
}

/// The namespace of the object, and as much of its name as is valid in the name of an
/// Event, with a suffix.
fn metadata(note: &Note, suffix: &str) -> ObjectMeta {
    let namespace = note.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let object = note.regarding.name.as_deref().unwrap_or_default();
    let object = if name::subdomain(object).is_ok() { object } else { "object" };
    let kept = cut(object, NAME - suffix.len(), "").trim_end_matches(['.', '-']);
    ObjectMeta {
        name: Some(format!("{kept}{suffix}")),
        namespace: Some(namespace.unwrap_or("default").to_owned()),
        ..ObjectMeta::default()
    }
}

/// The same in every process and version.
fn hash(parts: &[&str]) -> u64 {
    fnv1a(&parts.iter().flat_map(|part| part.bytes().chain([0])).collect::<Vec<_>>())
}

fn word(text: &str) -> String {
    if text.is_empty() { "Unknown".to_owned() } else { cut(text, WORD, "").to_owned() }
}

/// A message and what follows it, within the limit of an Event: the message is cut.
pub(crate) fn with_tail(message: &str, tail: &str) -> String {
    let room = MESSAGE.saturating_sub(tail.len());
    let kept = cut(message, room, "…");
    let dots = if kept.len() < message.len() { "…" } else { "" };
    format!("{kept}{dots}{tail}")
}

/// The beginning of a string that fits in so many bytes, with room for `tail` if
/// it is cut.
pub(crate) fn cut<'a>(text: &'a str, bytes: usize, tail: &str) -> &'a str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes - tail.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn note(namespace: Option<&str>, name: &str, message: &str) -> Note {
        let regarding = ObjectReference {
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        Note::warning(regarding, "W".repeat(200), "", message)
    }

    #[test]
    fn an_event_is_within_the_limits_of_the_api_server() {
        let source = EventSource::new("shop", "web", "host-1_5f");
        let event = source.event(&note(Some("bank"), "one", &"é".repeat(600)), Timestamp::UNIX_EPOCH);
        assert_eq!(event.reporting_controller.as_deref(), Some("shop/web"));
        assert_eq!(event.reporting_instance.as_deref(), Some("host-1"));
        assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Warning"), Some("Unknown")));
        assert_eq!(event.reason.map(|reason| reason.len()), Some(WORD));
        let text = event.note.unwrap();
        assert!(text.ends_with("é…") && text.len() <= MESSAGE && text.len() > MESSAGE - 3, "{}", text.len());
        assert_eq!(event.metadata.namespace.as_deref(), Some("bank"));
        assert_eq!(cut("short", MESSAGE, "…"), "short");
    }

    #[test]
    fn an_event_about_something_that_lasts_has_the_same_name_each_time() {
        let source = EventSource::new("shop", "web", "host-1_5f");
        let name = |source: &EventSource, uid: &str, reason: &str, message: &str| {
            let mut note = note(Some("bank"), "one", message);
            (note.regarding.uid, note.reason) = (Some(uid.to_owned()), reason.to_owned());
            let event = source.lasting(&note, Timestamp::UNIX_EPOCH);
            assert!(event.message.is_some_and(|message| message.len() <= MESSAGE));
            event.metadata.name.unwrap()
        };
        let first = name(&source, "1", "ReconcileFailed", "a");
        assert_eq!(first, "one.3fc27879b4769346", "it is the same in each version");
        assert_eq!(
            first,
            name(&EventSource::new("shop", "web", "host-2_5f"), "1", "ReconcileFailed", &"é".repeat(600))
        );
        assert_ne!(first, name(&source, "2", "ReconcileFailed", "a"), "another object of the name");
        assert_ne!(first, name(&source, "1", "CleanupFailed", "a"));
        assert_ne!(first, name(&EventSource::new("shop", "app", "host-1_5f"), "1", "ReconcileFailed", "a"));
    }

    #[test]
    fn what_follows_a_message_is_never_cut() {
        let text = with_tail(&"é".repeat(600), ". Attempt 3.");
        assert!(
            text.ends_with("é…. Attempt 3.") && text.len() <= MESSAGE && text.len() > MESSAGE - 3,
            "{}",
            text.len()
        );
        assert_eq!(with_tail("short", "."), "short.");
    }

    #[test]
    fn names_are_unique_and_valid_for_any_name_of_the_object() {
        let source = EventSource::new("not a name", "web", "");
        let long = "a".repeat(250);
        for object in ["system:node", "web", &long] {
            let event = || source.event(&note(None, object, ""), Timestamp::UNIX_EPOCH);
            let (first, second) = (event().metadata, event().metadata);
            assert_ne!(first.name, second.name);
            assert!(name::subdomain(first.name.as_deref().unwrap()).is_ok(), "{first:?}");
            assert_eq!(first.namespace.as_deref(), Some("default"));
        }
        assert_eq!((source.controller.as_str(), source.instance.as_str()), ("kooper/web", "kooper"));
    }
}
