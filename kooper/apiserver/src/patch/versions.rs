//! The versions in which a kind is served, since each manager's fields are
//! recorded in the version that it wrote.

use std::borrow::Cow;

use serde_json::Value;

use super::schema::{Node, Schema};

/// The served versions of a kind.
pub trait Versions {
    /// The schema in a version; `None` if that isn't served. Fields recorded
    /// in a version that isn't served any more are given up.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// The object in another version. Without conversion only the name of the
    /// version differs.
    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let mut converted = object.clone();
        converted["apiVersion"] = api_version.into();
        converted
    }
}

/// A kind that is served in one version.
#[derive(Clone, Debug)]
pub struct OneVersion {
    /// The version, such as `apps/v1`.
    pub api_version: String,
    /// Its schema.
    pub schema: Schema,
}

impl Versions for OneVersion {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        (api_version == self.api_version).then_some(&self.schema)
    }
}

impl dyn Versions + '_ {
    /// The object and its type in a version; `None` if that isn't served.
    pub(crate) fn view<'v>(&'v self, object: &'v Value, api_version: &str) -> Option<(Cow<'v, Value>, Node<'v>)> {
        let node = self.schema(api_version)?.root();
        let object = if object["apiVersion"] == api_version {
            Cow::Borrowed(object)
        } else {
            Cow::Owned(self.convert(object, api_version))
        };
        Some((object, node))
    }
}
