//! The query of a request.

use percent_encoding::percent_decode_str;

/// The parameters of a request, decoded, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        // The real server takes no semicolons, and leaves out what has one.
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
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
