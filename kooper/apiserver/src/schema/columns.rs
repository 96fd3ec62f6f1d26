//! Printer columns of a custom resource definition.

use serde_json::{Value, json};

use crate::time;

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
        match (self.kind.as_str(), *first) {
            ("integer", Value::Number(number)) => json!(number.as_i64().or(number.as_f64().map(|float| float as i64))),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => {
                (*first).clone()
            }
            ("date", Value::String(text))
                if !matches!(&**text, "" | "null") && time::canonical(text, false).is_none() =>
            {
                json!("<invalid>")
            }
            ("date", Value::String(text)) => json!(time::age(text)),
            // As Go's templates print it.
            ("string", Value::Null) => json!("<no value>"),
            ("string", other) => json!(other.to_string()),
            _ => Value::Null,
        }
    }
}

/// Returns the values that a JSON path selects. A path can have names, indexes, slices such as
/// `[-1:]`, `[*]` and `[?(@.key=="value")]`; of comparisons, `==` and `!=`.
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
                    Step::Where(path, test) => {
                        let items = value.as_array().into_iter().flatten();
                        items
                            .filter(|item| select(item, path).first().is_some_and(|found| test.passes(found)))
                            .collect()
                    }
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
    Where(String, Test),
}

/// The condition of a filter about the value that its path selects in an item.
enum Test {
    Exists,
    /// Values of different types are neither equal nor unequal.
    Is {
        equal: bool,
        wanted: Value,
    },
    Never,
}

impl Test {
    fn parse(text: &str) -> Self {
        let literal = |text: &str| {
            let text = text.trim();
            let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
            let string = quoted('"').or_else(|| quoted('\'')).map(Value::from);
            // A word without quotes is no value.
            string.or_else(|| serde_json::from_str(text).ok())
        };
        let comparison = ["==", "!="].into_iter().find_map(|operator| Some((operator, text.strip_prefix(operator)?)));
        match comparison.and_then(|(operator, text)| Some((operator == "==", literal(text)?))) {
            Some((equal, wanted)) => Self::Is { equal, wanted },
            None if text.is_empty() => Self::Exists,
            None => Self::Never,
        }
    }

    fn passes(&self, found: &Value) -> bool {
        match self {
            Self::Exists => true,
            Self::Is { equal, wanted } => {
                std::mem::discriminant(found) == std::mem::discriminant(wanted) && (found == wanted) == *equal
            }
            Self::Never => false,
        }
    }
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
                let (path, test) = test.split_at(test.find(['!', '<', '>', '=']).unwrap_or(test.len()));
                steps.push(Step::Where(path.trim().to_owned(), Test::parse(test)));
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

    use super::{Column, select};

    #[test]
    fn a_cell_is_of_the_type_of_its_column() {
        let object = json!({
            "null": null, "float": 3.7, "flag": true, "text": "3", "map": {"a": 1},
            "future": "2999-01-01T00:00:00Z", "unset": "", "zero": "0001-01-01T00:00:00Z",
        });
        for (kind, path, expected) in [
            ("integer", ".float", json!(3)),
            ("integer", ".text", json!(null)),
            ("number", ".float", json!(3.7)),
            ("boolean", ".flag", json!(true)),
            ("boolean", ".text", json!(null)),
            ("date", ".future", json!("<invalid>")),
            ("date", ".text", json!("<invalid>")),
            ("date", ".unset", json!("<unknown>")),
            // The zero of Go.
            ("date", ".zero", json!("<unknown>")),
            ("string", ".flag", json!("true")),
            ("string", ".map", json!("{\"a\":1}")),
            ("string", ".null", json!("<no value>")),
            ("string", ".absent", json!(null)),
        ] {
            let columns = json!({"additionalPrinterColumns": [{"name": "A", "type": kind, "jsonPath": path}]});
            let cells: Vec<_> = Column::read_all(&columns).iter().map(|column| column.cell(&object)).collect();
            assert_eq!(cells, [expected], "{kind} {path}");
        }
    }

    #[test]
    fn a_filter_compares_values_of_one_type() {
        let object = json!({"list": [{"name": "a", "on": false, "port": 80}, {"name": "b", "on": true}]});
        let names =
            |test: &str| select(&object, &format!(".list[?({test})].name")).into_iter().cloned().collect::<Vec<_>>();
        for (test, expected) in [
            ("@.on==true", vec!["b"]),
            ("@.port==80", vec!["a"]),
            ("@.port", vec!["a"]),
            ("@.name != 'a'", vec!["b"]),
            ("@.name==a", vec![]),
            ("@.on!=\"true\"", vec![]),
        ] {
            assert_eq!(names(test), expected, "{test}");
        }
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
