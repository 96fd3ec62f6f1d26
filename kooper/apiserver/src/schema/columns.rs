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
            "integer" => {
                let number = first.as_i64().or_else(|| first.as_f64().map(|number| number as i64));
                number.map_or(Value::Null, |number| json!(number))
            }
            "number" => first.as_f64().map_or(Value::Null, |number| json!(number)),
            "boolean" => first.as_bool().map_or(Value::Null, |flag| json!(flag)),
            "date" => match first.as_str() {
                Some(time) if !time.is_empty() && crate::time::canonical(time, false).is_none() => json!("<invalid>"),
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

/// Returns the values that a JSON path selects. A path can have names, indexes, slices such as
/// `[-1:]`, `[*]` and `[?(@.key=="value")]`.
fn select<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = found
            .into_iter()
            .flat_map(|value| -> Vec<&'a Value> {
                match &step {
                    Step::Name(name) => value.get(name.as_str()).into_iter().collect(),
                    Step::Slice(slice) => slice.of(value),
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
    Slice(Slice),
    All,
    Where(String, String),
}

/// Some items of a list: `[1]`, `[-1:]`, `[0:4:2]`. A negative index counts from the end of the list.
struct Slice {
    start: i64,
    /// The end of the list, if it is absent.
    end: Option<i64>,
    step: usize,
}

impl Slice {
    fn parse(text: &str) -> Option<Self> {
        let number = |part: Option<&str>| match part.unwrap_or_default() {
            "" => Some(None),
            text => text.parse::<i64>().ok().map(Some),
        };
        let mut parts = text.split(':');
        let start = number(parts.next())?;
        let end = match parts.next() {
            // Only one item.
            None => start?.checked_add(1).filter(|end| *end != 0),
            part => number(part)?,
        };
        let step = number(parts.next())?.map_or(Some(1), |step| usize::try_from(step).ok().filter(|step| *step > 0))?;
        parts.next().is_none().then_some(Self { start: start.unwrap_or(0), end, step })
    }

    /// The items; none if a bound is beyond the list.
    fn of<'a>(&self, list: &'a Value) -> Vec<&'a Value> {
        let Value::Array(items) = list else { return Vec::new() };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let place = |index: i64| usize::try_from(if index < 0 { index + length } else { index }).ok();
        let (start, end) = (place(self.start), place(self.end.unwrap_or(length)));
        let selected = start.zip(end).and_then(|(start, end)| items.get(start..end));
        selected.into_iter().flatten().step_by(self.step).collect()
    }
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
            } else if let Some(slice) = Slice::parse(inner) {
                steps.push(Step::Slice(slice));
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
    use serde_json::{Value, json};

    use super::{Column, select};

    #[test]
    fn a_cell_is_written_as_the_type_of_its_column() {
        let cell = |kind: &str, value: Value| {
            let version = json!({"additionalPrinterColumns": [{"name": "A", "type": kind, "jsonPath": ".a"}]});
            Column::read_all(&version)[0].cell(&json!({"a": value}))
        };
        assert_eq!(cell("integer", json!(5.7)), json!(5));
        assert_eq!(cell("date", json!(crate::time::after(3600))), json!("<invalid>"), "it is in the future");
        assert_eq!(cell("date", json!("tomorrow")), json!("<invalid>"));
        assert_eq!(cell("date", json!("")), json!("<unknown>"));
    }

    #[test]
    fn paths_select_fields_items_and_conditions() {
        let object =
            json!({"spec": {"a.b": 1, "list": [{"type": "X", "status": "True"}, {"type": "Y", "status": "False"}]}});
        let first = |path: &str| select(&object, path).first().map(|value| (*value).clone());
        assert_eq!(first(".spec.list[1].type"), Some(json!("Y")));
        assert_eq!(first(".spec.list[*].status"), Some(json!("True")));
        assert_eq!(first(".spec.list[?(@.type==\"Y\")].status"), Some(json!("False")));
        assert_eq!(first(".spec.list[-1:].type"), Some(json!("Y")));
        assert_eq!(first(".spec.list[-2].type"), Some(json!("X")));
        assert_eq!(first(".spec.list[1:].type"), Some(json!("Y")));
        assert_eq!(first(".spec.list[:1].type"), Some(json!("X")));
        assert_eq!(select(&object, ".spec.list[::2]").len(), 1);
        assert_eq!(first(".spec.list[0:3].type"), None);
        assert_eq!(first(".spec.list[-3:].type"), None);
        assert_eq!(first(r".spec.a\.b"), Some(json!(1)));
        assert_eq!(first(".none[0].x"), None);
    }
}
