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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_integers_and_other_strings_have_no_order() {
        assert!(older("9", "10") && !older("10", "10") && !older("11", "10"));
        assert!(!older("a", "10") && !older("9", "b"));
    }
}
