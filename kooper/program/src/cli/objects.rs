//! Objects of any kind: how they are requested, and how they are named in a line.

use std::fmt::{self, Display, Formatter};

use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Client, Resource, ResourceExt};

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::kind::KindInfo;

/// Maximum number of objects in a page of a list.
const PAGE: u32 = 500;

/// Maximum number of objects that a line names.
const NAMED: usize = 10;

pub(super) type Metadata = PartialObjectMeta<DynamicObject>;

/// The resource of a kind.
pub(super) fn resource(kind: &KindInfo) -> ApiResource {
    ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
    }
}

/// The resource of a built-in kind of which few fields are read. Decoding all of them, as `Api<K>` does, would be
/// compiled into each program: for a Deployment, these are 150 types.
pub(super) fn untyped<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// The clients of a kind in these namespaces; without any, the one for all namespaces.
pub(super) fn scopes(client: &Client, kind: &KindInfo, namespaces: &[String]) -> Vec<Api<DynamicObject>> {
    let resource = resource(kind);
    match namespaces {
        [] => vec![Api::all_with(client.clone(), &resource)],
        some => some.iter().map(|one| Api::namespaced_with(client.clone(), one, &resource)).collect(),
    }
}

/// The response; `None` without the permission.
pub(super) fn unless_forbidden<T>(response: kube::Result<T>) -> kube::Result<Option<T>> {
    match response {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        response => response.map(Some),
    }
}

/// A list of objects, page by page.
pub(super) struct Pages {
    api: Api<DynamicObject>,
    params: ListParams,
    ended: bool,
}

impl Pages {
    pub(super) fn new(api: Api<DynamicObject>) -> Self {
        Self { api, params: ListParams::default().limit(PAGE), ended: false }
    }

    /// The next page. A kind that the cluster does not serve has none.
    pub(super) async fn next(&mut self) -> kube::Result<Option<Vec<Metadata>>> {
        if self.ended {
            return Ok(None);
        }
        let page = match self.api.list_metadata(&self.params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            page => page?,
        };
        self.params.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
        self.ended = self.params.continue_token.is_none();
        Ok(Some(page.items))
    }
}

/// Objects that were found, shown as the first names, and how many more there are.
#[derive(Debug, Default)]
pub(super) struct FoundObjects {
    named: Vec<String>,
    pub(super) count: usize,
}

impl FoundObjects {
    pub(super) fn add(&mut self, object: &Metadata) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(ObjectKey::new(object.namespace().as_deref(), &object.name_any()).to_string());
        }
    }
}

impl Display for FoundObjects {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join(", "))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A number with its noun: `1 object`, `2 objects`.
pub(super) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_no_plural() {
        assert_eq!([0_i64, 1, 2].map(|count| counted(count, "object")), ["0 objects", "1 object", "2 objects"]);
    }
}
