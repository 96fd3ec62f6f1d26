//! Names in paths of the API.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters to percent-encode in a segment. The colon is not one of them, because
/// it is common in names of roles.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// A name as a segment of a path. kube does not escape names.
#[must_use]
pub fn escape(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, ESCAPED).into()
}

/// The name that a segment stands for.
#[must_use]
pub fn unescape(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_and_comes_back() {
        for (name, segment) in [
            ("web-0.shop", "web-0.shop"),
            ("system:node", "system:node"),
            ("a role", "a%20role"),
            ("a?dryRun=All#b", "a%3FdryRun%3DAll%23b"),
            ("50%", "50%25"),
            ("é", "%C3%A9"),
            ("a/b", "a%2Fb"),
        ] {
            assert_eq!((&*escape(name), &*unescape(segment)), (segment, name));
        }
    }
}
