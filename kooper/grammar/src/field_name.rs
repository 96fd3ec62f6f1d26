//! The names of fields in different languages.

/// The letters of a field's name, without those that differ between languages: those of `volume_claim` and `volumeClaim`
/// are the same.
pub fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| !matches!(byte, b'_' | b'-' | b'$')).map(|byte| byte.to_ascii_lowercase())
}
