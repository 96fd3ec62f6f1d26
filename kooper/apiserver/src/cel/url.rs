//! URLs, as Go's package `net/url` reads them from a request.

use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(super) scheme: String,
    /// With the port.
    pub(super) host: String,
    /// As it is written, escaped.
    pub(super) path: String,
    query: String,
    /// The user, the opaque part and the fragment count where two are compared.
    rest: [String; 3],
}

/// Reads an absolute URL or an absolute path.
pub(super) fn parse_request(text: &str) -> Result<Url, String> {
    let bad = |why: &str| format!("parse {text:?}: {why}");
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(bad("net/url: invalid control character in URL"));
    }
    if text.is_empty() {
        return Err(bad("empty url"));
    }
    Url::read(text, true).map_err(|why| bad(&why))
}

/// Reads what [`parse_request`] has admitted; behind a `#` is the fragment.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let bad = |why: String| format!("parse {text:?}: {why}");
    let mut url = Url::read(before, false).map_err(bad)?;
    unescaped(fragment, false).map_err(bad)?;
    fragment.clone_into(&mut url.rest[2]);
    Ok(url)
}

impl Url {
    fn read(text: &str, request: bool) -> Result<Self, String> {
        let (scheme, rest) = scheme(text)?;
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
            rest: Default::default(),
        };
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.rest[1]);
                return Ok(url);
            }
            if request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if (!url.scheme.is_empty() || (!request && !rest.starts_with("///")))
            && let Some(authority) = rest.strip_prefix("//")
        {
            let end = authority.find('/').unwrap_or(authority.len());
            rest = &authority[end..];
            let (user, host) =
                authority[..end].rsplit_once('@').map_or((None, &authority[..end]), |(user, host)| (Some(user), host));
            if let Some(user) = user {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
                if !user.bytes().all(allowed) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                unescaped(user, false)?;
                user.clone_into(&mut url.rest[0]);
            }
            url.host = host_of(host)?;
        }
        unescaped(rest, false)?;
        url.path = escaped_path(rest);
        Ok(url)
    }

    /// The host without its port and brackets.
    pub(super) fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
            _ => &self.host,
        };
        if self.host.starts_with('[') {
            let end = self.host.rfind(']').unwrap_or(self.host.len());
            return &self.host[1..end];
        }
        host
    }

    pub(super) fn port(&self) -> &str {
        let after = self.host.rfind(']').map_or(&*self.host, |end| &self.host[end + 1..]);
        let port = after.rsplit_once(':').map_or("", |(_, port)| port);
        if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" }
    }

    /// The values of each parameter; those that are not escaped well are left out.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescaped(key, true), unescaped(value, true)) {
                all.entry(key).or_default().push(value);
            }
        }
        all
    }
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, char) in text.char_indices() {
        match char {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..index], &text[index + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn host_of(text: &str) -> Result<String, String> {
    let port = if text.starts_with('[') {
        let end = text.rfind(']').ok_or("missing ']' in host")?;
        &text[end + 1..]
    } else {
        text.find(':').map_or("", |index| &text[index..])
    };
    let digits = port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !(port.is_empty() || digits) {
        return Err(format!("invalid port {port:?} after host"));
    }
    for char in text.chars() {
        let allowed = char.is_ascii_alphanumeric() || !char.is_ascii() || "-_.~!$&'()*+,;=:[]<>\"%".contains(char);
        if !allowed {
            return Err(format!("invalid character {:?} in host name", char.to_string()));
        }
    }
    // In a host only bytes that are not ASCII may be escaped.
    let mut rest = text;
    while let Some(index) = rest.find('%') {
        let byte = rest.get(index + 1..index + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let shown = &rest[index..rest.len().min(index + 3)];
        if byte.is_none_or(|byte| byte < 0x80) && !text.starts_with('[') {
            return Err(format!("invalid URL escape {shown:?}"));
        }
        rest = &rest[index + 1..];
    }
    unescaped(text, false)
}

/// A text without escapes; in a query a plus is a space.
fn unescaped(text: &str, query: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let (mut out, mut index) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'%' => {
                let hex = bytes.get(index + 1..index + 3).and_then(|hex| std::str::from_utf8(hex).ok());
                let plain = hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let Some(decoded) = plain.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
                    let shown = String::from_utf8_lossy(&bytes[index..bytes.len().min(index + 3)]).into_owned();
                    return Err(format!("invalid URL escape {shown:?}"));
                };
                out.push(decoded);
                index += 3;
            }
            b'+' if query => {
                out.push(b' ');
                index += 1;
            }
            _ => {
                out.push(*byte);
                index += 1;
            }
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The path as it is written, if it is escaped well, and else with the escapes that it needs.
fn escaped_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte);
    if path.bytes().all(plain) {
        return path.to_owned();
    }
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    let decoded = unescaped(path, false).unwrap_or_default();
    let mut out = String::new();
    for byte in decoded.bytes() {
        match kept(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
