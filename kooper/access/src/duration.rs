//! Durations in custom resources.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

use kooper_grammar::duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use kooper_grammar::duration::DurationError;

/// A duration in a custom resource, as a string such as `1h30m`: Kubernetes'
/// `metav1.Duration`, which is never negative.
///
/// The API server validates it by its schema, and CEL rules compare it with
/// other durations: `format: duration` makes it a duration for them.
///
/// ```
/// use std::time::Duration;
///
/// use kooper::GoDuration;
/// use kooper::kube::{CustomResource, KubeSchema};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
/// #[kube(group = "example.com", version = "v1", kind = "Backup", namespaced)]
/// struct BackupSpec {
///     #[x_kube(validation = ("self >= duration('1m')", "must be at least 1m"))]
///     every: GoDuration,
/// }
///
/// let spec: BackupSpec = serde_json::from_str(r#"{"every": "1h30m"}"#)?;
/// assert_eq!(*spec.every, Duration::from_secs(5400));
/// # Ok::<_, kooper::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

/// Numbers with units, as in Go, and no sign. The format alone also allows `3 days`.
const PATTERN: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

impl Deref for GoDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        match duration::parse(text) {
            Ok(duration) => Ok(Self(duration)),
            Err(DurationError::Zero(_)) => Ok(Self(Duration::ZERO)),
            Err(_) if text == "0" => Ok(Self(Duration::ZERO)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::format(self.0))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "duration", "pattern": PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_go_reads_and_writes_it_in_the_shortest_form() {
        for (text, written) in [
            ("1h30m", "1h30m"),
            ("90m", "1h30m"),
            ("1.5s", "1.5s"),
            (".5s", "500ms"),
            ("1µs", "1µs"),
            ("0", "0s"),
            ("0s", "0s"),
        ] {
            let read: GoDuration = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), written, "{text}");
        }
        for text in ["", "5", "-5s", "3 days", "1h 30m", "99999999999h"] {
            assert!(serde_json::from_value::<GoDuration>(text.into()).is_err(), "{text}");
        }
    }
}
