//! A request or a watch event, as faults see it.

use std::fmt;

use serde::Deserialize;

use crate::http::Request;
use crate::identity::User;
use crate::protobuf;
use crate::route::{self, Route, Target};

/// Attributes of a request or a watch event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestAttributes {
    /// The verb of a request, the type of a watch event.
    pub(super) verb: String,
    /// The resource with its group and subresource: `shops.example.com/status`; otherwise the path.
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The `generateName` of the object, if its name was generated.
    prefix: Option<String>,
    pub(super) user: String,
}

/// The fields of an object that are decoded.
#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "generateName")]
    generate_name: String,
    #[serde(default)]
    namespace: String,
}

/// The fields of a watch event that are decoded.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    event: String,
    object: Named,
}

impl RequestAttributes {
    /// A request; `closely` to read the name of an object that is created from the body.
    pub(crate) fn of(request: &Request, user: &User, route: &Route, closely: bool) -> Self {
        let Route::Resource(target) = route else {
            let verb = request.method.as_str().to_lowercase();
            let (resource, user) = (request.path.clone(), user.name().to_owned());
            return Self { verb, resource, user, ..Self::default() };
        };
        let mut attributes = Self::of_resource(request, user, target);
        if closely && attributes.name.is_empty() && attributes.verb == "create" {
            // The body of another encoding than these has no name here.
            let named = match request.content_type() {
                protobuf::CONTENT_TYPE => protobuf::read(&request.body, "", "", false)
                    .ok()
                    .and_then(|object| serde_json::from_value(object).ok()),
                _ => serde_json::from_slice::<Named>(&request.body).ok(),
            };
            let Metadata { name, generate_name, .. } = named.unwrap_or_default().metadata;
            attributes.name = if name.is_empty() { generate_name } else { name };
        }
        attributes
    }

    pub(crate) fn of_resource(request: &Request, user: &User, target: &Target) -> Self {
        let mut resource = target.resource.clone();
        for (mark, part) in [('.', Some(&target.group)), ('/', target.subresource.as_ref())] {
            if let Some(part) = part.filter(|part| !part.is_empty()) {
                resource.push(mark);
                resource.push_str(part);
            }
        }
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Self {
            verb: route::verb(request, target).to_owned(),
            resource,
            namespace: text(&target.namespace),
            name: text(&target.name),
            prefix: None,
            user: user.name().to_owned(),
        }
    }

    /// A line of this watch.
    pub(super) fn event(&self, line: &[u8]) -> Self {
        let Ok(Line { event, object: Named { metadata } }) = serde_json::from_slice(line) else {
            return Self { verb: String::new(), ..self.clone() };
        };
        let (resource, user) = (self.resource.clone(), self.user.clone());
        let Metadata { name, namespace, generate_name } = metadata;
        let prefix = Some(generate_name).filter(|prefix| !prefix.is_empty() && name.starts_with(prefix.as_str()));
        Self { verb: event, resource, namespace, name, prefix, user }
    }

    /// Returns whether the resource matches the notation of [`Requests::of`](super::Requests::of).
    pub(super) fn is_for(&self, wanted: &str) -> bool {
        if wanted.starts_with('/') {
            return self.resource == wanted;
        }
        let parts = |whole: &str| {
            whole
                .split_once('/')
                .map_or((whole.to_owned(), String::new()), |(resource, sub)| (resource.to_owned(), sub.to_owned()))
        };
        let ((wanted, wanted_sub), (resource, sub)) = (parts(wanted), parts(&self.resource));
        let same_sub = if wanted_sub == "*" { !sub.is_empty() } else { wanted_sub == sub };
        let plain = resource.split_once('.').map_or(resource.as_str(), |(plain, _)| plain);
        same_sub && (wanted == resource || wanted == plain)
    }

    /// The object: `namespace/name`, or what there is of it.
    pub(super) fn object(&self) -> String {
        route::key(&self.namespace, &self.name)
    }

    /// Returns the key by which requests are counted. Generated names differ between runs, so
    /// objects with the same `generateName` share a key.
    pub(super) fn address(&self) -> String {
        match &self.prefix {
            Some(prefix) => Self { name: format!("{prefix}…"), ..self.clone() }.to_string(),
            None => self.to_string(),
        }
    }
}

/// `patch shops.example.com/status default/a`.
impl fmt::Display for RequestAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match self.object() {
            object if object.is_empty() => Ok(()),
            object => write!(f, " {object}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestAttributes;

    fn of(resource: &str) -> RequestAttributes {
        RequestAttributes { resource: resource.to_owned(), ..RequestAttributes::default() }
    }

    #[test]
    fn a_resource_is_named_as_in_a_role() {
        for (resource, wanted) in [
            ("pods", "pods"),
            ("shops.example.com", "shops"),
            ("shops.example.com", "shops.example.com"),
            ("shops.example.com/status", "shops/status"),
            ("shops.example.com/status", "shops.example.com/status"),
            ("shops.example.com/status", "shops/*"),
            ("/version", "/version"),
        ] {
            assert!(of(resource).is_for(wanted), "{resource} {wanted}");
        }
        for (resource, wanted) in [
            ("shops.example.com/status", "shops"),
            ("shops.example.com", "shops/*"),
            ("shops.example.com", "shops.other.com"),
            ("pods", "pod"),
            ("/version", "/"),
        ] {
            assert!(!of(resource).is_for(wanted), "{resource} {wanted}");
        }
    }

    #[test]
    fn a_line_of_a_watch_names_its_object() {
        let watch = RequestAttributes { verb: "watch".to_owned(), ..of("pods") };
        let line = br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":{}}}"#;
        assert_eq!(watch.event(line).to_string(), "ADDED pods b/a");
        assert_eq!(watch.event(b"{").to_string(), " pods");
    }

    #[test]
    fn objects_with_generated_names_are_counted_together() {
        let watch = RequestAttributes { verb: "watch".to_owned(), ..of("pods") };
        let line = br#"{"type":"ADDED","object":{"metadata":{"name":"a-x7k2p","generateName":"a-","namespace":"b"}}}"#;
        let event = watch.event(line);
        assert_eq!((event.object(), event.address()), ("b/a-x7k2p".to_owned(), "ADDED pods b/a-…".to_owned()));
        let named = br#"{"type":"ADDED","object":{"metadata":{"name":"c","generateName":"a-","namespace":"b"}}}"#;
        assert_eq!(watch.event(named).address(), "ADDED pods b/c");
    }
}
