//! A recorded streaming list.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use kooper_bench::Kind;

/// Annotation of the bookmark that ends the list.
const END: &[u8] = b"k8s.io/initial-events-end";
/// The objects are named so, with six digits.
const NAME: &[u8] = b"bench-";
const DIGITS: usize = 6;

/// Encoding of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// The encodings that an API server has for a kind.
    pub(crate) fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Pods => &[Self::Json, Self::Protobuf],
            Kind::Crs => &[Self::Json],
        }
    }

    /// The media type of a request.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media type of a watch.
    pub(crate) fn watch(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// The file with the recording of a kind.
    pub(crate) fn file(self, folder: &Path, kind: Kind) -> PathBuf {
        folder.join(match self {
            Self::Json => format!("{kind}.json"),
            Self::Protobuf => format!("{kind}.protobuf"),
        })
    }

    /// The length of the first event, if it is complete.
    pub(crate) fn event(self, bytes: &[u8]) -> Option<usize> {
        let length = match self {
            Self::Json => bytes.iter().position(|&byte| byte == b'\n')? + 1,
            Self::Protobuf => 4 + u32::from_be_bytes(*bytes.first_chunk()?) as usize,
        };
        (bytes.len() >= length).then_some(length)
    }
}

/// Returns whether an event ends the list.
pub(crate) fn is_end(event: &[u8]) -> bool {
    // An object may contain the words only if someone put them there.
    event.len() < 1_000 && find(event, END).is_some()
}

/// A recorded list in each encoding.
pub(crate) struct Recording {
    json: Events,
    protobuf: Option<Events>,
}

impl Recording {
    /// Reads the files of a kind.
    pub(crate) fn read(folder: &Path, kind: Kind) -> Result<Self> {
        let read = |encoding: Encoding| Events::read(&encoding.file(folder, kind), encoding);
        let protobuf = Encoding::of(kind).contains(&Encoding::Protobuf).then(|| read(Encoding::Protobuf));
        Ok(Self { json: read(Encoding::Json)?, protobuf: protobuf.transpose()? })
    }

    /// The list in the best encoding that a client accepts.
    pub(crate) fn accepted(&self, accept: &str) -> (Encoding, &Events) {
        match &self.protobuf {
            Some(protobuf) if accept.contains(Encoding::Protobuf.accept()) => (Encoding::Protobuf, protobuf),
            _ => (Encoding::Json, &self.json),
        }
    }

    /// The list in JSON.
    pub(crate) fn json(&self) -> &Events {
        &self.json
    }
}

/// The events of a list, and the bookmark that ends it.
pub(crate) struct Events {
    events: Vec<Recorded>,
    end: Bytes,
    /// More than any recorded number.
    span: usize,
}

/// A recorded event.
struct Recorded {
    bytes: Bytes,
    /// The number in the object's name.
    number: usize,
    /// Where the digits of the name are.
    digits: Vec<usize>,
}

impl Events {
    fn read(file: &Path, encoding: Encoding) -> Result<Self> {
        let mut bytes = Bytes::from(fs::read(file).with_context(|| format!("reading {}", file.display()))?);
        let mut events = Vec::new();
        loop {
            let length = encoding.event(&bytes).with_context(|| format!("{} has no end", file.display()))?;
            let event = bytes.split_to(length);
            if is_end(&event) {
                let span = events.iter().map(|event: &Recorded| event.number + 1).max().unwrap_or_default();
                ensure!(span > 0, "{} has no objects", file.display());
                return Ok(Self { events, end: event, span });
            }
            events.push(Recorded::new(event)?);
        }
    }

    /// The event of the object with this number in the list, counted from 0.
    pub(crate) fn event(&self, at: usize) -> Bytes {
        let (copy, at) = (at / self.events.len(), at % self.events.len());
        match self.events.get(at) {
            Some(event) if copy == 0 => event.bytes.clone(),
            Some(event) => event.renamed(event.number + copy * self.span),
            None => Bytes::new(),
        }
    }

    /// The bookmark behind the last object.
    pub(crate) fn end(&self) -> Bytes {
        self.end.clone()
    }
}

impl Recorded {
    fn new(bytes: Bytes) -> Result<Self> {
        let mut at = 0;
        while let Some(found) = bytes.get(at..).and_then(|rest| find(rest, NAME)) {
            let start = at + found + NAME.len();
            at = start;
            let number =
                bytes.get(start..start + DIGITS).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            if let Some(number) = number {
                let name = bytes.slice(start - NAME.len()..start + DIGITS);
                return Ok(Self { digits: all(&bytes, &name).map(|at| at + NAME.len()).collect(), bytes, number });
            }
        }
        anyhow::bail!("an event without an object of the benchmark: {}", String::from_utf8_lossy(&bytes))
    }

    fn renamed(&self, number: usize) -> Bytes {
        let (mut bytes, name) = (self.bytes.to_vec(), format!("{number:0DIGITS$}"));
        for &at in &self.digits {
            if let Some(digits) = bytes.get_mut(at..at + DIGITS) {
                digits.copy_from_slice(&name.as_bytes()[..DIGITS]);
            }
        }
        bytes.into()
    }
}

fn all(text: &[u8], wanted: &[u8]) -> impl Iterator<Item = usize> {
    text.windows(wanted.len()).enumerate().filter(move |(_, window)| *window == wanted).map(|(at, _)| at)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    all(text, wanted).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_names_of_their_own() {
        let event = |number: usize| {
            let text = format!(r#"{{"namespace":"bench-07","name":"bench-{number:06}","ip":"bench-{number:06}.svc"}}"#);
            Recorded::new(text.into()).expect("it has a name")
        };
        let events = Events { events: vec![event(3), event(1)], end: Bytes::from("end"), span: 4 };
        let number = |at| Recorded::new(events.event(at)).map(|event| (event.number, event.digits.len())).ok();
        assert_eq!([0, 1, 2, 3, 4].map(number), [3, 1, 7, 5, 11].map(|number| Some((number, 2))));
    }
}
