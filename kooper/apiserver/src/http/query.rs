//! The query of a request.

use std::borrow::Cow;

/// The parameters of a request, decoded, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        // The real server takes no semicolons, and leaves out what has one.
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key, true).into_owned(), decoded(value, true).into_owned())
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter; `None` when it is absent or empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let first = self.0.iter().find(|(name, _)| name == key);
        first.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub(crate) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let values: Vec<_> = self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect();
        values.into_iter()
    }

    /// A flag, as the API reads booleans: everything but `0` and `false`, in any case, is true. Clients in Python send
    /// `False`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        let first = self.0.iter().find(|(name, _)| name == key);
        first.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Decodes `%XX`, and `+` where it means a space.
pub(crate) fn decoded(text: &str, plus: bool) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == b'%' || plus && byte == b'+') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(high) << 4 | digit(low));
                rest = after;
            }
            (b'+', _) if plus => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db+c&watch&watch=false&empty=&bad=%zz");
        assert_eq!(query.get("labelSelector"), Some("a=b c"));
        assert!(query.flag("watch"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.get("bad"), Some("%zz"));
        for no in ["0", "false", "False", "FALSE"] {
            assert!(!Query::parse(&format!("watch={no}")).flag("watch"), "{no}");
        }
    }
}
