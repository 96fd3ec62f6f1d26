//! The bytes of an object in memory: plain or compressed.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use lz4_flex::block::{compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size};

use super::dictionary::Owners;

/// Shorter texts stay plain, as compression would save little.
const WORTH_PACKING: usize = 256;

/// More memory than this is not kept for the next text.
const LONGEST_SCRATCH: usize = 64 << 10;

/// The JSON or the protobuf of an object.
pub(super) enum Text {
    Plain {
        bytes: Box<[u8]>,
        owners: Option<Owners>,
    },
    /// Without a dictionary, the bytes depend on nothing but the text.
    Packed {
        bytes: Box<[u8]>,
        length: u32,
        dictionary: Option<Arc<[u8]>>,
    },
}

impl Text {
    /// Compresses the text with a dictionary that is chosen for it, or without one, if
    /// that makes it shorter.
    pub(super) fn packed(self, choose: impl FnOnce(&[u8], Option<Owners>) -> Option<Arc<[u8]>>) -> Self {
        let (plain, owners) = match self {
            Self::Plain { bytes, owners } if bytes.len() >= WORTH_PACKING => (bytes, owners),
            other => return other,
        };
        let dictionary = choose(&plain, owners);
        let bytes: Option<Box<[u8]>> = with_scratch(get_maximum_output_size(plain.len()), |scratch| {
            let size = compress_into_with_dict(&plain, scratch, dictionary.as_deref().unwrap_or_default()).ok()?;
            Some(scratch.get(..size).filter(|bytes| bytes.len() < plain.len())?.into())
        });
        match (bytes, u32::try_from(plain.len())) {
            (Some(bytes), Ok(length)) => Self::Packed { bytes, length, dictionary },
            _ => Self::Plain { bytes: plain, owners },
        }
    }

    /// Calls with the original text, which needs no memory of its own.
    pub(super) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Plain { bytes, .. } => read(bytes),
            Self::Packed { bytes, length, dictionary } => with_scratch(*length as usize, |scratch| {
                let length = unpack(bytes, dictionary, scratch);
                read(scratch.get(..length).unwrap_or_default())
            }),
        }
    }

    /// The original text.
    pub(super) fn plain(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Plain { bytes, .. } => Cow::Borrowed(bytes),
            Self::Packed { bytes, length, dictionary } => {
                let mut plain = vec![0; *length as usize];
                let length = unpack(bytes, dictionary, &mut plain);
                plain.truncate(length);
                Cow::Owned(plain)
            }
        }
    }

    /// Its size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain { bytes, .. } | Self::Packed { bytes, .. } => bytes.len(),
        }
    }
}

/// Decompresses into `plain`. Returns the length of the text. The bytes are from `packed`; an error would lead to a text
/// that does not decode.
fn unpack(bytes: &[u8], dictionary: &Option<Arc<[u8]>>, plain: &mut [u8]) -> usize {
    decompress_into_with_dict(bytes, plain, dictionary.as_deref().unwrap_or_default()).unwrap_or_default()
}

/// Memory of the thread for texts that live for a moment.
fn with_scratch<T>(length: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // A call within `run` finds none and allocates.
    let mut scratch = SCRATCH.take();
    if scratch.len() < length {
        scratch.resize(length, 0);
    }
    let result = run(scratch.get_mut(..length).unwrap_or_default());
    if scratch.len() <= LONGEST_SCRATCH {
        SCRATCH.set(scratch);
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(bytes: impl Into<Box<[u8]>>) -> Text {
        Text::Plain { bytes: bytes.into(), owners: None }
    }

    fn pod(name: usize) -> Vec<u8> {
        let containers: Vec<_> = (0..4)
            .map(|n| {
                format!(r#"{{"name":"c-{n}","image":"registry/app:{name}","env":[{{"name":"A","value":"{n}"}}]}}"#)
            })
            .collect();
        format!(r#"{{"metadata":{{"name":"pod-{name}"}},"spec":{{"containers":[{}]}}}}"#, containers.join(","))
            .into_bytes()
    }

    #[test]
    fn objects_of_a_kind_are_stored_in_a_fraction_of_their_json() {
        let dictionary: Arc<[u8]> = pod(0).into();
        let (mut before, mut after) = (0, 0);
        for name in 0..100 {
            let json = pod(name);
            let text = plain(json.clone()).packed(|_, _| Some(dictionary.clone()));
            assert_eq!(*text.plain(), *json);
            before += json.len();
            after += text.size();
        }
        assert!(after * 3 < before, "{after} of {before} bytes");
    }

    #[test]
    fn short_texts_and_noise_stay_plain() {
        let dictionary: Arc<[u8]> = pod(0).into();
        let noise: Vec<u8> = (0..4000u64).map(|n| (crate::backoff::fraction(n) * 256.0) as u8).collect();
        for text in [b"{}".to_vec(), noise] {
            assert!(
                matches!(plain(text.clone()).packed(|_, _| Some(dictionary.clone())), Text::Plain { bytes, .. } if *bytes == *text)
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_restored_unchanged(texts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"{}\":,abc01".to_vec()), 0..2000), 1..6)) {
            let dictionary: Arc<[u8]> = texts[0].clone().into();
            for text in texts {
                for dictionary in [Some(dictionary.clone()), None] {
                    let packed = plain(text.clone()).packed(|_, _| dictionary);
                    prop_assert_eq!(&*packed.plain(), &*text);
                    prop_assert!(packed.read(|plain| plain == text && packed.read(|again| again == text)));
                }
            }
        }
    }
}
