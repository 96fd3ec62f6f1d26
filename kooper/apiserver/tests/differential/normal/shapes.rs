//! The shapes of what servers choose by themselves: names, addresses, ports, uids and times.

/// A name that was generated from a base, `generated-` with or without a letter, and what is behind it.
pub(super) fn generated(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("generated-")?;
    let rest = match rest.as_bytes() {
        [letter, b'-', ..] if letter.is_ascii_lowercase() => &rest[2..],
        _ => rest,
    };
    let suffix = rest.get(..5)?;
    let random = suffix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    random.then(|| (&text[..text.len() - rest.len()], &rest[5..]))
}

/// The length of an address within the cluster, whose network is a setting of the server.
pub(super) fn address(text: &str) -> Option<usize> {
    let length = text.find(|char| !is_part(char)).unwrap_or(text.len());
    let address = text[..length].trim_end_matches('.');
    (address.starts_with("10.") && address.parse::<std::net::Ipv4Addr>().is_ok()).then_some(address.len())
}

pub(super) fn is_part(char: char) -> bool {
    char.is_ascii_digit() || char == '.'
}

/// One of the ports that nodes open, but for those that cases choose.
pub(super) fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| (30_086..32_768).contains(&port))
}

pub(super) fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Numbers with their units, such as `5s`, `2m52s` and `1y20d`.
pub(super) fn is_age(text: &str) -> bool {
    let mut parts = text.split_inclusive(|char: char| !char.is_ascii_digit());
    let is_part = |part: &str| part.len() > 1 && part.ends_with(['s', 'm', 'h', 'd', 'y']);
    !text.is_empty() && parts.all(is_part)
}

pub(super) fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00Z";
    text.bytes()
        .zip(shape.bytes())
        .all(|(byte, shape)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape })
}
