//! Lists, which are read item by item while they arrive.

use crate::envelope::MAGIC;
use crate::error::{DecodeError, Problem};
use crate::kind::Kind;
use crate::wire::{Reader, Span, Value};

/// Reads the body of a list while it arrives; it never holds more than one item.
///
/// ```
/// use kooper_protobuf::{Kind, List, ListReader};
/// use serde_json::json;
///
/// let mut list = List::new(Kind::of("v1", "PodList").expect("it is built in"));
/// list.push(&json!({"metadata": {"name": "a"}}))?;
/// let body: Vec<u8> = list.finish(&json!({"resourceVersion": "7"}))?.flatten().collect();
///
/// let mut reader = ListReader::default();
/// let mut names = Vec::new();
/// for chunk in body.chunks(5) {
///     reader.push(chunk, |kind, item| {
///         names.push((kind.name(), kind.decode_value(item).expect("it is a pod")["metadata"]["name"].clone()));
///     })?;
/// }
/// assert_eq!(names, [("Pod", json!("a"))]);
/// assert_eq!(reader.finish()?.version, "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ListReader {
    /// The bytes that have arrived but are not read yet.
    buffer: Vec<u8>,
    /// The number of bytes of the body that are read.
    read: usize,
    at: Position,
    /// The kind of the list, with its group and version.
    list: String,
    is_list: bool,
    /// The kind of its items.
    kind: Option<Kind>,
    metadata: ListMetadata,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMetadata {
    /// The resource version.
    pub version: String,
    /// The token of the next page; empty for the last page.
    pub continue_token: String,
}

/// The next part of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Magic,
    /// A field of the envelope.
    Envelope,
    /// A field of the list, of which so many bytes are left.
    List(usize),
    /// A field of the envelope behind the list.
    End,
}

impl ListReader {
    /// Reads a part of the body, and passes on each item that is complete.
    ///
    /// # Errors
    ///
    /// If the body is not a list whose items the table knows.
    pub fn push(&mut self, chunk: &[u8], mut item: impl FnMut(Kind, &[u8])) -> Result<(), DecodeError> {
        self.buffer.extend_from_slice(chunk);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..];
        while let Some(length) = self.step(rest, &mut item)? {
            rest = &rest[length..];
            self.read += length;
        }
        let used = buffer.len() - rest.len();
        self.buffer = buffer;
        self.buffer.drain(..used);
        Ok(())
    }

    /// The number of bytes that have arrived of an incomplete item.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffer.len()
    }

    /// The whole body has arrived.
    ///
    /// # Errors
    ///
    /// If it ended early.
    pub fn finish(self) -> Result<ListMetadata, DecodeError> {
        if self.at == Position::End && self.buffer.is_empty() {
            Ok(self.metadata)
        } else {
            Err(DecodeError::new("the list", Problem::Truncated, self.read + self.buffer.len()))
        }
    }

    /// Reads what comes next, if it is there as a whole, and returns its length.
    fn step(&mut self, rest: &[u8], item: &mut impl FnMut(Kind, &[u8])) -> Result<Option<usize>, DecodeError> {
        let error = |place: &str, problem| DecodeError::new(place, problem, self.read);
        if self.at == Position::Magic {
            let Some(start) = rest.get(..MAGIC.len()) else { return Ok(None) };
            if start != MAGIC {
                return Err(error("the envelope", Problem::Magic));
            }
            self.at = Position::Envelope;
            return Ok(Some(MAGIC.len()));
        }
        let Some(head) = Head::read(rest).map_err(|problem| error("the list", problem))? else { return Ok(None) };
        let position = self.at;
        let length = match position {
            // The list itself is entered, not awaited.
            Position::Envelope if head.number == 2 => head.start,
            _ => head.end,
        };
        if let Position::List(left) = position
            && length > left
        {
            return Err(error("the list", Problem::Truncated));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let value = rest.get(head.start..length).unwrap_or_default();
        match (position, head.number) {
            (Position::Envelope, 1) => self.type_meta(value)?,
            // A gateway may respond to any request with another object. Taken for a list without items, it would count as
            // the deletion of all objects.
            (Position::Envelope, 2) if !self.is_list => {
                return Err(error("the envelope", Problem::NoList(self.list.clone())));
            }
            (Position::Envelope, 2) => self.at = Position::List(head.end - head.start),
            (Position::List(_), 1) => self.list_meta(value)?,
            (Position::List(_), 2) => match self.kind {
                Some(kind) => item(kind, value),
                None => return Err(error("the list", Problem::Kind(self.list.clone()))),
            },
            _ => {}
        }
        if let Position::List(left) = position {
            self.at = Position::List(left - length);
        }
        if self.at == Position::List(0) {
            self.at = Position::End;
        }
        Ok(Some(length))
    }

    fn type_meta(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let (mut api_version, mut list) = (String::new(), String::new());
        texts(bytes, self.read, |number, text| match number {
            1 => api_version = text,
            2 => list = text,
            _ => {}
        })?;
        let item = list.strip_suffix("List");
        self.is_list = item.is_some();
        self.kind = item.and_then(|item| Kind::of(&api_version, item));
        self.list = format!("{list} of {api_version}");
        Ok(())
    }

    fn list_meta(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        texts(bytes, self.read, |number, text| match number {
            2 => self.metadata.version = text,
            3 => self.metadata.continue_token = text,
            _ => {}
        })
    }
}

/// The strings among the fields of a message.
fn texts(bytes: &[u8], offset: usize, mut take: impl FnMut(u32, String)) -> Result<(), DecodeError> {
    let mut reader = Reader::new(Span { bytes, offset });
    let error = |problem| DecodeError::new("the list", problem, offset);
    while let Some(token) = reader.next().map_err(error)? {
        if let Value::Bytes(text) = token.value {
            take(token.number, String::from_utf8_lossy(text.bytes).into_owned());
        }
    }
    Ok(())
}

/// The number of a field, and where its value begins and ends.
struct Head {
    number: u64,
    start: usize,
    end: usize,
}

impl Head {
    /// Reads a field's number and its length; `None` if more bytes are needed for that.
    fn read(bytes: &[u8]) -> Result<Option<Self>, Problem> {
        let Some((tag, start)) = varint(bytes)? else { return Ok(None) };
        let number = tag >> 3;
        let end = |length: usize| Ok(Some(Self { number, start, end: start + length }));
        match tag & 7 {
            _ if number == 0 => Err(Problem::Number),
            0 => match varint(bytes.get(start..).unwrap_or_default())? {
                Some((_, length)) => end(length),
                None => Ok(None),
            },
            1 => end(8),
            5 => end(4),
            2 => {
                let Some((length, head)) = varint(bytes.get(start..).unwrap_or_default())? else { return Ok(None) };
                let start = start + head;
                let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
                Ok(Some(Self { number, start, end: end.ok_or(Problem::Overflow)? }))
            }
            other => Err(Problem::WireType(other as u8)),
        }
    }
}

/// A number and its length; `None` if it is not complete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Problem> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok(Some((number, index + 1)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(Problem::Overflow) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::list::List;

    fn body(names: &[&str]) -> Vec<u8> {
        let mut list = List::new(Kind::of("v1", "ConfigMapList").expect("it is built in"));
        for name in names {
            list.push(&json!({"metadata": {"name": name}, "data": {"a": "b".repeat(200)}}))
                .expect("it has an encoding");
        }
        let metadata = json!({"resourceVersion": "12", "continue": "next", "remainingItemCount": 3});
        list.finish(&metadata).expect("it has an encoding").flatten().collect()
    }

    fn read(body: &[u8], chunk: usize) -> Result<(Vec<String>, ListMetadata), DecodeError> {
        let mut reader = ListReader::default();
        let mut names = Vec::new();
        for chunk in body.chunks(chunk) {
            reader.push(chunk, |kind, item| {
                let value = kind.decode_value(item).expect("it is a ConfigMap");
                names.push(value["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            })?;
        }
        Ok((names, reader.finish()?))
    }

    #[test]
    fn a_list_that_breaks_off_is_refused() {
        let body = body(&["a", "b"]);
        for length in 0..body.len() {
            // The bytes after the list are not needed, but they are always sent.
            if length < body.len() - 4 {
                assert!(read(&body[..length], 7).is_err(), "{length} of {}", body.len());
            }
        }
    }

    #[test]
    fn items_of_an_unknown_kind_are_refused_with_their_kind() {
        let mut body = body(&["a"]);
        let at = body.windows(9).position(|window| window == b"ConfigMap").expect("the kind is there");
        body[at..at + 9].copy_from_slice(b"Unknown__");
        assert_eq!(
            read(&body, 100).unwrap_err().to_string(),
            "the list: the kind Unknown__List of v1 is unknown at byte 44"
        );
    }

    #[test]
    fn another_object_is_not_an_empty_list() {
        let kind = |name| Kind::of("v1", name).expect("it is built in");
        let config = kind("ConfigMap").encode(&json!({"metadata": {"name": "a"}})).expect("it has an encoding");
        for chunk in [1, config.len()] {
            let error = read(&config, chunk).unwrap_err().to_string();
            assert!(error.starts_with("the envelope: the kind `ConfigMap of v1` is not that of a list"), "{error}");
        }
        assert!(read(&kind("Status").encode(&json!({})).expect("it has an encoding"), 9).is_err());
        assert!(read(&body(&[]), 9).is_ok_and(|(names, _)| names.is_empty()));
    }

    proptest! {
        #[test]
        fn chunks_of_any_size_give_the_same_items(chunk in 1_usize..900) {
            let (names, metadata) = read(&body(&["a", "b", "c"]), chunk).unwrap();
            prop_assert_eq!(names, ["a", "b", "c"]);
            prop_assert_eq!(metadata, ListMetadata { version: "12".into(), continue_token: "next".into() });
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..400, chunk in 1_usize..50) {
            let mut reader = ListReader::default();
            let mut whole = body(&["a", "b"]);
            let at = at.min(whole.len());
            let end = (at + bytes.len()).min(whole.len());
            whole[at..end].copy_from_slice(&bytes[..end - at]);
            for chunk in whole.chunks(chunk) {
                if reader.push(chunk, |kind, item| drop(kind.decode_json(item))).is_err() {
                    break;
                }
            }
        }
    }
}
