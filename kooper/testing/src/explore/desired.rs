//! The desired states that an object has in turn.

use futures_util::future::{BoxFuture, FutureExt as _};
use serde::Serialize;

use crate::Cluster;
use kooper_runtime::{Kind, Result};

/// A desired state of an object, whatever its kind.
pub(super) trait Desired: Send + Sync {
    fn apply<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<()>>;

    fn delete<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<()>>;
}

impl<K: Kind + Serialize> Desired for K {
    fn apply<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<()>> {
        async move { Ok(cluster.apply(self).await.map(drop)?) }.boxed()
    }

    fn delete<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<()>> {
        async move {
            cluster.delete(self).await?;
            cluster.wait_deleted(self).await;
            Ok(())
        }
        .boxed()
    }
}
