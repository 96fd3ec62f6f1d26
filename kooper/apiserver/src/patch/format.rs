//! Go's formatting of JSON values, as quoted in the real server's messages.

use serde_json::{Number, Value};

use crate::escape;

/// A value as Go's `%v` prints it: `map[a:1 b:[x y]]`.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", join(items.iter().map(display), " ")),
        Value::Object(map) => {
            format!("map[{}]", join(map.iter().map(|(key, value)| format!("{key}:{}", display(value))), " "))
        }
    }
}

/// A value as Go's `%#v` prints it: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => quote(text),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", join(items.iter().map(syntax), ", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}:{}", quote(key), syntax(value)));
            format!("map[string]interface {{}}{{{}}}", join(entries, ", "))
        }
    }
}

/// The Go type that a JSON value is decoded to, as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A string as Go's `%q` prints it.
pub(crate) fn quote(text: &str) -> String {
    escape::quote(text, |char, quoted| match u32::from(char) {
        _ if is_printable(char) => quoted.push(char),
        code if char.is_ascii() => quoted.push_str(&format!("\\x{code:02x}")),
        code if code > 0xffff => quoted.push_str(&format!("\\U{code:08x}")),
        code => quoted.push_str(&format!("\\u{code:04x}")),
    })
}

/// As Go's encoder writes JSON. Outside of strings none of these occur.
pub(super) fn html_escaped(json: &str) -> String {
    let escapes =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    if !json.contains(escapes.map(|(char, _)| char)) {
        return json.to_owned();
    }
    escapes.iter().fold(json.to_owned(), |json, (char, escape)| json.replace(*char, escape))
}

/// Approximates Go's `unicode.IsPrint`. Of the characters that aren't letters,
/// marks, numbers, punctuation or symbols, it knows only the common ones:
/// controls, spaces other than U+0020, and invisible format characters.
pub(crate) fn is_printable(char: char) -> bool {
    let invisible = matches!(char,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e00ff}'
        | '\u{e01f0}'..='\u{10ffff}');
    char == ' ' || !(char.is_control() || char.is_whitespace() || invisible)
}

/// A number as `%v` prints it. A float below 1e-4 or from 1e6 on gets an exponent.
pub(crate) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => self::float(float),
        _ => number.to_string(),
    }
}

fn float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn join(parts: impl Iterator<Item = String>, separator: &str) -> String {
    parts.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [1, "x", null, true], "a": {"z": 1.5}});
        assert_eq!(display(&value), "map[a:map[z:1.5] b:[1 x <nil> true]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":map[string]interface {}{"z":1.5}, "b":[]interface {}{1, "x", interface {}(nil), true}}"#
        );
        assert_eq!(quote("a\"b\\\n\u{1}é\u{200b}"), r#""a\"b\\\n\x01é\u200b""#);
        assert_eq!(quote("\u{e0100}\u{e0001}"), "\"\u{e0100}\\U000e0001\"");
    }

    #[test]
    fn floats_get_an_exponent_where_go_gives_them_one() {
        let cases = [
            (1.0, "1"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1.5, "1.5"),
            (30_000.0, "30000"),
        ];
        for (float, printed) in cases {
            assert_eq!(display(&json!(float)), printed);
        }
    }
}
