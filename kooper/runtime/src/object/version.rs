//! The order of resource versions.

/// Returns `true` if a resource version is older than another. Versions are compared
/// as integers; other strings have no order.
#[must_use]
pub fn older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}
