//! The program's own settings, as its functions take them.

mod secret_value;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

pub use secret_value::SecretValue;

/// The program's own settings: an argument of handlers, `init`, `cleanup` and
/// `deleted`.
///
/// `T` derives `clap::Args`. The program reads it from its flags and its
/// environment when it starts: a flag takes precedence over its variable, and
/// both over the default. The attribute's key `settings` names the type, or
/// `main!` where there are several controllers.
///
/// It dereferences to the settings. The pattern `Settings(settings):
/// Settings<ShopSettings>` takes the `Arc<ShopSettings>` out of it.
///
/// ```standalone_crate
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::prelude::*;
///
/// #[derive(clap::Args)]
/// struct ShopSettings {
///     /// How pods are greeted
///     #[arg(long, env = "SHOP_GREETING", default_value = "hello")]
///     greeting: String,
/// }
///
/// #[kooper::controller(resource = Pod, settings = ShopSettings)]
/// async fn greet(pod: Arc<Pod>, settings: Settings<ShopSettings>) {
///     tracing::info!("{}, {}", settings.greeting, pod.name_any());
/// }
/// ```
#[derive(Debug)]
pub struct Settings<T>(pub Arc<T>);

impl<T> Settings<T> {
    /// Wraps settings, as to call a handler in a unit test.
    #[must_use]
    pub fn new(settings: T) -> Self {
        Self(Arc::new(settings))
    }
}

impl<T> Clone for Settings<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Settings<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The settings that a process has read, by their types.
#[derive(Clone, Default)]
pub struct GivenSettings {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl GivenSettings {
    /// Adds settings, and replaces those of the same type.
    pub fn give<T: Send + Sync + 'static>(&mut self, settings: T) {
        self.values.insert(TypeId::of::<T>(), Arc::new(settings));
    }

    /// The settings of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Settings<T>> {
        let value = self.values.get(&TypeId::of::<T>())?;
        value.clone().downcast().ok().map(Settings)
    }

    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.values.contains_key(&type_id)
    }
}

impl std::fmt::Debug for GivenSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GivenSettings").field("types", &self.values.len()).finish_non_exhaustive()
    }
}
