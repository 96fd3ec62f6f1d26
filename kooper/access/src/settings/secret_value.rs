//! A setting that must not be shown.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use kooper_runtime::internal::error::redaction::remember;

/// A setting that must not be shown, such as a token: a field of the program's
/// [settings](crate::Settings).
///
/// `Debug` hides it, and it has no `Display`. A value of at least six bytes that was
/// read as a setting, or parsed with `str::parse`, is replaced by `[redacted]`
/// wherever the log, Kubernetes Events, the status page or `/readyz` would show it. Beside the
/// field's own flag and variable, the program has ones that name a file with the value, so that it
/// can come from a mounted Secret: `--token-file FILE` for `--token`, and
/// `SHOP_TOKEN_FILE` for `SHOP_TOKEN`. The file is read once, at the start; a
/// line break at its end is not part of the value.
///
/// ```
/// use kooper::SecretValue;
///
/// #[derive(Debug, clap::Args)]
/// struct ShopSettings {
///     /// The token of the warehouse
///     #[arg(long, env = "SHOP_TOKEN")]
///     token: SecretValue,
/// }
///
/// let settings = ShopSettings { token: "s3cr3t".into() };
/// assert_eq!(settings.token.expose(), "s3cr3t");
/// assert_eq!(format!("{settings:?}"), "ShopSettings { token: SecretValue(…) }");
/// ```
#[derive(Clone, Default)]
pub struct SecretValue(String);

impl SecretValue {
    /// The value, in clear text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

impl From<String> for SecretValue {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for SecretValue {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl FromStr for SecretValue {
    type Err = Infallible;

    fn from_str(value: &str) -> Result<Self, Infallible> {
        remember(value);
        Ok(value.into())
    }
}
