//! An object's JSON in memory: plain or compressed.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use lz4_flex::block::{
    compress_into_with_dict, decompress_into_with_dict, decompress_with_dict, get_maximum_output_size,
};

/// Shorter texts stay plain, as compression would save little.
const WORTH_PACKING: usize = 256;

/// LZ4 reads the dictionary for each text again, so it must be short.
const LONGEST_DICTIONARY: usize = 8 << 10;

/// More memory than this is not kept for the next text.
const LONGEST_SCRATCH: usize = 64 << 10;

/// A dictionary for the texts of one store: the beginning of the first one.
///
/// Objects of a kind share their keys and many of their values. LZ4 finds them
/// in a dictionary, but not in a single short text.
#[derive(Debug, Default)]
pub(crate) struct Dictionary(OnceLock<Arc<[u8]>>);

/// A JSON text.
pub(super) enum Text {
    Plain(Box<[u8]>),
    Packed { bytes: Box<[u8]>, length: u32, dictionary: Arc<[u8]> },
}

impl Text {
    /// Compresses the text if that makes it shorter.
    pub(super) fn packed(self, dictionary: &Dictionary) -> Self {
        let plain = match self {
            Self::Plain(plain) if plain.len() >= WORTH_PACKING => plain,
            other => return other,
        };
        let dictionary =
            dictionary.0.get_or_init(|| plain.get(..plain.len().min(LONGEST_DICTIONARY)).unwrap_or_default().into());
        let bytes: Option<Box<[u8]>> = with_scratch(get_maximum_output_size(plain.len()), |scratch| {
            let size = compress_into_with_dict(&plain, scratch, dictionary).ok()?;
            Some(scratch.get(..size).filter(|bytes| bytes.len() < plain.len())?.into())
        });
        match (bytes, u32::try_from(plain.len())) {
            (Some(bytes), Ok(length)) => Self::Packed { bytes, length, dictionary: dictionary.clone() },
            _ => Self::Plain(plain),
        }
    }

    /// Calls with the original text, which needs no memory of its own.
    pub(super) fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Plain(plain) => read(plain),
            Self::Packed { bytes, length, dictionary } => with_scratch(*length as usize, |scratch| {
                // As in `plain`.
                let length = decompress_into_with_dict(bytes, scratch, dictionary).unwrap_or_default();
                read(scratch.get(..length).unwrap_or_default())
            }),
        }
    }

    /// The original text.
    pub(super) fn plain(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Plain(plain) => Cow::Borrowed(plain),
            Self::Packed { bytes, length, dictionary } => {
                // The bytes are from `packed`. An error would lead to JSON that
                // does not decode.
                Cow::Owned(decompress_with_dict(bytes, *length as usize, dictionary).unwrap_or_default())
            }
        }
    }

    /// Its size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain(bytes) | Self::Packed { bytes, .. } => bytes.len(),
        }
    }
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
        let dictionary = Dictionary::default();
        let (mut plain, mut packed) = (0, 0);
        for name in 0..100 {
            let json = pod(name);
            let text = Text::Plain(json.clone().into()).packed(&dictionary);
            assert_eq!(*text.plain(), *json);
            plain += json.len();
            packed += text.size();
        }
        assert!(packed * 3 < plain, "{packed} of {plain} bytes");
    }

    #[test]
    fn short_texts_and_noise_stay_plain() {
        let dictionary = Dictionary::default();
        let noise: Vec<u8> = (0..4000u64).map(|n| (crate::backoff::fraction(n) * 256.0) as u8).collect();
        // The first text becomes the dictionary.
        let _ = Text::Plain(pod(0).into()).packed(&dictionary);
        for text in [b"{}".to_vec(), noise] {
            assert!(
                matches!(Text::Plain(text.clone().into()).packed(&dictionary), Text::Plain(plain) if *plain == *text)
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_restored_unchanged(texts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"{}\":,abc01".to_vec()), 0..2000), 1..6)) {
            let dictionary = Dictionary::default();
            for text in texts {
                let packed = Text::Plain(text.clone().into()).packed(&dictionary);
                prop_assert_eq!(&*packed.plain(), &*text);
                prop_assert!(packed.read(|plain| plain == text && packed.read(|again| again == text)));
            }
        }
    }
}
