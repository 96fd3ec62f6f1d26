//! Random values that must be unpredictable or unique: uids, tokens and suffixes of names.

use std::fmt::Write as _;

/// The letters of generated names; none of them makes words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness tokens could be guessed: the system's source does not fail after start.
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system has no random numbers: {error}"));
    bytes
}

/// A random (version 4) UUID.
pub(crate) fn uid() -> String {
    let mut bytes = bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns a suffix for `generateName`.
pub(crate) fn suffix() -> String {
    bytes::<5>().iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// A number.
pub(crate) fn number() -> u64 {
    u64::from_le_bytes(bytes())
}

/// A number below a limit.
pub(crate) fn below(limit: u32) -> u32 {
    u32::from_le_bytes(bytes()) % limit.max(1)
}

/// A bearer token.
pub(crate) fn token() -> String {
    bytes::<24>().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
