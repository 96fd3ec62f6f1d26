//! Standard base64 with padding.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// What was base64 for a lenient decoder, as the encoder writes it: in one line, without bits that mean nothing.
pub(crate) fn canonical(text: &str) -> String {
    let mut letters: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let padding = letters.iter().rev().take_while(|byte| **byte == b'=').count();
    let spare = [0, 0b11, 0b1111].get(padding).copied().unwrap_or(0);
    let last = letters.len().checked_sub(padding + 1).and_then(|last| letters.get_mut(last));
    if let Some(last) = last
        && let Some(value) = LETTERS.iter().position(|letter| letter == last)
    {
        *last = LETTERS[value & !spare];
    }
    String::from_utf8(letters).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{canonical, encode};

    #[test]
    fn lenient_base64_gets_one_form() {
        assert_eq!(
            ["", "YQ==", "Y\nR==", "YWJ=", "YWJj", "YWJj\r\nYQ=="].map(canonical),
            ["", "YQ==", "YQ==", "YWI=", "YWJj", "YWJjYQ=="]
        );
    }

    #[test]
    fn the_last_group_is_padded() {
        assert_eq!(
            ["", "a", "ab", "abc", "abcd"].map(|text| encode(text.as_bytes())),
            ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="]
        );
    }
}
