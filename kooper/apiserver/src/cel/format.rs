//! The formats that `format.named` and its like know.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::time::Time;
use super::url;
use crate::form;

#[derive(Debug)]
pub(crate) struct Format {
    pub(super) name: &'static str,
    check: fn(&str) -> Vec<String>,
}

impl Format {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Why a text does not have the format; nothing where it has.
    pub(crate) fn violations(&self, text: &str) -> Vec<String> {
        (self.check)(text)
    }
}

static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", check: form::dns_label },
    Format { name: "dns1123Subdomain", check: form::dns_subdomain },
    Format { name: "dns1035Label", check: label_1035 },
    Format { name: "qualifiedName", check: form::qualified },
    Format { name: "dns1123LabelPrefix", check: |text| form::dns_label(&masked(text)) },
    Format { name: "dns1123SubdomainPrefix", check: |text| form::dns_subdomain(&masked(text)) },
    Format { name: "dns1035LabelPrefix", check: |text| label_1035(&masked(text)) },
    Format { name: "labelValue", check: form::label_value },
    Format { name: "uri", check: |text| url::parse_request(text).err().into_iter().collect() },
    Format { name: "uuid", check: |text| unless(is_uuid(text), "does not match the UUID format") },
    Format { name: "byte", check: |text| unless(bytes(text).is_some(), "invalid base64") },
    Format { name: "date", check: |text| unless(Time::of_date(text).is_some(), "invalid date") },
    Format { name: "datetime", check: |text| unless(is_date_time(text), "invalid datetime") },
];

fn unless(fits: bool, why: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![why.to_owned()] }
}

/// A prefix of a name may end with a hyphen, as something follows it.
fn masked(prefix: &str) -> String {
    match prefix.char_indices().rev().nth(1) {
        Some((index, before)) if before != '-' && prefix.ends_with('-') => format!("{}a", &prefix[..index]),
        _ => prefix.to_owned(),
    }
}

fn label_1035(text: &str) -> Vec<String> {
    const WHY: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                       regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let mut found = Vec::new();
    if text.len() > 63 {
        found.push("must be no more than 63 characters".to_owned());
    }
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let fits = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(inner)
        && bytes.last().is_some_and(|byte| *byte != b'-');
    found.extend(unless(fits, WHY));
    found
}

/// Hexadecimal digits, with or without hyphens.
fn is_uuid(text: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut rest = text;
    for (index, length) in GROUPS.into_iter().enumerate() {
        rest = if index > 0 { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
        match rest.split_at_checked(length) {
            Some((group, after)) if group.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Base64 with its padding; Go overlooks line breaks.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true);
    let plain = text.replace(['\r', '\n'], "");
    GeneralPurpose::new(&STANDARD, config).decode(plain).ok()
}

fn is_date_time(text: &str) -> bool {
    matches!(Time::parse(text), Some(Ok(_)))
}
