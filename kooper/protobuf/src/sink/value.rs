//! JSON as a tree.

use serde_json::{Map, Value};

use super::Sink;

/// Builds a [`Value`].
#[derive(Debug, Default)]
pub struct ValueSink {
    /// Objects and lists that have not ended, the innermost last.
    open: Vec<Open>,
    /// The value that has no object or list around it.
    whole: Value,
}

#[derive(Debug)]
enum Open {
    /// The entries, and the key of the next one.
    Object(Map<String, Value>, String),
    List(Vec<Value>),
}

impl ValueSink {
    /// The value that was built; `null` if nothing was written.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.whole
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Object(entries, key)) => drop(entries.insert(std::mem::take(key), value)),
            Some(Open::List(items)) => items.push(value),
            None => self.whole = value,
        }
    }

    fn end(&mut self) {
        match self.open.pop() {
            Some(Open::Object(entries, _)) => self.put(Value::Object(entries)),
            Some(Open::List(items)) => self.put(Value::Array(items)),
            None => {}
        }
    }
}

impl Sink for ValueSink {
    fn begin_object(&mut self) {
        self.open.push(Open::Object(Map::new(), String::new()));
    }

    fn key(&mut self, key: &str) {
        if let Some(Open::Object(_, next)) = self.open.last_mut() {
            key.clone_into(next);
        }
    }

    fn end_object(&mut self) {
        self.end();
    }

    fn begin_list(&mut self) {
        self.open.push(Open::List(Vec::new()));
    }

    fn end_list(&mut self) {
        self.end();
    }

    fn null(&mut self) {
        self.put(Value::Null);
    }

    fn bool(&mut self, value: bool) {
        self.put(value.into());
    }

    fn int(&mut self, value: i64) {
        self.put(value.into());
    }

    fn float(&mut self, value: f64) {
        self.put(value.into());
    }

    fn string(&mut self, value: &str) {
        self.put(value.into());
    }

    fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error> {
        let value = serde_json::from_slice(value)?;
        self.put(value);
        Ok(())
    }
}
