//! The paths by which a rule blames a field: `.spec.replicas`, `.labels['a.b']`.

use serde_json::Value;

use crate::escape::control;

/// The path as messages show it; `None` where the schema has no such field.
pub(super) fn field_path(path: &str, mut schema: &Value) -> Option<String> {
    let mut shown = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        (name, rest) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        } else {
            quoted(rest.strip_prefix("['")?)?
        };
        if name.is_empty() {
            return None;
        }
        if schema["properties"].is_object() {
            schema = schema["properties"].get(&name)?;
            let dot = if shown.is_empty() { "" } else { "." };
            shown = format!("{shown}{dot}{name}");
        } else {
            schema = schema.get("additionalProperties").filter(|others| others.is_object())?;
            shown = format!("{shown}[{name}]");
        }
    }
    (!shown.is_empty()).then_some(shown)
}

/// A name up to its closing quote and bracket, and what follows them.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            '\'' => return Some((name, text[index + 1..].strip_prefix(']')?)),
            '\\' => name.push(match chars.next()?.1 {
                known @ ('\'' | '\\') => known,
                letter => control(letter)?,
            }),
            other => name.push(other),
        }
    }
    None
}
