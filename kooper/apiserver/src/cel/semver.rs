//! Semantic versions, as the library `blang/semver` reads and orders them.

use std::cmp::Ordering;

#[derive(Debug)]
pub(crate) struct Semver {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    pre: Vec<Part>,
}

/// A part of what follows the hyphen; numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match text {
            "" => r#"strconv.ParseUint: parsing "": invalid syntax"#.to_owned(),
            _ => format!("Invalid character(s) found in {name} number {text:?}"),
        });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{} number must not contain leading zeroes {text:?}", capital(name)));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn capital(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Semver {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<_> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "major")?, number(minor, "minor")?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "patch")?;
        let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(pre_part).collect())?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(part) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { major, minor, patch, pre })
    }

    /// Reads a version that may begin with `v`, be short, or have zeroes before its numbers.
    pub(super) fn parse_loosely(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(ToOwned::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let trimmed = part.trim_start_matches('0');
            let zero = if trimmed.starts_with(|char: char| char.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{trimmed}");
        }
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let numbers = (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch));
        numbers.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            // A version comes after what led to it.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        })
    }
}

fn pre_part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        let out = |_| format!("strconv.ParseUint: parsing {text:?}: value out of range");
        return text.parse().map(Part::Number).map_err(out);
    }
    if is_identifier(text) {
        return Ok(Part::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}
