//! JSON patches (RFC 6902), with the liberties that the real server takes.
//!
//! It replaces members that are absent, reads an absent value as `null`,
//! counts from the end of a list for negative indices, and takes what is
//! before the first slash of a path as nothing.
//!
//! A `test` compares texts of JSON. Go writes `<`, `>` and `&` as `\u003c`,
//! `\u003e` and `\u0026`, and so must a client that tests for them.

use serde_json::{Map, Value};

use super::format::html_escaped;

/// The bytes that the copies of one patch may add.
const MOST_COPIED: usize = 3 << 20;

/// An operation does not fit the document, or copies too much.
#[derive(Debug)]
pub struct DoesNotFit;

/// The operations of a patch, which are applied one after the other.
#[derive(Debug)]
pub struct JsonPatch {
    operations: Vec<Value>,
    /// The same, with strings that keep their escapes; none where no operation is a test.
    written: Vec<Value>,
}

impl JsonPatch {
    /// The text is what the operations were decoded from.
    pub fn new(operations: Vec<Value>, text: &[u8]) -> Self {
        let has_test = operations.iter().any(|operation| operation["op"] == "test");
        let written = std::str::from_utf8(text).ok().filter(|_| has_test).and_then(unread);
        let written = written.and_then(|mut written| written.as_array_mut().map(std::mem::take)).unwrap_or_default();
        Self { operations, written }
    }

    /// Changes a document.
    ///
    /// # Errors
    ///
    /// If an operation does not fit. The document is of no use then.
    pub fn apply(&self, document: &mut Value) -> Result<(), DoesNotFit> {
        let mut copied = 0;
        for (index, operation) in self.operations.iter().enumerate() {
            self.apply_one(document, index, operation, &mut copied)?;
        }
        Ok(())
    }

    /// Returns whether the value of a `test` and the document's value have the same JSON text.
    fn is_text_of(&self, found: &Value, index: usize, path: &str) -> bool {
        let Some(written) = self.written.get(index) else { return true };
        // Strings of the document are compared as Go writes them.
        let stored = unread(&html_escaped(&found.to_string())).unwrap_or_default();
        written.get("value").unwrap_or(&Value::Null) == &stored
            // Values that the patch itself has written keep the client's text.
            || self.operations[..index].iter().any(|earlier| overlaps(earlier, path))
    }

    fn apply_one(
        &self,
        document: &mut Value,
        index: usize,
        operation: &Value,
        copied: &mut usize,
    ) -> Result<(), DoesNotFit> {
        let text = |key: &str| operation.get(key).and_then(Value::as_str);
        let path = text("path").ok_or(DoesNotFit)?;
        let value = || operation.get("value").cloned().unwrap_or_default();
        match text("op").unwrap_or_default() {
            "add" => put(document, path, value(), true)?,
            "replace" => put(document, path, value(), false)?,
            "remove" => drop(remove(document, path)?),
            "test" => {
                let found = find(document, path)?.unwrap_or(&Value::Null);
                if *found != value() || !self.is_text_of(found, index, path) {
                    return Err(DoesNotFit);
                }
            }
            "move" => {
                let moved = remove(document, text("from").ok_or(DoesNotFit)?)?;
                put(document, path, moved, true)?;
            }
            "copy" => {
                let copy = find(document, text("from").ok_or(DoesNotFit)?)?.cloned().unwrap_or_default();
                *copied += copy.to_string().len();
                if *copied > MOST_COPIED {
                    return Err(DoesNotFit);
                }
                put(document, path, copy, true)?;
            }
            _ => return Err(DoesNotFit),
        }
        Ok(())
    }
}

/// The value of a text whose strings keep their escapes.
fn unread(text: &str) -> Option<Value> {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        kept.push(char);
        if char == '\\' {
            kept.push('\\');
            match chars.next()? {
                escaped @ ('"' | '\\') => kept.extend(['\\', escaped]),
                escaped => kept.push(escaped),
            }
        }
    }
    serde_json::from_str(&kept).ok()
}

/// Returns whether an operation writes to a path, or to a parent or a child of it.
fn overlaps(operation: &Value, path: &str) -> bool {
    let written = operation["path"].as_str().unwrap_or_default();
    operation["op"] != "test" && (written.starts_with(path) || path.starts_with(written))
}

/// The value that holds what a path names, and the path's last part.
fn holder<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), DoesNotFit> {
    let mut parts: Vec<_> = path.split('/').skip(1).map(unescaped).collect();
    let last = parts.pop().unwrap_or_else(|| path.to_owned());
    let mut at = document;
    for part in parts {
        at = match at {
            Value::Object(entries) => entries.get_mut(&part).ok_or(DoesNotFit)?,
            Value::Array(items) => {
                let index = index(items, &part, false)?;
                items.get_mut(index).ok_or(DoesNotFit)?
            }
            _ => return Err(DoesNotFit),
        };
    }
    Ok((at, last))
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The index that a part of a path means, which for an insertion may be one behind the last item.
fn index(items: &[Value], part: &str, insert: bool) -> Result<usize, DoesNotFit> {
    let length = items.len() + usize::from(insert);
    let number: i64 = part.parse().map_err(|_| DoesNotFit)?;
    let from_end = usize::try_from(number.unsigned_abs()).map_err(|_| DoesNotFit)?;
    let index = if number < 0 { length.checked_sub(from_end).ok_or(DoesNotFit)? } else { from_end };
    if index < length { Ok(index) } else { Err(DoesNotFit) }
}

fn find<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, DoesNotFit> {
    if path.is_empty() {
        return Ok(Some(document));
    }
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(entries) => Ok(entries.get(&last)),
        Value::Array(items) => Ok(items.get(index(items, &last, false)?)),
        _ => Err(DoesNotFit),
    }
}

/// Sets the value at a path. In a list, `insert` decides whether it is inserted before the item there, or replaces it.
fn put(document: &mut Value, path: &str, value: Value, insert: bool) -> Result<(), DoesNotFit> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(entries) => drop(entries.insert(last, value)),
        Value::Array(items) if insert && last == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(items, &last, insert)?;
            if insert { items.insert(index, value) } else { items[index] = value }
        }
        _ => return Err(DoesNotFit),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, DoesNotFit> {
    if path.is_empty() {
        return Err(DoesNotFit);
    }
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(entries) => Map::remove(entries, &last).ok_or(DoesNotFit),
        Value::Array(items) => Ok(items.remove(index(items, &last, false)?)),
        _ => Err(DoesNotFit),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonPatch;

    fn patched(operations: &Value) -> Option<Value> {
        let mut document = json!({"a": {"b": [1, 2, 3]}, "c/d": "x"});
        let list = operations.as_array().expect("it is a list").clone();
        JsonPatch::new(list, operations.to_string().as_bytes()).apply(&mut document).ok()?;
        Some(document)
    }

    #[test]
    fn operations_are_applied_in_order() {
        let operations = json!([
            {"op": "add", "path": "/a/b/-", "value": 4}, {"op": "add", "path": "/a/b/0", "value": 0},
            {"op": "remove", "path": "/a/b/-1"}, {"op": "replace", "path": "/a/new", "value": 1},
            {"op": "copy", "from": "/c~1d", "path": "/e"}, {"op": "move", "from": "/e", "path": "/f"},
            {"op": "add", "path": "/g"}, {"op": "test", "path": "/g"}, {"op": "test", "path": "/absent"}
        ]);
        assert_eq!(
            patched(&operations),
            Some(json!({"a": {"b": [0, 1, 2, 3], "new": 1}, "c/d": "x", "f": "x", "g": null}))
        );
    }

    #[test]
    fn a_test_is_for_the_text_that_go_writes() {
        for (stored, patch, fits) in [
            ("a<b", r#"[{"op": "test", "path": "/a", "value": "a<b"}]"#, false),
            ("a<b", r#"[{"op": "test", "path": "/a", "value": "a\u003cb"}]"#, true),
            ("a<b", r#"[{"op": "test", "path": "", "value": {"a": "a<b"}}]"#, false),
            ("a<b", r#"[{"op": "add", "path": "/a", "value": "<"}, {"op": "test", "path": "/a", "value": "<"}]"#, true),
            ("\"\\\n", r#"[{"op": "test", "path": "/a", "value": "\"\\\n"}]"#, true),
            ("é", r#"[{"op": "test", "path": "/a", "value": "é"}]"#, true),
            ("é", r#"[{"op": "test", "path": "/a", "value": "\u00e9"}]"#, false),
            ("x", r#"[{"op": "test", "path": "/a", "value":  "x" }]"#, true),
        ] {
            let operations = serde_json::from_str(patch).expect("it is JSON");
            let patch = JsonPatch::new(operations, patch.as_bytes());
            assert_eq!(patch.apply(&mut json!({"a": stored})).is_ok(), fits, "{:?} of {stored}", patch.operations);
        }
    }

    #[test]
    fn an_index_is_a_number() {
        assert_eq!(patched(&json!([{"op": "remove", "path": "/a/b/x"}])), None);
    }
}
