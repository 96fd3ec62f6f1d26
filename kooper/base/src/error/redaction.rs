//! Secrets in texts for people: the values of secret settings, and the user information
//! of URLs.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Shorter values are not replaced: they are part of other words.
const SHORTEST: usize = 6;

/// The ways in which the known secrets are written, the longest first: one may contain
/// another.
static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// `true` if any secret is known. It is checked first to avoid the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// Makes a secret known, for as long as the process runs. Values of settings are few.
pub fn remember(secret: &str) {
    if secret.len() < SHORTEST {
        return;
    }
    let mut known = KNOWN.write();
    for written in written(secret) {
        if !known.contains(&written) {
            known.push(written);
        }
    }
    known.sort_by_key(|written| std::cmp::Reverse(written.len()));
    ANY.store(true, Ordering::Release);
}

/// A secret as it is, within a string of JSON, with `Debug`, and in the lines of a log.
fn written(secret: &str) -> [String; 4] {
    let json = serde_json::to_string(secret).unwrap_or_default();
    let debugged = format!("{secret:?}");
    let unquoted = |text: &str| text.get(1..text.len() - 1).unwrap_or_default().to_owned();
    [secret.to_owned(), unquoted(&json), unquoted(&debugged), secret.replace('\n', "\n    ")]
}

/// The text without known secrets, and without the user information of URLs. A text that
/// is to be cut is redacted before: half a secret is not found.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    if ANY.load(Ordering::Acquire) {
        for secret in &*KNOWN.read() {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), REDACTED));
            }
        }
    }
    if text.contains("://")
        && let Some(without) = without_user_information(&text)
    {
        text = Cow::Owned(without);
    }
    text
}

/// The text without what is before the `@` of URLs; `None` if there is none.
fn without_user_information(text: &str) -> Option<String> {
    const END: [char; 11] = ['/', '?', '#', '"', '\'', '`', '<', '>', '\\', ',', ';'];
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|char: char| char.is_whitespace() || END.contains(&char)).unwrap_or(after.len());
        let authority = after.get(..end).unwrap_or_default();
        shown.push_str(before);
        shown.push_str("://");
        rest = after;
        if let Some((_, host)) = authority.rsplit_once('@')
            // The digest of an image, which container runtimes write like a URL.
            && !host.starts_with("sha256:")
        {
            shown.push_str(REDACTED);
            rest = after.get(end - host.len() - 1..).unwrap_or_default();
        }
    }
    shown.push_str(rest);
    (shown != text).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_information_of_urls_is_not_shown() {
        for (text, expected) in [
            ("", ""),
            ("no URL", "no URL"),
            ("https://shop/a@b", "https://shop/a@b"),
            ("https://shop.example.com:6443/?q=a@b", "https://shop.example.com:6443/?q=a@b"),
            ("see http://shop, or mail me@shop", "see http://shop, or mail me@shop"),
            ("docker-pullable://nginx@sha256:ab", "docker-pullable://nginx@sha256:ab"),
            ("cannot reach postgres://me:p@ss@db:5432/shop: no", "cannot reach postgres://[redacted]@db:5432/shop: no"),
            ("\"amqp://me@mq\" and https://a:b@[::1]/", "\"amqp://[redacted]@mq\" and https://[redacted]@[::1]/"),
            ("://", "://"),
            ("a://@b é://ü@ö", "a://[redacted]@b é://[redacted]@ö"),
        ] {
            assert_eq!(redact(text), expected);
        }
        assert!(matches!(redact("https://shop/"), Cow::Borrowed(_)), "what has nothing to hide is not copied");
    }

    #[test]
    fn a_known_secret_is_not_shown_however_it_is_written() {
        let secret = "kq-\"7f3a\"\\\nline é";
        remember("kq-\"7f3a\"");
        remember(secret);
        remember(secret);
        remember("kq");
        for text in [
            secret.to_owned(),
            serde_json::json!({"token": [secret]}).to_string(),
            format!("{:?}", [secret]),
            secret.replace('\n', "\n    "),
        ] {
            let shown = redact(&text);
            assert!(shown.contains(REDACTED) && !shown.contains("7f3a") && !shown.contains("line"), "{shown}");
        }
        assert_eq!(redact("kq and kq-7"), "kq and kq-7", "what is too short is part of other words");
    }
}
