//! The desired states that an object has in turn.

use futures_util::future::{BoxFuture, FutureExt as _};
use serde::Serialize;

use crate::Cluster;
use kooper_runtime::{Kind, Result};

type Do = Box<dyn Fn(Cluster) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// A desired state of an object.
pub(super) struct Desired {
    apply: Do,
    delete: Do,
}

impl Desired {
    pub(super) fn new<K: Kind + Serialize + Clone>(object: K) -> Self {
        let other = object.clone();
        Self {
            apply: Box::new(move |cluster| {
                let object = object.clone();
                async move { Ok(cluster.apply(&object).await.map(drop)?) }.boxed()
            }),
            delete: Box::new(move |cluster| {
                let object = other.clone();
                async move {
                    cluster.delete(&object).await?;
                    cluster.wait_deleted(&object).await;
                    Ok(())
                }
                .boxed()
            }),
        }
    }

    pub(super) async fn apply(&self, cluster: &Cluster) -> Result<()> {
        (self.apply)(cluster.clone()).await
    }

    pub(super) async fn delete(&self, cluster: &Cluster) -> Result<()> {
        (self.delete)(cluster.clone()).await
    }
}
