//! The Accept header: what the client wants, in its order, as the real server reads it.

use crate::protobuf;

/// Encodings of objects, in the order in which the real server prefers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => protobuf::CONTENT_TYPE,
        }
    }
}

/// One media range.
#[derive(Debug)]
pub(crate) struct Range<'a> {
    of: &'a str,
    subtype: &'a str,
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Range<'a> {
    /// The range of `text`; `None` where it is not one.
    fn parse(text: &'a str) -> Option<Self> {
        let trim = |text: &'a str| text.trim_matches(' ');
        let mut parts = trim(text).split(';');
        let whole = parts.next()?;
        let (of, subtype) = whole.split_once('/').unwrap_or((whole, ""));
        let (of, subtype) = match (trim(of), trim(subtype)) {
            ("*", "") => ("*", "*"),
            (_, "") => return None,
            both => both,
        };
        if subtype.contains('/') {
            return None;
        }
        let mut range = Self { of, subtype, quality: 1.0, parameters: Vec::new() };
        for part in parts {
            match part.split_once('=') {
                Some((_, value)) if value.is_empty() || value.contains('=') => {}
                Some((name, value)) if trim(name) == "q" => range.quality = value.parse().unwrap_or(0.0),
                Some((name, value)) => range.parameters.push((trim(name), trim(value))),
                None => {}
            }
        }
        Some(range)
    }

    /// The last value of a parameter.
    pub(crate) fn parameter(&self, wanted: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    }

    /// Returns the group, version and kind into which the client wants objects converted, if any.
    pub(crate) fn form(&self) -> Option<[&'a str; 3]> {
        let parts = ["g", "v", "as"].map(|name| self.parameter(name));
        parts.iter().any(Option::is_some).then(|| parts.map(Option::unwrap_or_default))
    }

    fn includes(&self, encoding: Encoding) -> bool {
        match (self.of, self.subtype) {
            ("*", "*") | ("application", "*") => true,
            (of, subtype) => encoding.media_type().split_once('/') == Some((of, subtype)),
        }
    }

    /// Returns whether this range precedes another one. As in Go's library, this is not an order.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality || self.of != "*" && other.of == "*" || self.subtype != "*" && other.subtype == "*"
    }
}

/// The first range and encoding that suit, by what `suits` makes of them.
pub(crate) fn negotiate<T>(header: &str, suits: impl Fn(&Range<'_>, Encoding) -> Option<T>) -> Option<T> {
    if header.is_empty() {
        return suits(&Range { of: "*", subtype: "*", quality: 1.0, parameters: Vec::new() }, Encoding::Json);
    }
    let mut ranges: Vec<_> = header.split(',').filter_map(Range::parse).collect();
    // As the real server sorts the few that there are.
    for from in 1..ranges.len() {
        let mut at = from;
        while at > 0 && ranges[at].precedes(&ranges[at - 1]) {
            ranges.swap(at, at - 1);
            at -= 1;
        }
    }
    ranges.iter().find_map(|range| {
        let mut included = Encoding::ALL.into_iter().filter(|encoding| range.includes(*encoding));
        included.find_map(|encoding| suits(range, encoding))
    })
}

/// Negotiates the encoding of objects that cannot be converted to another form, such as errors.
pub(crate) fn encoding(header: &str) -> Option<Encoding> {
    negotiate(header, |range, encoding| (range.form().is_none() && streams(range, encoding)).then_some(encoding))
}

/// Returns whether the header names one of these media types. The router of the real server checks
/// this before it negotiates the encoding.
pub(crate) fn names_any(header: &str, types: &[String]) -> bool {
    let mut named = header.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
    header.is_empty() || named.any(|name| name == "*/*" || types.iter().any(|served| served == name))
}

/// Returns whether the range's `stream` parameter can be satisfied in this encoding.
pub(crate) fn streams(range: &Range<'_>, encoding: Encoding) -> bool {
    match range.parameter("stream") {
        Some("watch") => encoding != Encoding::Yaml,
        None => true,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Json, Protobuf, Yaml};
    use super::encoding;

    #[test]
    fn the_first_of_the_best_ranges_that_are_served_counts() {
        for (header, expected) in [
            ("", Some(Json)),
            ("*", Some(Json)),
            ("application/json;stream=other, application/yaml", Some(Yaml)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1, application/vnd.kubernetes.protobuf", Some(Protobuf)),
            ("application", None),
            ("application/json/x", None),
            ("application/*, application/vnd.kubernetes.protobuf;q=0.1", Some(Protobuf)),
            ("application/json;q=0.5, application/vnd.kubernetes.protobuf", Some(Protobuf)),
            ("application/json;q=wrong, application/vnd.kubernetes.protobuf;q=0.1", Some(Protobuf)),
        ] {
            assert_eq!(encoding(header), expected, "{header}");
        }
    }
}
