//! The columns of the built-in kinds, from the table that `tests/control-plane/tables` writes.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

const TABLE: &str = include_str!("../kinds/columns.txt");

/// The columns of each kind that has more than a name and a time, as the API writes them.
pub(super) static COLUMNS: LazyLock<HashMap<&str, Vec<Value>>> = LazyLock::new(|| parse(TABLE));

/// One column.
pub(super) fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn parse(table: &'static str) -> HashMap<&'static str, Vec<Value>> {
    let mut shared: HashMap<&str, String> = HashMap::new();
    let mut columns: HashMap<_, Vec<_>> = HashMap::new();
    let mut kind = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix("  ") {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (of, priority, format, name, description) = (word(), word(), word(), word(), word());
            let format = if format == "-" { "" } else { format };
            let description = match shared.get(description) {
                Some(text) => text.clone(),
                None => serde_json::from_str(description).unwrap_or_default(),
            };
            let priority = priority.parse().unwrap_or(0);
            columns.entry(kind).or_default().push(column(&name.replace('_', " "), of, format, &description, priority));
        } else if let Some((number, text)) = line.split_once(' ') {
            shared.insert(number, serde_json::from_str(text).unwrap_or_default());
        } else {
            kind = line;
        }
    }
    columns
}
