//! Expected values, learned from several histories without faults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::difference::{Divergence, Shortened, compare};
use super::normal::embedded;
use super::text::{Text, agreed, common_counts, counted, number, other_count};

/// The values that a field may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// This one.
    Same(Value),
    /// An object with these fields.
    Fields { named: BTreeMap<String, Self>, others: OtherFields },
    /// A list of these items.
    Items(Vec<Self>),
    /// A list of these items in any order: how often it has each.
    Unordered(BTreeMap<String, usize>),
    /// A list of any length that has these items, each so often.
    Having(BTreeMap<String, usize>),
    /// A list or an object as a text.
    Embedded(Box<Self>),
    /// Another text in each history.
    Text(Text),
    /// Anything of this type.
    Typed(&'static str),
    /// Anything.
    Any,
}

/// The fields that some histories have and others do not.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OtherFields {
    /// These ones, where they are.
    Optional(BTreeMap<String, Expected>),
    /// Their names are others in each history: their values, in order.
    Generated(Box<Expected>),
}

/// A field that cannot be compared whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartialField {
    pub(super) path: String,
    /// Description of the compared part; `None` if nothing is compared.
    pub(super) compared: Option<String>,
}

/// A number of names that no other history has: with so many, they are drawn by chance.
const DRAWN: usize = 3;

impl Expected {
    /// Learns from the values that a field has in several histories. Absent is `null`.
    pub(super) fn learn(values: &[&Value]) -> Self {
        let Some(first) = values.first() else { return Self::Any };
        if values.iter().all(|value| value == first) {
            return Self::Same((*first).clone());
        }
        if let Some(all) = all(values, |value| value.as_object()) {
            return Self::fields(&all);
        }
        if let Some(all) = all(values, |value| value.as_array()) {
            return Self::list(&all);
        }
        if let Some(texts) = all(values, |value| value.as_str()) {
            let inner = texts.iter().map(|text| embedded(text)).collect::<Option<Vec<_>>>();
            return match inner {
                Some(inner) => Self::Embedded(Box::new(Self::learn(&inner.iter().collect::<Vec<_>>()))),
                None => Self::Text(Text::learn(&texts)),
            };
        }
        agreed(values.iter().map(|value| type_of(value))).map_or(Self::Any, Self::Typed)
    }

    fn fields(all: &[&Map<String, Value>]) -> Self {
        let names: BTreeSet<_> = all.iter().flat_map(|fields| fields.keys()).collect();
        let having = |name: &str| all.iter().filter_map(|fields| fields.get(name)).collect::<Vec<_>>();
        let (in_all, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| having(name).len() == all.len());
        let learned = |names: Vec<&String>| -> BTreeMap<_, _> {
            names.into_iter().map(|name| (name.clone(), Self::learn(&having(name)))).collect()
        };
        let unique = others.iter().filter(|name| having(name).len() == 1).count();
        let number = agreed(all.iter().map(|fields| fields.len()));
        let is_drawn = !others.is_empty() && (number.is_some() || unique >= DRAWN);
        let others = if is_drawn {
            let values = all.iter().map(|fields| others_of(fields, |name| others.iter().any(|other| *other == name)));
            let values: Vec<_> = values.collect();
            OtherFields::Generated(Box::new(Self::learn(&values.iter().collect::<Vec<_>>())))
        } else {
            OtherFields::Optional(learned(others))
        };
        Self::Fields { named: learned(in_all), others }
    }

    fn list(all: &[&Vec<Value>]) -> Self {
        let counts: Vec<_> = all.iter().map(|items| counted(items.iter().map(Value::to_string))).collect();
        if let Some(counts) = agreed(counts.iter()) {
            return Self::Unordered(counts.clone());
        }
        match agreed(all.iter().map(|items| items.len())) {
            Some(number) => {
                let nth = |at: usize| Self::learn(&all.iter().map(|items| &items[at]).collect::<Vec<_>>());
                Self::Items((0..number).map(nth).collect())
            }
            None => Self::Having(common_counts(&counts)),
        }
    }

    /// Reports where another value differs.
    pub(super) fn compare(&self, path: String, found: &Value, differs: &mut impl FnMut(Divergence)) {
        let mut other = |what: String| differs(Divergence::PartialField { path: path.clone(), what });
        let is_instead_of = |what: &str| format!("is {} instead of {what}", Shortened(found));
        match (self, found) {
            (Self::Same(expected), _) => compare(path, expected, found, differs),
            (Self::Fields { named, others }, Value::Object(fields)) => {
                let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                for (name, expected) in named {
                    expected.compare(below(name), &found[name.as_str()], differs);
                }
                match others {
                    OtherFields::Generated(expected) => {
                        let values = others_of(fields, |name| !named.contains_key(name));
                        expected.compare(below("…"), &values, differs);
                    }
                    OtherFields::Optional(optional) => {
                        for (name, value) in fields.iter().filter(|(name, _)| !named.contains_key(*name)) {
                            let expected = optional.get(name).unwrap_or(&Self::Same(Value::Null));
                            expected.compare(below(name), value, differs);
                        }
                    }
                }
            }
            (Self::Fields { .. }, _) => other(is_instead_of("an object")),
            (Self::Items(expected), Value::Array(items)) if expected.len() != items.len() => {
                other(format!("has {} instead of {}", number(items.len(), "item"), expected.len()));
            }
            (Self::Items(expected), Value::Array(items)) => {
                for (index, (expected, found)) in expected.iter().zip(items).enumerate() {
                    expected.compare(format!("{path}[{index}]"), found, differs);
                }
            }
            (Self::Unordered(expected) | Self::Having(expected), Value::Array(items)) => {
                let found = counted(items.iter().map(Value::to_string));
                let is_whole = matches!(self, Self::Unordered(_));
                let all = expected.keys().chain(found.keys().filter(|_| is_whole));
                other_count(all, expected, &found).into_iter().for_each(other);
            }
            (Self::Items(_) | Self::Unordered(_) | Self::Having(_), _) => other(is_instead_of("a list")),
            (Self::Embedded(expected), _) => match found.as_str().and_then(embedded) {
                Some(found) => expected.compare(path, &found, differs),
                None => other(is_instead_of("a list or an object")),
            },
            (Self::Text(expected), Value::String(text)) => expected.difference(text).into_iter().for_each(other),
            (Self::Text(_), _) => other(is_instead_of("a text")),
            (Self::Typed(expected), _) if *expected != type_of(found) => other(is_instead_of(expected)),
            (Self::Typed(_) | Self::Any, _) => {}
        }
    }

    /// Returns whether at least a part of the value is compared.
    pub(super) fn is_compared(&self) -> bool {
        match self {
            Self::Same(_) | Self::Unordered(_) => true,
            Self::Fields { named, others } => {
                let drawn =
                    |others: &OtherFields| matches!(others, OtherFields::Generated(expected) if expected.is_compared());
                named.values().any(Self::is_compared) || drawn(others)
            }
            Self::Items(items) => items.iter().any(Self::is_compared),
            Self::Having(items) => !items.is_empty(),
            Self::Embedded(inner) => inner.is_compared(),
            Self::Text(text) => text.compared().is_some(),
            Self::Typed(_) | Self::Any => false,
        }
    }

    /// The fields below it that are not compared whole.
    pub(super) fn partial_fields(&self, path: &str, found: &mut Vec<PartialField>) {
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let mut only = |compared: Option<String>| found.push(PartialField { path: path.to_owned(), compared });
        match self {
            Self::Same(_) => {}
            Self::Fields { named, others } => {
                named.iter().for_each(|(name, one)| one.partial_fields(&below(name), found));
                match others {
                    OtherFields::Generated(expected) => expected.partial_fields(&below("…"), found),
                    OtherFields::Optional(fields) => {
                        let absent = |name: &String| PartialField { path: below(name), compared: None };
                        found.extend(fields.keys().map(absent));
                    }
                }
            }
            Self::Items(items) => {
                items.iter().enumerate().for_each(|(at, one)| one.partial_fields(&format!("{path}[{at}]"), found));
            }
            Self::Unordered(_) => only(Some("its items".to_owned())),
            Self::Having(items) if !items.is_empty() => only(Some(number(items.values().sum(), "item"))),
            Self::Embedded(inner) => inner.partial_fields(path, found),
            Self::Text(text) => only(text.compared()),
            Self::Having(_) | Self::Typed(_) | Self::Any => only(None),
        }
    }
}

/// The values as one type, if all of them have it.
fn all<'a, T: ?Sized>(values: &[&'a Value], as_type: impl Fn(&'a Value) -> Option<&'a T>) -> Option<Vec<&'a T>> {
    values.iter().map(|value| as_type(value)).collect()
}

/// The values of some fields, in an order that their names have no part in.
fn others_of(fields: &Map<String, Value>, is_other: impl Fn(&str) -> bool) -> Value {
    let mut values: Vec<_> = fields.iter().filter(|(name, _)| is_other(name)).map(|(_, value)| value.clone()).collect();
    values.sort_by_cached_key(Value::to_string);
    values.into()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Expected, PartialField};

    fn differences(learned: &[Value], found: &Value) -> Vec<String> {
        let mut all = Vec::new();
        let learned: Vec<_> = learned.iter().collect();
        Expected::learn(&learned).compare("at".to_owned(), found, &mut |one| all.push(one.of("A b", None).to_string()));
        all
    }

    #[test]
    fn the_order_of_a_list_is_not_compared_where_it_differs_and_its_items_are() {
        let learned = [json!(["a", "b"]), json!(["b", "a"])];
        assert_eq!(differences(&learned, &json!(["b", "a"])), Vec::<String>::new());
        let doubled = differences(&learned, &json!(["b", "a", "b"]));
        assert_eq!(doubled, ["`at` of `A b` has `\"b\"` 2 times instead of 1"]);
        assert_eq!(differences(&learned[..1], &learned[1]).len(), 2);
    }

    #[test]
    fn of_a_list_whose_items_are_by_chance_the_length_and_what_is_common_are_compared() {
        let learned = [json!([1, {"a": 2, "b": 3}]), json!([4, {"a": 5, "b": 3}])];
        assert_eq!(differences(&learned, &json!([6, {"a": 7, "b": 3}])), Vec::<String>::new());
        let other = differences(&learned, &json!([6, {"a": "7", "b": 4}]));
        let expected =
            ["`at[1].a` of `A b` is `\"7\"` instead of a number", "`at[1].b` of `A b` is `4` instead of `3`"];
        assert_eq!(other, expected);
        assert_eq!(differences(&learned, &json!([6])), ["`at` of `A b` has 1 item instead of 2"]);
        let learned = [json!(["first", 1]), json!(["first", 2, 3])];
        assert_eq!(differences(&learned, &json!(["first"])), Vec::<String>::new());
        let doubled = differences(&learned, &json!(["first", "first"]));
        assert_eq!(doubled, ["`at` of `A b` has `\"first\"` 2 times instead of 1"]);
    }

    #[test]
    fn names_of_fields_that_are_drawn_by_chance_are_counted_and_others_are_not_accepted() {
        let drawn = [json!({"k": 1, "x7": "a"}), json!({"k": 1, "y8": "a"})];
        assert_eq!(differences(&drawn, &json!({"k": 1, "z9": "a"})), Vec::<String>::new());
        assert_eq!(differences(&drawn, &json!({"k": 1, "z9": "a", "z8": "a"})).len(), 1);
        assert_eq!(differences(&drawn, &json!({"k": 2, "z9": "a"})), ["`at.k` of `A b` is `2` instead of `1`"]);
        let optional = [json!({"k": 1}), json!({"k": 1, "late": 2})];
        assert_eq!(differences(&optional, &json!({"k": 1, "late": 2})), Vec::<String>::new());
        let other = differences(&optional, &json!({"k": 1, "later": 2}));
        assert_eq!(other, ["`at.later` of `A b` is `2` instead of absent"]);
    }

    #[test]
    fn a_json_document_in_a_text_is_compared_field_by_field() {
        let text = |at: u64, size: u64| json!(format!(r#"{{"at":{at},"size":{size}}}"#));
        let learned = [text(1, 5), text(2, 5)];
        assert_eq!(differences(&learned, &text(3, 5)), Vec::<String>::new());
        assert_eq!(differences(&learned, &text(3, 6)), ["`at.size` of `A b` is `6` instead of `5`"]);
    }

    #[test]
    fn what_is_not_compared_whole_is_listed() {
        let (one, other) = (json!({"a": 1, "b": [1], "c": "1234", "d": 0}), json!({"a": 2, "b": [1], "c": "abcd"}));
        let expected = Expected::learn(&[&one, &other]);
        let mut listed = Vec::new();
        expected.partial_fields("", &mut listed);
        let partial_fields = |path: &str, compared: Option<&str>| PartialField {
            path: path.to_owned(),
            compared: compared.map(str::to_owned),
        };
        assert_eq!(listed, [partial_fields("a", None), partial_fields("c", Some("1 line")), partial_fields("d", None)]);
        assert!(expected.is_compared() && !Expected::learn(&[&json!(1), &json!(2)]).is_compared());
    }
}
