//! The document in protobuf, with the messages of gnostic's `openapi.v2`.

use serde_json::Value;

/// A message that is being written, in the order of its fields.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.number(u64::from(field << 3 | 2));
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// A string, if there is one.
    fn text(self, field: u32, text: &Value) -> Self {
        match text.as_str() {
            Some(text) => self.bytes(field, text.as_bytes()),
            None => self,
        }
    }

    fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn flag(mut self, field: u32, flag: &Value) -> Self {
        if flag == true {
            self.number(u64::from(field << 3));
            self.number(1);
        }
        self
    }

    /// A field for each of some values.
    fn repeated<T>(self, field: u32, all: impl IntoIterator<Item = T>, message: impl Fn(T) -> Self) -> Self {
        all.into_iter().fold(self, |written, one| written.message(field, &message(one)))
    }

    /// A field for each string of a list.
    fn texts(self, field: u32, list: &Value) -> Self {
        list.as_array().into_iter().flatten().fold(self, |written, text| written.text(field, text))
    }

    /// The extensions of something.
    fn extensions(self, field: u32, of: &Value) -> Self {
        let all = of.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("x-"));
        self.repeated(field, all, |(name, value)| named(name, &any(value)))
    }
}

/// `Document`.
pub(super) fn of(document: &Value) -> Vec<u8> {
    let info = Message::default().text(1, &document["info"]["title"]).text(2, &document["info"]["version"]);
    let entries = |key: &str| document[key].as_object().into_iter().flatten();
    let paths = Message::default().repeated(2, entries("paths"), |(path, item)| named(path, &path_item(item)));
    let definitions = Message::default().repeated(1, entries("definitions"), |(name, of)| named(name, &schema(of)));
    Message::default().text(1, &document["swagger"]).message(2, &info).message(8, &paths).message(9, &definitions).0
}

/// `NamedSchema`, `NamedAny`, `NamedPathItem`.
fn named(name: &str, value: &Message) -> Message {
    Message::default().bytes(1, name.as_bytes()).message(2, value)
}

/// `Any`: its YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    Message::default().bytes(2, value.to_string().as_bytes())
}

/// `PathItem`.
fn path_item(item: &Value) -> Message {
    let methods = [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")];
    let served = methods.into_iter().filter(|(_, method)| item[*method].is_object());
    served.fold(Message::default(), |written, (field, method)| written.message(field, &operation(&item[method])))
}

/// `Operation`.
fn operation(operation: &Value) -> Message {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let responses = operation["responses"].as_object().into_iter().flatten();
    let responses = Message::default().repeated(1, responses, |(code, response)| {
        let schema = Message::default().message(1, &schema(&response["schema"]));
        let response = Message::default().text(1, &response["description"]).message(2, &schema);
        named(code, &Message::default().message(1, &response))
    });
    Message::default()
        .texts(6, &operation["produces"])
        .texts(7, &operation["consumes"])
        .repeated(8, parameters, |of| Message::default().message(1, &parameter(of)))
        .message(9, &responses)
        .extensions(13, operation)
}

/// `Parameter`: of the body or of the query.
fn parameter(parameter: &Value) -> Message {
    if parameter["in"] == "body" {
        let body = Message::default()
            .text(2, &parameter["name"])
            .text(3, &parameter["in"])
            .flag(4, &parameter["required"])
            .message(5, &schema(&parameter["schema"]));
        return Message::default().message(1, &body);
    }
    let query = Message::default()
        .text(2, &parameter["in"])
        .text(4, &parameter["name"])
        .text(6, &parameter["type"])
        .flag(20, &parameter["uniqueItems"]);
    Message::default().message(2, &Message::default().message(3, &query))
}

/// `Schema`, without the limits of values, by which no client validates.
fn schema(schema: &Value) -> Message {
    let mut message = Message::default().text(1, &schema["$ref"]).text(2, &schema["format"]);
    if let Some(default) = schema.get("default") {
        message = message.message(5, &any(default));
    }
    message = message.texts(19, &schema["required"]);
    message = message.repeated(20, schema["enum"].as_array().into_iter().flatten(), any);
    match &schema["additionalProperties"] {
        Value::Bool(any) => message = message.message(21, &Message::default().flag(2, &Value::Bool(*any))),
        Value::Object(_) => {
            let below = self::schema(&schema["additionalProperties"]);
            message = message.message(21, &Message::default().message(1, &below));
        }
        _ => {}
    }
    if schema["type"].is_string() {
        message = message.message(22, &Message::default().text(1, &schema["type"]));
    }
    if schema["items"].is_object() {
        message = message.message(23, &Message::default().message(1, &self::schema(&schema["items"])));
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties = Message::default().repeated(1, properties, |(name, of)| named(name, &self::schema(of)));
        message = message.message(25, &properties);
    }
    message.extensions(31, schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::schema;

    #[test]
    fn a_schema_is_written_in_the_order_of_its_fields() {
        let written = schema(&json!({"properties": {"a": {"$ref": "b"}}, "type": "c", "x-d": [1]})).0;
        let expected: [&[u8]; 3] = [
            b"\xb2\x01\x03\x0a\x01c",
            b"\xca\x01\x0a\x0a\x08\x0a\x01a\x12\x03\x0a\x01b",
            b"\xfa\x01\x0c\x0a\x03x-d\x12\x05\x12\x03[1]",
        ];
        assert_eq!(written, expected.concat());
    }
}
