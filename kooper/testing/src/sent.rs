//! Recorded requests.

use std::fmt;

use http::request::Parts;
use http::{Method, header::CONTENT_TYPE};
use serde::de::DeserializeOwned;
use serde_json::Value;

use kooper_runtime::{Kind, ObjectKey, Result};

/// A request that was sent to a [`FakeCluster`](super::FakeCluster).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sent {
    /// The verb of the rule, such as `get`, `create`, `patch` or `delete`;
    /// `apply` for a server-side apply.
    pub verb: &'static str,
    /// The API group; the core group is empty.
    pub group: String,
    /// The resource, such as `deployments`.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The key of the object; with a generated name, its prefix.
    pub key: ObjectKey,
    /// The field manager, such as `test/shops`.
    pub field_manager: Option<String>,
    /// The body; `null` if there is none.
    pub body: Value,
    /// `true` if the body is a JSON merge patch.
    pub(super) merges: bool,
}

impl Sent {
    pub(super) fn read(parts: &Parts, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default();
        let field_manager = parameter(query, "fieldManager");
        let watch = parameter(query, "watch").is_some_and(|value| value != "false" && value != "0");
        let path = Path::of(parts.uri.path());
        let content = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let verb = match (&parts.method, path.name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if watch => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) if content == "application/apply-patch+yaml" => "apply",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, Some(_)) => "delete",
            (&Method::DELETE, None) => "deletecollection",
            _ => "other",
        };
        let metadata = &body["metadata"];
        let named = || metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or_default();
        Self {
            verb,
            group: path.group.to_owned(),
            resource: path.resource.to_owned(),
            subresource: path.subresource.map(str::to_owned),
            key: ObjectKey::new(path.namespace, path.name.unwrap_or_else(named)),
            field_manager,
            body,
            merges: content == "application/merge-patch+json",
        }
    }

    /// Returns whether the request is for objects of the kind `T`.
    pub(super) fn is_of<T: Kind>(&self) -> bool {
        self.group == T::group(&()) && self.resource == T::plural(&())
    }

    /// The resource with its group, such as `deployments.apps`.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// When the body is not a valid `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(T::deserialize(&self.body)?)
    }
}

impl fmt::Display for Sent {
    /// Such as `apply deployments.apps default/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.qualified())?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(f, " {}", self.key)
    }
}

/// The parts of a URL's path.
struct Path<'a> {
    group: &'a str,
    namespace: Option<&'a str>,
    /// The whole path, if it is not the path of an API.
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", [].as_slice()),
        };
        let (namespace, rest) = match rest {
            // These two are subresources of the namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let mut rest = rest.iter().copied();
        let resource = rest.next().unwrap_or(path);
        Self { group, namespace, resource, name: rest.next(), subresource: rest.next() }
    }
}

/// A parameter of a URL's query, decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut decoded = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        decoded.push(match byte {
            b'%' => u8::try_from(hex(bytes.next())? * 16 + hex(bytes.next())?).ok()?,
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}
