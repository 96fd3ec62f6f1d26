//! Names that Kubernetes accepts.

use std::error::Error;
use std::fmt;

/// Checks a DNS-1123 label: lower-case letters, digits and `-`, at most 63 characters.
///
/// # Errors
///
/// If the string is not such a label.
pub fn label(text: &str) -> Result<(), NameError> {
    check(text, Form::Label, 63, is_label)
}

/// Checks a DNS-1123 subdomain: parts as in labels, but of any length, joined by `.`; at most 253 characters.
///
/// # Errors
///
/// If the string is not such a name.
pub fn subdomain(text: &str) -> Result<(), NameError> {
    check(text, Form::Subdomain, 253, |text| text.split('.').all(is_part))
}

/// Checks the name of an object: a DNS-1123 subdomain, or several of them joined by `:`, as in the names of roles.
///
/// # Errors
///
/// If the string is not such a name.
pub fn object(text: &str) -> Result<(), NameError> {
    check(text, Form::Object, 253, |text| text.split([':', '.']).all(is_part))
}

/// Checks a qualified name, the key of a label: `app` or `example.com/app`.
///
/// # Errors
///
/// If the string is not such a name.
pub fn qualified(text: &str) -> Result<(), NameError> {
    prefixed(text, Form::Qualified)
}

/// Checks a finalizer: a DNS name, a slash and a name, such as `shop.example.com/cleanup`.
///
/// # Errors
///
/// If the string is not such a name.
pub fn finalizer(text: &str) -> Result<(), NameError> {
    if !text.contains('/') {
        return Err(NameError::Invalid { input: text.to_owned(), form: Form::Finalizer });
    }
    prefixed(text, Form::Finalizer)
}

/// Checks the value of a label: empty, or letters, digits, `-`, `_` and `.`.
///
/// # Errors
///
/// If the string is not such a value.
pub fn label_value(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Ok(());
    }
    check(text, Form::LabelValue, 63, is_word)
}

/// Converts a Rust identifier to kebab case: `echo_pod`, `EchoPod` and `r#echo_pod` become
/// `echo-pod`.
#[must_use]
pub fn kebab(ident: &str) -> String {
    let ident = ident.strip_prefix("r#").unwrap_or(ident);
    let letters: Vec<char> = ident.chars().collect();
    let mut name = String::with_capacity(ident.len() + 4);
    for (i, &c) in letters.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| letters.get(i));
        let after = letters.get(i + 1);
        let starts_a_word = c.is_uppercase()
            && before.is_some_and(|b| {
                b.is_lowercase() || b.is_numeric() || (b.is_uppercase() && after.is_some_and(|a| a.is_lowercase()))
            });
        let separates = c == '_' || c == '-';
        if (separates || starts_a_word) && !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if !separates {
            name.extend(c.to_lowercase());
        }
    }
    name.truncate(name.trim_end_matches('-').len());
    name
}

/// The expected form of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// A DNS-1123 label.
    Label,
    /// A DNS-1123 subdomain.
    Subdomain,
    /// The name of an object.
    Object,
    /// A qualified name.
    Qualified,
    /// A finalizer.
    Finalizer,
    /// The value of a label.
    LabelValue,
}

/// Why a string is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The string, or the part that is limited, is too long.
    TooLong {
        /// The string.
        input: String,
        /// The expected form.
        form: Form,
        /// The most characters that are allowed.
        most: usize,
    },
    /// The string has an invalid character, or a required one is missing.
    Invalid {
        /// The string.
        input: String,
        /// The expected form.
        form: Form,
    },
}

impl NameError {
    fn of(input: &str, form: Form, most: usize, part: &str) -> Self {
        let input = input.to_owned();
        if part.len() > most { Self::TooLong { input, form, most } } else { Self::Invalid { input, form } }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { input, form, most } => {
                write!(f, "\"{input}\" is too long for {form}: ")?;
                let prefixed = matches!(form, Form::Qualified | Form::Finalizer) && input.contains('/');
                match (prefixed, most) {
                    (false, _) => write!(f, "write at most {most} characters, it has {}", input.len()),
                    (true, 63) => write!(f, "write at most {most} characters after the `/`"),
                    (true, _) => write!(f, "write at most {most} characters before the `/`"),
                }
            }
            Self::Invalid { input, form } => {
                let rule = match form {
                    Form::Label => {
                        "write lower-case letters, digits and `-`, beginning and ending with a letter or digit"
                    }
                    Form::Subdomain => "write lower-case letters, digits, `-` and `.`, such as `example.com`",
                    Form::Object => "write lower-case letters, digits, `-` and `.`, or `:` as in the name of a role",
                    Form::Qualified => "write a name such as `app` or `example.com/app`",
                    Form::Finalizer => "write your own domain, a slash and a name, such as `shop.example.com/cleanup`",
                    Form::LabelValue => {
                        "write letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit"
                    }
                };
                write!(f, "\"{input}\" is not {form}: {rule}")
            }
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Label => "a DNS label",
            Self::Subdomain => "a DNS name",
            Self::Object => "the name of an object",
            Self::Qualified => "a label key",
            Self::Finalizer => "a finalizer",
            Self::LabelValue => "a label value",
        })
    }
}

impl Error for NameError {}

/// A word after a DNS name and a slash, both of which are optional.
fn prefixed(text: &str, form: Form) -> Result<(), NameError> {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            subdomain(prefix).map_err(|_| NameError::of(text, form, 253, prefix))?;
            name
        }
        None => text,
    };
    if name.len() <= 63 && is_word(name) { Ok(()) } else { Err(NameError::of(text, form, 63, name)) }
}

fn check(text: &str, form: Form, most: usize, valid: impl Fn(&str) -> bool) -> Result<(), NameError> {
    if text.len() <= most && valid(text) { Ok(()) } else { Err(NameError::of(text, form, most, text)) }
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// A label of any length.
fn is_part(text: &str) -> bool {
    framed(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-')
}

fn is_word(text: &str) -> bool {
    framed(text, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

/// Returns `true` if the string begins and ends with an outer byte and has only outer and
/// inner ones.
fn framed(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&b| outer(b))
        && bytes.last().is_some_and(|&b| outer(b))
        && bytes.iter().all(|&b| outer(b) || inner(b))
}
