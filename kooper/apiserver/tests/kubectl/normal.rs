//! Normalization of values that differ between any two servers: times, versions,
//! uids and addresses.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Replaces what differs by names; the same uid gets the same name.
#[derive(Default)]
pub(crate) struct Normal {
    uids: HashMap<String, usize>,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a regular expression")
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));

static REPLACED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r#"(resourceVersion"?: *)"?\d+"?"#, "$1<version>"),
        (r"https://(127\.0\.0\.1|localhost):\d+", "<server>"),
        // The folder of the diff.
        (r"/\S*/(LIVE|MERGED)-\d+", "/$1"),
        (r"(?m)^((?:---|\+\+\+) \S+)\s.*$", "$1"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<suffix>"),
        // Ages of a few seconds, alone in a cell.
        (r"(?m)(^| {2,}|\t)(\d+m)?\d+s($| {2,}|\n)", "$1<age>$3"),
    ]
    .map(|(from, to)| (pattern(from), to))
    .into()
});

/// Widths of columns follow from what was replaced.
static SPACES: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\S) {2,}"));
static END: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)[ \t]+$"));

impl Normal {
    pub(crate) fn text(&mut self, text: &str) -> String {
        let named = UID.replace_all(text, |found: &Captures<'_>| {
            let next = self.uids.len() + 1;
            format!("<uid {}>", self.uids.entry(found[0].to_owned()).or_insert(next))
        });
        let mut text = named.into_owned();
        for (from, to) in REPLACED.iter() {
            text = from.replace_all(&text, *to).into_owned();
        }
        let text = SPACES.replace_all(&text, "$1  ");
        END.replace_all(&text, "").into_owned()
    }
}
