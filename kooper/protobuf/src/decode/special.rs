//! Messages that JSON does not write as objects.

use super::{Decoder, wrong};
use crate::error::{DecodeError, NESTING, Place, Problem};
use crate::table::Field;
use crate::time;
use crate::wire::{Reader, Span, Token, Value};

impl<'a> Decoder<'a, '_> {
    pub(super) fn time(&mut self, place: Place, span: Span<'a>, micros: bool) -> Result<(), DecodeError> {
        if span.bytes.is_empty() {
            self.sink.null();
            return Ok(());
        }
        let [seconds, nanos] = numbers(place, span)?;
        let nanos = if micros { Some(nanos as i32) } else { None };
        self.sink.string(&time::write(seconds as i64, nanos));
        Ok(())
    }

    pub(super) fn quantity(&mut self, place: Place, span: Span<'a>) -> Result<(), DecodeError> {
        match last(place, span, 1)? {
            Some(text) => self.sink.string(&text.text()),
            None => self.sink.string("0"),
        }
        Ok(())
    }

    pub(super) fn int_or_string(&mut self, place: Place, span: Span<'a>) -> Result<(), DecodeError> {
        match int_or_string(place, span)? {
            IntOrString::Int(number) => self.sink.int(number.into()),
            IntOrString::String(text) => self.sink.string(&text.text()),
        }
        Ok(())
    }

    pub(super) fn json(&mut self, place: Place, span: Span<'a>) -> Result<(), DecodeError> {
        let Some(raw) = last(place, span, 1)?.filter(|raw| !raw.bytes.is_empty()) else {
            self.sink.null();
            return Ok(());
        };
        if self.nesting + nesting(raw.bytes) > NESTING {
            return Err(DecodeError::at(place, Problem::Nesting, raw.offset));
        }
        self.sink.json(raw.bytes).map_err(|error| DecodeError::at(place, Problem::Json(error), raw.offset))
    }

    /// A list of strings; without any it is only a list as the value of a map.
    pub(super) fn strings(&mut self, place: Place, span: Span<'a>, in_map: bool) -> Result<(), DecodeError> {
        let items = all(place, span, 1)?;
        if items.is_empty() && !in_map {
            self.sink.null();
            return Ok(());
        }
        self.string_list(place, span, &items)
    }

    fn string_list(&mut self, place: Place, span: Span<'a>, items: &[Span<'a>]) -> Result<(), DecodeError> {
        self.begin(place, span.offset)?;
        self.sink.begin_list();
        for item in items {
            self.sink.string(&item.text());
        }
        self.sink.end_list();
        self.nesting -= 1;
        Ok(())
    }

    pub(super) fn schema_or_array(&mut self, place: Place, field: Field, span: Span<'a>) -> Result<(), DecodeError> {
        let schemas = all(place, span, 2)?;
        if schemas.is_empty() {
            return self.schema(place, field, last(place, span, 1)?);
        }
        self.begin(place, span.offset)?;
        self.sink.begin_list();
        for schema in schemas {
            self.message(place, field.message(), schema)?;
        }
        self.sink.end_list();
        self.nesting -= 1;
        Ok(())
    }

    pub(super) fn schema_or_bool(&mut self, place: Place, field: Field, span: Span<'a>) -> Result<(), DecodeError> {
        match schema_or_bool(place, span)? {
            (_, Some(schema)) => self.message(place, field.message(), schema)?,
            (allows, None) => self.sink.bool(allows),
        }
        Ok(())
    }

    pub(super) fn schema_or_strings(&mut self, place: Place, field: Field, span: Span<'a>) -> Result<(), DecodeError> {
        let strings = all(place, span, 2)?;
        if strings.is_empty() {
            return self.schema(place, field, last(place, span, 1)?);
        }
        self.string_list(place, span, &strings)
    }

    fn schema(&mut self, place: Place, field: Field, schema: Option<Span<'a>>) -> Result<(), DecodeError> {
        match schema {
            Some(schema) => self.message(place, field.message(), schema),
            None => {
                self.sink.null();
                Ok(())
            }
        }
    }
}

/// The last value of a field of bytes.
pub(crate) fn last<'a>(place: Place, span: Span<'a>, number: u32) -> Result<Option<Span<'a>>, DecodeError> {
    let mut last = None;
    each_of(place, span, number, |value| last = Some(value))?;
    Ok(last)
}

/// The values of a field of bytes.
fn all<'a>(place: Place, span: Span<'a>, number: u32) -> Result<Vec<Span<'a>>, DecodeError> {
    let mut found = Vec::new();
    each_of(place, span, number, |value| found.push(value))?;
    Ok(found)
}

fn each_of<'a>(place: Place, span: Span<'a>, number: u32, mut take: impl FnMut(Span<'a>)) -> Result<(), DecodeError> {
    each(place, span, |token| {
        match token.value {
            Value::Bytes(value) if token.number == number => take(value),
            _ if token.number == number => return Err(wrong(place, token)),
            _ => {}
        }
        Ok(())
    })
}

/// The numbers of the fields 1 and 2.
pub(crate) fn numbers(place: Place, span: Span<'_>) -> Result<[u64; 2], DecodeError> {
    let mut found = [0; 2];
    each(place, span, |token| {
        match (token.number, token.value) {
            (number @ (1 | 2), Value::Varint(value)) => found[number as usize - 1] = value,
            (1 | 2, _) => return Err(wrong(place, token)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// The value of an `IntOrString`.
pub(crate) enum IntOrString<'a> {
    Int(i32),
    String(Span<'a>),
}

/// Reads an `IntOrString`, of which the last value of each field counts.
pub(crate) fn int_or_string(place: Place, span: Span<'_>) -> Result<IntOrString<'_>, DecodeError> {
    let (mut of, mut number, mut text) = (0, 0, Span::default());
    each(place, span, |token| {
        match (token.number, token.value) {
            (1, Value::Varint(found)) => of = found,
            (2, Value::Varint(found)) => number = found,
            (3, Value::Bytes(found)) => text = found,
            (1..=3, _) => return Err(wrong(place, token)),
            _ => {}
        }
        Ok(())
    })?;
    match of {
        0 => Ok(IntOrString::Int(number as i32)),
        1 => Ok(IntOrString::String(text)),
        other => Err(DecodeError::at(place, Problem::IntOrString(other), span.offset)),
    }
}

/// Reads a schema or a Boolean. The Boolean counts if there is no schema.
pub(crate) fn schema_or_bool(place: Place, span: Span<'_>) -> Result<(bool, Option<Span<'_>>), DecodeError> {
    let (mut allows, mut schema) = (false, None);
    each(place, span, |token| {
        match (token.number, token.value) {
            (1, Value::Varint(number)) => allows = number != 0,
            (2, Value::Bytes(found)) => schema = Some(found),
            (1 | 2, _) => return Err(wrong(place, token)),
            _ => {}
        }
        Ok(())
    })?;
    Ok((allows, schema))
}

pub(crate) fn each<'a>(
    place: Place,
    span: Span<'a>,
    mut take: impl FnMut(Token<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(span);
    loop {
        let offset = reader.offset();
        match reader.next().map_err(|problem| DecodeError::at(place, problem, offset))? {
            Some(token) => take(token)?,
            None => return Ok(()),
        }
    }
}

/// The maximum depth of objects and lists in JSON, valid or not.
pub(crate) fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn nesting_is_counted_outside_of_strings() {
        for (json, deep) in [("1", 0), ("{}", 1), (r#"{"a":[{}],"b":{}}"#, 3), (r#"["[[\"[["]"#, 1), ("]]][", 1)] {
            assert_eq!(nesting(json.as_bytes()), deep, "{json}");
        }
    }
}
