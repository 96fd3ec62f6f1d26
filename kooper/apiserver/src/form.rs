//! The forms that names and other strings have, with the API's messages.

/// Why a string does not have a form; nothing where it has.
pub(crate) type Check = fn(&str) -> Vec<String>;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                        consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
                        (e.g. '*.example.com', regex used for validation is \
                        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                          or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                      for validation is '[-A-Za-z0-9]+')";

fn too_long(text: &str, most: usize, unit: &str) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} {unit}"))
}

/// The violations, each with its message. That of the length comes first.
fn list<const N: usize>(length: Option<String>, found: [(bool, &str); N]) -> Vec<String> {
    let found = found.into_iter().filter(|(violated, _)| *violated).map(|(_, why)| why.to_owned());
    length.into_iter().chain(found).collect()
}

fn is_label(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && outer(text.as_bytes().first())
        && outer(text.as_bytes().last())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let why = if is_subdomain(text) { "must not contain dots" } else { LABEL };
    list(too_long(text, 63, "characters"), [(!is_label(text), why)])
}

pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    const WHY: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                       character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                       validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let valid = is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase());
    list(too_long(text, 63, "characters"), [(!valid, WHY)])
}

pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    list(too_long(text, 253, "characters"), [(!is_subdomain(text), SUBDOMAIN)])
}

pub(crate) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let valid = text.strip_prefix("*.").is_some_and(is_subdomain);
    list(too_long(text, 253, "characters"), [(!valid, WILDCARD)])
}

/// The name of a port of a container or a service's target.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let violations = [
        (
            text.is_empty() || !text.bytes().all(known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    list(too_long(text, 15, "characters"), violations)
}

/// The key of an entry of a ConfigMap or a Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let violations = [
        (text.is_empty() || !text.bytes().all(known), CONFIG_KEY),
        (text == ".", "must not be '.'"),
        (text == "..", "must not be '..'"),
        (text != ".." && text.starts_with(".."), "must not start with '..'"),
    ];
    list(too_long(text, 253, "characters"), violations)
}

pub(crate) fn env_name(text: &str) -> Vec<String> {
    let printable = |char: char| char == ' ' || char.is_ascii_graphic();
    list(None, [(text.chars().any(|char| !printable(char) || char == '='), ENV_NAME)])
}

pub(crate) fn http_header(text: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    list(None, [(text.is_empty() || !text.bytes().all(known), HEADER)])
}

/// The names of roles and bindings: a segment of a path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    let violations = [
        (text == ".", "may not be '.'"),
        (text == "..", "may not be '..'"),
        (text.contains('/'), "may not contain '/'"),
        (text.contains('%'), "may not contain '%'"),
    ];
    list(None, violations)
}

/// The key of a label: a name, perhaps with a domain before it.
pub(crate) fn qualified(text: &str) -> Vec<String> {
    const PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                        is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let (prefix, name) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            return vec![format!(
                "a valid label key {PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut found = Vec::new();
    match prefix {
        Some("") => found.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => found.extend(dns_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}"))),
        None => {}
    }
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else {
        found.extend(too_long(name, 63, "bytes").map(|why| format!("name part {why}")));
    }
    if name.is_empty() || !is_name(name) {
        found.push(format!("name part {PART}"));
    }
    found
}

/// Letters, digits and `-`, `_`, `.` between letters and digits; or nothing.
fn is_name(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && outer(text.as_bytes().first())
        && outer(text.as_bytes().last())
}

pub(crate) fn label_value(text: &str) -> Vec<String> {
    const WHY: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                       must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                       regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    list(too_long(text, 63, "bytes"), [(!is_name(text), WHY)])
}

/// A path inside a volume.
pub(crate) fn descending_path(text: &str) -> Vec<String> {
    let violations = [
        (text.starts_with('/'), "must be a relative path"),
        (text.split('/').any(|part| part == ".."), "must not contain '..'"),
    ];
    list(None, violations)
}
