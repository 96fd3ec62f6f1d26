//! Functions of texts. Positions count characters.

use super::text::format;
use super::{Evaluated, net, no_overload};
use crate::cel::value::Value;
use crate::escape::quote;

/// Calls a function whose first argument is a text.
pub(super) fn call(name: &str, text: &str, args: &[Value]) -> Evaluated {
    match (name, args) {
        ("size", []) => Ok(Value::Int(text.chars().count() as i64)),
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(at)]) => {
            let chars: Vec<_> = text.chars().collect();
            let at = usize::try_from(*at).ok().filter(|at| *at <= chars.len()).ok_or_else(|| out_of_range(*at))?;
            Ok(chars.get(at).map_or_else(String::new, char::to_string).into())
        }
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => {
            let length = text.chars().count() as i64;
            match part.is_empty() {
                true => Ok(Value::Int(length)),
                false if text.len() < part.len() => Ok(Value::Int(-1)),
                false => last_index_of(text, part, length - 1),
            }
        }
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => last_index_of(text, part, *from),
        ("lowerAscii", []) => Ok(text.to_ascii_lowercase().into()),
        ("upperAscii", []) => Ok(text.to_ascii_uppercase().into()),
        ("trim", []) => Ok(text.trim().into()),
        ("replace", [Value::String(old), Value::String(new)]) => Ok(text.replace(&**old, new).into()),
        ("replace", [Value::String(old), Value::String(new), Value::Int(most)]) => Ok(match usize::try_from(*most) {
            Ok(most) => text.replacen(&**old, new, most).into(),
            Err(_) => text.replace(&**old, new).into(),
        }),
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(most)]) => Ok(split(text, separator, *most)),
        ("substring", [Value::Int(start)]) => {
            let length = text.chars().count() as i64;
            if (0..=length).contains(start) { Ok(between(text, *start, length)) } else { Err(out_of_range(*start)) }
        }
        ("substring", [Value::Int(start), Value::Int(end)]) => {
            let range = 0..=text.chars().count() as i64;
            if start > end {
                return Err(format!("invalid substring range. start: {start}, end: {end}"));
            }
            match [start, end].into_iter().find(|at| !range.contains(at)) {
                Some(at) => Err(out_of_range(*at)),
                None => Ok(between(text, *start, *end)),
            }
        }
        ("format", [Value::List(list)]) => format(text, &list.items).map(Value::from),
        ("strings.quote", []) => Ok(quote(text, |char, out| out.push(char)).into()),
        _ => net::of_text(name, text, args).unwrap_or_else(no_overload),
    }
}

fn out_of_range(index: i64) -> String {
    format!("index out of range: {index}")
}

fn between(text: &str, start: i64, end: i64) -> Value {
    let skipped = usize::try_from(start).unwrap_or_default();
    text.chars().skip(skipped).take(usize::try_from(end - start).unwrap_or_default()).collect::<String>().into()
}

fn index_of(text: &str, part: &str, from: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let from = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (text, part): (Vec<_>, Vec<_>) = (text.chars().collect(), part.chars().collect());
    let found = text.windows(part.len()).enumerate().skip(from).find(|(_, window)| *window == part);
    Ok(Value::Int(found.map_or(-1, |(index, _)| index as i64)))
}

fn last_index_of(text: &str, part: &str, from: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let from = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (text, part): (Vec<_>, Vec<_>) = (text.chars().collect(), part.chars().collect());
    if from >= text.len() {
        return Ok(Value::Int(-1));
    }
    let found = text.windows(part.len()).enumerate().take(from + 1).rfind(|(_, window)| *window == part);
    Ok(Value::Int(found.map_or(-1, |(index, _)| index as i64)))
}

/// At most so many parts; all of them for a negative number.
fn split(text: &str, separator: &str, most: i64) -> Value {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<Value> = match separator {
        _ if most == 0 => Vec::new(),
        // Every character is a part.
        "" => {
            let chars: Vec<_> = text.chars().collect();
            let alone = chars.len().min(most.saturating_sub(usize::from(chars.len() > most)));
            let mut parts: Vec<_> = chars[..alone].iter().map(|char| char.to_string().into()).collect();
            if alone < chars.len() {
                parts.push(chars[alone..].iter().collect::<String>().into());
            }
            parts
        }
        _ => text.splitn(most, separator).map(Value::from).collect(),
    };
    parts.into()
}
