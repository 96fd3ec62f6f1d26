//! Events and pages in protobuf. Objects become JSON without `managedFields` as
//! soon as they arrive; nothing behind this file knows how they were sent.

use kooper_protobuf::watch::{Event as WatchEvent, LENGTH};
use kooper_protobuf::{DecodeError, Envelope, JsonSink, Kind, ListReader, Sink};
use serde_json::Value;

use super::{INITIAL_EVENTS_END, LONGEST_LINE};
use crate::object::{MalformedObject, Object};
use crate::watch::retriever::status::status_error;
use crate::watch::retriever::{Event, Page, RetrieveError};

/// Splits the body of a list into objects while it arrives.
#[derive(Default)]
pub(in crate::watch::retriever) struct ProtobufPage {
    reader: ListReader,
    page: Page,
    objects: Objects,
}

impl ProtobufPage {
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), RetrieveError> {
        let Self { reader, page, objects } = self;
        reader
            .push(chunk, |kind, item| page.objects.push(objects.read(kind, item)))
            .map_err(|error| invalid(&error))?;
        if reader.held() > LONGEST_LINE { Err(too_long()) } else { Ok(()) }
    }

    pub(super) fn end(mut self) -> Result<Page, RetrieveError> {
        let metadata = self.reader.finish().map_err(|error| invalid(&error))?;
        self.page.version = metadata.version;
        self.page.continue_token = Some(metadata.continue_token).filter(|token| !token.is_empty());
        Ok(self.page)
    }
}

/// Splits the body of a watch into events.
#[derive(Default)]
pub(in crate::watch::retriever) struct Frames {
    buffer: Vec<u8>,
    /// The start of the next frame.
    start: usize,
    objects: Objects,
}

impl Frames {
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), RetrieveError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next complete event.
    pub(super) fn next(&mut self) -> Option<Result<Event, RetrieveError>> {
        let rest = self.buffer.get(self.start..)?;
        let (length, rest) = rest.split_first_chunk::<LENGTH>()?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > LONGEST_LINE {
            self.buffer.clear();
            return Some(Err(too_long()));
        }
        let frame = rest.get(..length)?;
        self.start += LENGTH + length;
        Some(event(frame, &mut self.objects))
    }
}

fn event(frame: &[u8], objects: &mut Objects) -> Result<Event, RetrieveError> {
    let event = WatchEvent::read(frame).map_err(|error| invalid(&error))?;
    let envelope = Envelope::open(event.object).map_err(|error| invalid(&error))?;
    let kind = Kind::of(envelope.api_version(), envelope.kind()).ok_or_else(|| {
        let (kind, version) = (envelope.kind(), envelope.api_version());
        RetrieveError::InvalidResponse(format!("it has an object of the unknown kind `{kind}` of `{version}`"))
    })?;
    let mut object = || objects.read(kind, envelope.raw());
    let event = match &*event.kind {
        "ADDED" => object().map(Event::Added),
        "MODIFIED" => object().map(Event::Modified),
        "DELETED" => object().map(Event::Deleted),
        "BOOKMARK" => return bookmark(&kind.decode_value(envelope.raw()).map_err(|error| invalid(&error))?),
        "ERROR" => return Err(status_error(event.object, None, None)),
        other => {
            return Err(RetrieveError::InvalidResponse(format!("it has a watch event of the unknown type `{other}`")));
        }
    };
    Ok(event.unwrap_or_else(Event::Malformed))
}

fn bookmark(object: &Value) -> Result<Event, RetrieveError> {
    let metadata = &object["metadata"];
    Ok(Event::Bookmark {
        version: metadata["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        initial_events_end: metadata["annotations"][INITIAL_EVENTS_END] == "true",
    })
}

/// Makes objects from their bytes.
#[derive(Default)]
struct Objects {
    /// Empty between two objects: only its memory is kept.
    json: Vec<u8>,
}

/// Memory beyond this is not kept for the next object.
const KEPT: usize = 64 << 10;

impl Objects {
    fn read(&mut self, kind: Kind, raw: &[u8]) -> Result<Object, MalformedObject> {
        let mut sink = Unmanaged::new(JsonSink::new(std::mem::take(&mut self.json)));
        kind.decode(raw, &mut sink).map_err(|error| MalformedObject::undecodable(&error, raw))?;
        self.json = sink.to.into_bytes();
        let object = Object::parse(&self.json);
        self.json.clear();
        self.json.shrink_to(KEPT);
        object
    }
}

/// Passes on all but `metadata.managedFields`.
struct Unmanaged<S> {
    to: S,
    depth: usize,
    in_metadata: bool,
    /// Whether the value that follows, or is open, is left out.
    skipping: bool,
}

/// The nesting depth within an object, and within its metadata.
const OBJECT: usize = 1;
const METADATA: usize = 2;

impl<S: Sink> Unmanaged<S> {
    fn new(to: S) -> Self {
        Self { to, depth: 0, in_metadata: false, skipping: false }
    }

    fn begin(&mut self, begin: impl FnOnce(&mut S)) {
        self.depth += 1;
        if !self.skipping {
            begin(&mut self.to);
        }
    }

    fn end(&mut self, end: impl FnOnce(&mut S)) {
        self.depth -= 1;
        self.value(end);
    }

    /// A value that is complete.
    fn value<T: Default>(&mut self, write: impl FnOnce(&mut S) -> T) -> T {
        if self.skipping {
            self.skipping = self.depth > METADATA;
            return T::default();
        }
        write(&mut self.to)
    }
}

impl<S: Sink> Sink for Unmanaged<S> {
    fn begin_object(&mut self) {
        self.begin(S::begin_object);
    }

    fn key(&mut self, key: &str) {
        match self.depth {
            OBJECT => self.in_metadata = key == "metadata",
            METADATA if self.in_metadata && key == "managedFields" => self.skipping = true,
            _ => {}
        }
        if !self.skipping {
            self.to.key(key);
        }
    }

    fn end_object(&mut self) {
        self.end(S::end_object);
    }

    fn begin_list(&mut self) {
        self.begin(S::begin_list);
    }

    fn end_list(&mut self) {
        self.end(S::end_list);
    }

    fn null(&mut self) {
        self.value(S::null);
    }

    fn bool(&mut self, value: bool) {
        self.value(|to| to.bool(value));
    }

    fn int(&mut self, value: i64) {
        self.value(|to| to.int(value));
    }

    fn float(&mut self, value: f64) {
        self.value(|to| to.float(value));
    }

    fn string(&mut self, value: &str) {
        self.value(|to| to.string(value));
    }

    fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error> {
        self.value(|to| Some(to.json(value))).unwrap_or(Ok(()))
    }
}

fn invalid(error: &DecodeError) -> RetrieveError {
    RetrieveError::InvalidResponse(error.to_string())
}

fn too_long() -> RetrieveError {
    RetrieveError::InvalidResponse(format!("it has an object of more than {} MiB", LONGEST_LINE >> 20))
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, HeaderMap};
    use kooper_protobuf::List;
    use kooper_protobuf::watch::write_frame;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{EventReader, PageReader};
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::of("v1", name).expect("it is built in")
    }

    fn config(name: &str) -> Value {
        let managed = json!([{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}]);
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "5", "managedFields": managed},
            "data": {"managedFields": "kept", "a": "b"},
        })
    }

    fn headers(media: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, media.parse().expect("it is a header"))])
    }

    fn page_of(names: &[&str]) -> Vec<u8> {
        let mut list = List::new(kind("ConfigMapList"));
        for name in names {
            list.push(&config(name)).expect("it has an encoding");
        }
        list.finish(&json!({"resourceVersion": "9", "continue": "more"})).expect("it is metadata").flatten().collect()
    }

    fn page(body: &[u8], chunk: usize) -> Result<Page, RetrieveError> {
        let mut reader = PageReader::of(&headers("application/vnd.kubernetes.protobuf"));
        for chunk in body.chunks(chunk) {
            reader.push(chunk)?;
        }
        reader.end()
    }

    fn framed(event: &str, object: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        WatchEvent { kind: event.into(), object }.write(&mut bytes);
        bytes
    }

    fn watched(body: &[u8], chunk: usize) -> Vec<Result<Event, RetrieveError>> {
        let mut reader = EventReader::of(&headers("application/vnd.kubernetes.protobuf;stream=watch"));
        let mut found = Vec::new();
        for chunk in body.chunks(chunk) {
            reader.push(chunk).expect("it is not too long");
            while let Some(event) = reader.next() {
                found.push(event);
            }
        }
        found
    }

    #[test]
    fn objects_have_no_managed_fields() {
        let page = page(&page_of(&["a"]), 50).unwrap();
        let object = page.objects[0].as_ref().unwrap();
        assert_eq!((object.key().as_str(), object.uid(), object.version()), ("shop/a", "u", "5"));
        let json: Value = serde_json::from_slice(&object.json()).unwrap();
        assert_eq!(json["metadata"].get("managedFields"), None);
        assert_eq!(json["data"], json!({"managedFields": "kept", "a": "b"}));
        assert_eq!((page.version.as_str(), page.continue_token.as_deref()), ("9", Some("more")));
    }

    #[test]
    fn an_object_that_does_not_decode_does_not_affect_its_neighbors() {
        let broken = |name: &str| {
            let mut object = kind("ConfigMap").encode(&config(name)).unwrap();
            // A value of another type than the field has.
            let at = object.windows(4).position(|window| window == b"shop").unwrap();
            object[at - 2] = (3 << 3) | 5;
            object
        };
        let good = kind("ConfigMap").encode(&config("c")).unwrap();
        let body = [framed("ADDED", &broken("a")), framed("ADDED", &good)].concat();
        match &watched(&body, 11)[..] {
            [Ok(Event::Malformed(error)), Ok(Event::Added(object))] => {
                assert_eq!(object.key().as_str(), "shop/c");
                let error = error.to_string();
                assert!(error.contains("ObjectMeta"), "{error}");
                assert!(!error.contains("shop"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bookmarks_and_errors_are_read() {
        let end = json!({"metadata": {"resourceVersion": "12", "annotations": {INITIAL_EVENTS_END: "true"}}});
        let gone = json!({"status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
        let body = [
            framed("BOOKMARK", &kind("Pod").encode(&end).unwrap()),
            framed("ERROR", &kind("Status").encode(&gone).unwrap()),
        ];
        match &watched(&body.concat(), 1000)[..] {
            [Ok(Event::Bookmark { version, initial_events_end: true }), Err(RetrieveError::Expired(message))] => {
                assert_eq!((version.as_str(), message.as_str()), ("12", "too old"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_that_contradict_their_content_type_are_refused() {
        let refused = page(br#"{"kind":"ConfigMapList","items":[]}"#, 10).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the response is invalid: the envelope: the bytes do not begin with `k8s` and a zero at byte 0"
        );
        let mut body = Vec::new();
        write_frame(&mut body, br#"{"type":"ADDED"}"#);
        assert!(matches!(watched(&body, 100)[..], [Err(RetrieveError::InvalidResponse(_))]));
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_once() {
        let body = [&u32::MAX.to_be_bytes()[..], b"abc"].concat();
        match &watched(&body, 100)[..] {
            [Err(RetrieveError::InvalidResponse(message))] => {
                assert_eq!(message, "it has an object of more than 64 MiB");
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn chunks_of_any_size_give_the_same_objects(chunk in 1_usize..500) {
            let page = page(&page_of(&["a", "b"]), chunk).unwrap();
            let keys: Vec<_> = page.objects.iter().map(|object| object.as_ref().unwrap().key().to_string()).collect();
            prop_assert_eq!(keys, ["shop/a", "shop/b"]);
            let events: Vec<_> = ["a", "b"].iter().flat_map(|name| framed("ADDED", &kind("ConfigMap").encode(&config(name)).unwrap())).collect();
            prop_assert_eq!(watched(&events, chunk).len(), 2);
        }

        #[test]
        fn flipped_bits_never_panic(bit in 0_usize..4000, chunk in 1_usize..300) {
            let mut body = page_of(&["a", "b"]);
            let at = (bit / 8).min(body.len() - 1);
            body[at] ^= 1 << (bit % 8);
            drop(page(&body, chunk));
            let mut events = framed("ADDED", &kind("ConfigMap").encode(&config("a")).unwrap());
            let at = (bit / 8).min(events.len() - 1);
            events[at] ^= 1 << (bit % 8);
            drop(watched(&events, chunk));
        }
    }
}
