//! What arguments find in the context of their controller.

use kooper_runtime::internal::call::extensions::Extensions;

use crate::capability::Children;
use crate::plan::Plan;
use crate::settings::GivenSettings;

/// The extensions of a context, for the functions that were planned.
#[must_use]
pub fn extensions(plan: &Plan, settings: GivenSettings) -> Extensions {
    let extensions = Extensions::default();
    extensions.insert(plan.subsets());
    extensions.insert(Children::of(plan.owned().iter().map(|owned| owned.id).collect()));
    extensions.insert(settings);
    extensions
}
