//! The context of a controller, as its arguments see it.

use kooper_runtime::internal::call::extensions::Extensions;

use crate::capability::Children;
use crate::plan::Plan;
use crate::settings::GivenSettings;

/// The extensions of a context, for the functions that were planned.
#[must_use]
pub fn extensions(plan: &Plan, settings: GivenSettings) -> Extensions {
    let extensions = Extensions::default();
    fill(&extensions, plan, settings);
    extensions
}

/// Adds what the arguments of planned functions find in their context.
pub(crate) fn fill(extensions: &Extensions, plan: &Plan, settings: GivenSettings) {
    extensions.insert(plan.subsets());
    extensions.insert(Children::of(plan.owned().iter().map(|owned| owned.id).collect(), plan.has_shards));
    extensions.insert(settings);
}
