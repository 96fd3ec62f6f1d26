//! Printer columns of a custom resource definition.

use serde_json::{Value, json};

/// One column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    path: String,
}

impl Column {
    pub(super) fn read_all(version: &Value) -> Vec<Self> {
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        columns
            .map(|column| Self {
                name: text(&column["name"]),
                kind: text(&column["type"]),
                format: text(&column["format"]),
                description: column["description"].as_str().map_or_else(
                    || {
                        "Custom resource definition column (in JSONPath format): ".to_owned()
                            + &text(&column["jsonPath"])
                    },
                    ToOwned::to_owned,
                ),
                priority: column["priority"].as_i64().unwrap_or(0),
                path: text(&column["jsonPath"]),
            })
            .collect()
    }

    /// The cell of an object.
    pub(crate) fn cell(&self, object: &Value) -> Value {
        let found = select(object, &self.path);
        let Some(first) = found.first() else { return Value::Null };
        match self.kind.as_str() {
            "integer" => first.as_i64().map_or(Value::Null, |number| json!(number)),
            "number" => first.as_f64().map_or(Value::Null, |number| json!(number)),
            "boolean" => first.as_bool().map_or(Value::Null, |flag| json!(flag)),
            "date" => match first.as_str() {
                Some(time) => json!(crate::time::age(time)),
                None => Value::Null,
            },
            _ => match first {
                Value::String(text) => json!(text),
                Value::Null => Value::Null,
                other => json!(other.to_string()),
            },
        }
    }
}

/// Returns the values that a JSON path selects. A path can have names, indexes,
/// `[*]` and `[?(@.key=="value")]`.
fn select<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = found
            .into_iter()
            .flat_map(|value| -> Vec<&'a Value> {
                match &step {
                    Step::Name(name) => value.get(name.as_str()).into_iter().collect(),
                    Step::Index(index) => value.get(*index).into_iter().collect(),
                    Step::All => match value {
                        Value::Array(items) => items.iter().collect(),
                        Value::Object(entries) => entries.values().collect(),
                        _ => Vec::new(),
                    },
                    Step::Where(path, wanted) => value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter(|item| select(item, path).first().and_then(|value| value.as_str()) == Some(wanted))
                        .collect(),
                }
            })
            .collect();
    }
    found
}

enum Step {
    Name(String),
    Index(usize),
    All,
    Where(String, String),
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').unwrap_or(after.len());
            let inner = &after[..end];
            rest = after.get(end + 1..).unwrap_or_default();
            if inner == "*" {
                steps.push(Step::All);
            } else if let Ok(index) = inner.parse() {
                steps.push(Step::Index(index));
            } else if let Some(test) = inner.strip_prefix("?(@").and_then(|test| test.strip_suffix(')')) {
                if let Some((path, wanted)) = test.split_once("==") {
                    let wanted = wanted.trim().trim_matches(['"', '\'']);
                    steps.push(Step::Where(path.trim().to_owned(), wanted.to_owned()));
                }
            } else {
                steps.push(Step::Name(inner.trim_matches(['"', '\'']).to_owned()));
            }
            continue;
        }
        rest = rest.trim_start_matches('.');
        // A dot may be escaped, as in the keys of annotations.
        let mut name = String::new();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => name.extend(chars.next().map(|(_, char)| char)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                _ => name.push(char),
            }
        }
        rest = &rest[end..];
        if !name.is_empty() {
            steps.push(Step::Name(name));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::select;

    #[test]
    fn paths_select_fields_items_and_conditions() {
        let object =
            json!({"spec": {"a.b": 1, "list": [{"type": "X", "status": "True"}, {"type": "Y", "status": "False"}]}});
        let first = |path: &str| select(&object, path).first().map(|value| (*value).clone());
        assert_eq!(first(".spec.list[1].type"), Some(json!("Y")));
        assert_eq!(first(".spec.list[*].status"), Some(json!("True")));
        assert_eq!(first(".spec.list[?(@.type==\"Y\")].status"), Some(json!("False")));
        assert_eq!(first(r".spec.a\.b"), Some(json!(1)));
        assert_eq!(first(".none[0].x"), None);
    }
}
