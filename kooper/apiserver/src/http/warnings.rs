//! The Warning headers of an answer: each warning once, and not more than a client can be expected to take.

use std::collections::HashSet;

use http::HeaderValue;

/// Maximum total length of all warnings in characters. If they are longer, each of them is cut.
const MOST: usize = 4 << 10;
/// The length of a warning that was cut.
const CUT: usize = 256;

/// The headers of warnings, in their order.
pub(super) fn headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let mut once: Vec<_> = warnings.iter().map(String::as_str).filter(|warning| seen.insert(*warning)).collect();
    let length = |text: &str| text.chars().count();
    if once.iter().map(|text| length(text)).sum::<usize>() > MOST {
        let mut written = 0;
        for text in &mut once {
            *text = text.char_indices().nth(CUT).map_or(text, |(end, _)| &text[..end]);
            if written >= MOST {
                *text = "";
            }
            written += length(text);
        }
    }
    once.retain(|text| !text.is_empty() && !text.contains(char::is_control));
    once.into_iter().filter_map(header).collect()
}

fn header(text: &str) -> Option<HeaderValue> {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{text}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::headers;

    #[test]
    fn each_warning_comes_once_and_quoted() {
        let warnings = ["a \"b\" \\", "c", "c", "", "d\n"].map(str::to_owned);
        assert_eq!(headers(&warnings), [r#"299 - "a \"b\" \\""#, r#"299 - "c""#]);
    }

    #[test]
    fn many_are_cut_until_they_are_enough() {
        let warnings: Vec<_> = (0..100).map(|number| format!("{number:03}{}", "é".repeat(300))).collect();
        let headers = headers(&warnings);
        assert_eq!(headers.len(), 16);
        let expected = format!("299 - \"015{}\"", "é".repeat(253));
        assert_eq!(headers[15].as_bytes(), expected.as_bytes());
    }
}
