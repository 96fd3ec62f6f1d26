//! Waits of a test: for a condition, not for a time.

use std::panic::Location;

use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use tokio::time::Instant;

use super::{Cluster, Named, decode, pause};
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::{Kind, ObjectKey};

impl Cluster {
    /// Waits until an object exists and fulfils a condition, and returns it. The
    /// object is named by its name, its key or an earlier state.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn wait(cluster: kooper::testing::Cluster) {
    /// let web = cluster.wait("web", |web: &Deployment| web.spec.as_ref().is_some_and(|spec| spec.replicas == Some(3))).await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it does not within ten seconds (60 on the real server), or those of
    /// [`with_timeout`](Self::with_timeout). The message has the file and line of
    /// the call, the object as it is instead, and the last errors of handlers.
    #[track_caller]
    pub fn wait<T: Kind>(&self, object: impl Named, mut holds: impl FnMut(&T) -> bool) -> impl Future<Output = T> {
        let caller = Location::caller();
        async move {
            let key = object.key_in(self.namespace(), KindInfo::of::<T>().namespaced);
            let since = Instant::now();
            loop {
                let found = self.look::<T>(&key).await;
                let wrong = match found.clone() {
                    // An object that does not decode may still be corrected.
                    Ok(Some(object)) => match decode::<T>(object) {
                        Ok(object) if holds(&object) => return object,
                        Ok(_) => None,
                        Err(error) => Some(format!("it does not fit the type: {}", chain(&error))),
                    },
                    _ => None,
                };
                if since.elapsed() >= self.timeout {
                    let state = self.state::<T>(&key, found, wrong).await;
                    panic!("{}", self.unmet(caller, &state));
                }
                pause(since).await;
            }
        }
    }

    /// Waits until an object does not exist any more. Another one of its name does not count.
    ///
    /// # Panics
    /// If it exists after ten seconds (60 on the real server), or those of
    /// [`with_timeout`](Self::with_timeout). The message shows the object, with
    /// its finalizers, and the last errors of handlers.
    #[track_caller]
    pub fn wait_deleted<T: Kind>(&self, object: &T) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let key = object.key_in(self.namespace(), KindInfo::of::<T>().namespaced);
            let uid = object.meta().uid.as_deref();
            let since = Instant::now();
            loop {
                let found = self.look::<T>(&key).await;
                match &found {
                    Ok(None) => return,
                    Ok(Some(other)) if uid.is_some() && other.metadata.uid.as_deref() != uid => return,
                    _ => {}
                }
                if since.elapsed() >= self.timeout {
                    let state = self.state::<T>(&key, found, None).await;
                    panic!("{}", self.unmet(caller, &state));
                }
                pause(since).await;
            }
        }
    }

    async fn look<T: Kind>(&self, key: &ObjectKey) -> Result<Option<DynamicObject>, String> {
        let (api, kind) = (self.api::<T>(key.namespace()), KindInfo::of::<T>().kind);
        api.get_opt(key.name()).await.map_err(|error| match error {
            // Of the path. The response about an object is a Status, for which there is none.
            kube::Error::Api(status) if status.code == 404 => {
                format!("the API server does not serve {kind}: install its CRD with `install_crd`")
            }
            error => format!("the {kind} `{key}` cannot be read: {}", chain(&error)),
        })
    }

    /// Describes the current state, for the message of a failed wait.
    async fn state<T: Kind>(
        &self,
        key: &ObjectKey,
        found: Result<Option<DynamicObject>, String>,
        wrong: Option<String>,
    ) -> String {
        let kind = KindInfo::of::<T>().kind;
        match found {
            Err(error) => error,
            Ok(Some(mut object)) => {
                object.metadata.managed_fields = None;
                let yaml = serde_saphyr::to_string(&object).unwrap_or_else(|error| error.to_string());
                let wrong = wrong.map_or(String::new(), |wrong| format!(" ({wrong})"));
                format!("the {kind} `{key}` is{wrong}:\n\n{}", indented(yaml.trim_end()))
            }
            Ok(None) => {
                let others = match self.api::<T>(key.namespace()).list(&ListParams::default()).await {
                    Ok(others) => others,
                    Err(error) => {
                        return format!("there is no {kind} `{key}`; others cannot be listed: {}", chain(&error));
                    }
                };
                let names: Vec<_> = others.iter().map(|other| format!("`{}`", other.name_any())).collect();
                match (names.is_empty(), key.namespace()) {
                    (true, None) => format!("there is no {kind}"),
                    (true, Some(namespace)) => format!("there is no {kind} in the namespace `{namespace}`"),
                    (false, _) => format!("there is no {kind} `{key}`, but {}", names.join(", ")),
                }
            }
        }
    }

    fn unmet(&self, caller: &Location<'_>, state: &str) -> String {
        let problems = self.server.controllers().problems();
        let problems = match &*problems {
            [] => String::new(),
            problems => format!("\n\nproblems of the controllers:\n  {}", problems.join("\n  ")),
        };
        format!("{caller}: the condition was not met within {:?}: {state}{problems}", self.timeout)
    }
}

fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
    lines.collect::<Vec<_>>().join("\n")
}
