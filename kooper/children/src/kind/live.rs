//! The children of a kind as the API server has them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kooper_access::extract::Context;
use kooper_access::internal::{BUCKET, OWNER, bucket_of_owner};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::store::Cache;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Kind};
use kube::ResourceExt;
use kube::api::{ListParams, ObjectList};
use kube::core::metadata::PartialObjectMeta;
use tokio::time::timeout;

use super::TypedKind;
use crate::function::ChildKind;
use crate::observed::ChildId;
use crate::readiness::Readiness;
use crate::record::{ChildObject, Found, controls, decode, id_of, is_foreign, owner, recorded};

/// The timeout of a list.
const LIST: Duration = Duration::from_secs(60);

impl<T: ChildKind> TypedKind<T> {
    /// Lists the children of the owner in these namespaces. All of them have its bucket.
    pub(super) async fn list_children<P: Kind, S>(
        &self,
        context: &Context<P, S>,
        slots: &[Arc<str>],
        places: &BTreeSet<Option<&str>>,
    ) -> Result<Vec<Found>, BoxError> {
        let (owner, mut children) = (owner(context), Vec::new());
        let uid = owner.uid().unwrap_or_default();
        let of_bucket = format!("{BUCKET}={}", bucket_of_owner(&uid));
        for place in places {
            for child in self.list(context, &of_bucket, *place).await? {
                if controls(&*owner, &child) || child.labels().get(OWNER) == Some(&uid) {
                    let record = recorded(context, &child, slots, Readiness::Waiting("it is not in the cache".into()));
                    let object = Arc::new(Object::parse(&serde_json::to_vec(&child)?)?);
                    let decode = decode::<T>;
                    let object = ChildObject::Cached { object, decoded: OnceLock::new(), decode };
                    children.push((id_of(&*owner, &child, &self.kind, self.resource.clone()), record, object));
                }
            }
        }
        Ok(children)
    }

    /// Finds a child of the owner that has no owner reference.
    pub(super) async fn find_marked<P: Kind, S>(
        &self,
        context: &Context<P, S>,
        has_some: bool,
    ) -> Result<Option<ChildId>, BoxError> {
        // A child in another namespace is rare, and seen before, unless this process has just taken over.
        if !has_some && (self.kind.namespaced || !KindInfo::of::<P>().namespaced) {
            return Ok(None);
        }
        let owner = owner(context);
        let of_owner = format!("{OWNER}={}", owner.uid().unwrap_or_default());
        let places = self.caches(context).flat_map(Cache::namespaces);
        let places: BTreeSet<_> = places.map(|namespace| namespace.map(str::to_owned)).collect();
        for place in places {
            let found = self.list(context, &of_owner, place.as_deref()).await?;
            let is_own =
                |child: &&PartialObjectMeta<T>| !controls(&*owner, *child) && !is_foreign(context, *child, &[]);
            if let Some(child) = found.iter().find(is_own) {
                return Ok(Some(id_of(&*owner, child, &self.kind, self.resource.clone())));
            }
        }
        Ok(None)
    }

    /// Lists the metadata of the objects with a label.
    async fn list<P: Kind, S>(
        &self,
        context: &Context<P, S>,
        label: &str,
        place: Option<&str>,
    ) -> Result<Vec<PartialObjectMeta<T>>, BoxError> {
        let path = T::url_path(&(), place);
        let request = kube::core::Request::new(path).list_metadata(&ListParams::default().labels(label))?;
        let client = context.controller().client();
        let found = timeout(LIST, client.request::<ObjectList<PartialObjectMeta<T>>>(request)).await;
        let found = found.map_err(|_| format!("the API server did not list {} in time", self.resource))??;
        Ok(found.items)
    }
}
