//! Limits on a line of the log: it has no known secrets, and at most 4 KiB, so that
//! collectors accept it unchanged.

use std::fmt;

use serde_json::Value;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use kooper_runtime::internal::error::redaction::redact;

/// The longest line, in bytes.
pub(super) const LONGEST: usize = 4 << 10;

/// Shorter strings of a JSON line are not cut.
const SHORT: usize = 64;

/// A text without known secrets, of so many bytes at most: with a note of how much is
/// left out.
pub(super) fn limited(text: &str, most: usize) -> String {
    let text = redact(text);
    if text.len() <= most {
        return text.into_owned();
    }
    // The number of bytes is never longer than that of all.
    let note = |left: usize| format!("… ({left} more bytes)");
    let end_of_colours = if text.contains('\x1b') { "\x1b[0m" } else { "" };
    let room = most.saturating_sub(note(text.len()).len() + end_of_colours.len());
    let mut end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    // The code for a colour is not cut.
    let kept = text.get(..end).unwrap_or_default();
    if let Some(code) = kept.rfind('\x1b').filter(|code| !kept.get(*code..).unwrap_or_default().contains('m')) {
        end = code;
    }
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}{end_of_colours}{}", note(text.len() - end))
}

/// Lines in JSON that are limited: each stays an object.
pub(super) struct LimitedJson<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for LimitedJson<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        if line.len() > LONGEST || redact(&line) != line {
            return writeln!(writer, "{}", limited_json(&line));
        }
        writer.write_str(&line)
    }
}

/// A line whose strings are redacted, and cut at a length with which it fits.
fn limited_json(line: &str) -> String {
    let Ok(mut object) = serde_json::from_str::<Value>(line) else { return limited(line.trim_end(), LONGEST) };
    each_scalar(&mut object, &mut |value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown = redact(&text);
        if shown != text {
            *value = shown.into();
        }
    });
    let (mut most, mut text) = (LONGEST, object.to_string());
    // An escaped string takes more bytes in the line.
    while text.len() >= LONGEST && most > SHORT {
        most = (most * 7 / 8).max(SHORT);
        let mut cut = object.clone();
        each_scalar(&mut cut, &mut |value| {
            if let Some(long) = value.as_str().filter(|text| text.len() > most) {
                *value = limited(long, most).into();
            }
        });
        text = cut.to_string();
    }
    text
}

fn each_scalar(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| each_scalar(value, change)),
        Value::Object(fields) => fields.values_mut().for_each(|value| each_scalar(value, change)),
        scalar => change(scalar),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_how_much_is_left_out() {
        assert_eq!(limited("short", 5), "short");
        for begin in 0..8 {
            let text = "x".repeat(begin) + &"é".repeat(4_000);
            let cut = limited(&text, LONGEST);
            let (kept, left) = cut.split_once("… (").expect("a note");
            let left: usize = left.trim_end_matches(" more bytes)").parse().expect("a number");
            assert_eq!(kept.len() + left, text.len());
            assert!(text.starts_with(kept) && (LONGEST - 4..=LONGEST).contains(&cut.len()), "{}", cut.len());
        }
        let coloured = "\x1b[2mno\x1b[0m".repeat(1_000);
        for most in LONGEST..LONGEST + 10 {
            let cut = limited(&coloured, most);
            let kept = cut.split_once("\x1b[0m…").map(|(kept, _)| kept).expect("colours end");
            assert!(kept.ends_with(['m', 'n', 'o']), "{kept:?}");
        }
    }

    #[test]
    fn a_long_line_in_json_stays_an_object_with_all_its_fields() {
        for (message, error) in [
            ("é\"\n".repeat(3_000), "short".to_owned()),
            ("\u{1}".repeat(9_000), "e".repeat(9_000)),
            ("same".repeat(2_000), "size".repeat(2_000)),
            ("m".repeat(4_100), String::new()),
        ] {
            let line = json!({"level": "WARN", "message": message, "error": error, "spans": [{"key": "shop/a"}]});
            let cut = limited_json(&(line.to_string() + "\n"));
            let read: Value = serde_json::from_str(&cut).expect("one object");
            assert!(cut.len() < LONGEST, "{}", cut.len());
            assert_eq!((&read["level"], &read["spans"][0]["key"]), (&json!("WARN"), &json!("shop/a")));
            assert!(read["message"].as_str().is_some_and(|text| text.ends_with(" more bytes)")), "{read}");
        }
        let many = json!({"list": vec!["0123456789"; 1_000]}).to_string();
        assert_eq!(limited_json(&many), many, "there is no string to cut");
    }
}
