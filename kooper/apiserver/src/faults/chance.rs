//! Chance that depends on a seed, and on nothing that runs at the same time.

/// Returns whether the fault is injected. The result depends only on the arguments.
pub(super) fn injects(seed: u64, rule: u64, address: &str, nth: u64, probability: f64) -> bool {
    // FNV-1a over everything that the decision depends on.
    let bytes = [seed, rule, nth].into_iter().flat_map(u64::to_le_bytes).chain(address.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    unit(mixed(hash)) < probability
}

/// Spreads the bits: the finalizer of SplitMix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number from 0 up to 1, from the upper 32 bits.
fn unit(bits: u64) -> f64 {
    let upper = u32::try_from(bits >> 32).unwrap_or(u32::MAX);
    f64::from(upper) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::injects;

    #[test]
    fn chance_is_as_likely_as_it_was_asked_for_and_repeats() {
        for (probability, low, high) in [(0.0, 0, 0), (0.1, 900, 1100), (0.5, 4800, 5200), (1.0, 10_000, 10_000)] {
            let count =
                |seed| (0..10_000).filter(|nth| injects(seed, 1, "patch shops default/a", *nth, probability)).count();
            assert!((low..=high).contains(&count(7)), "{probability}: {}", count(7));
            assert_eq!(count(7), count(7));
        }
    }

    #[test]
    fn seeds_rules_and_objects_are_independent() {
        let draw =
            |seed, rule, address: &str| (0..64).map(|nth| injects(seed, rule, address, nth, 0.5)).collect::<Vec<_>>();
        assert_ne!(draw(1, 1, "a"), draw(2, 1, "a"));
        assert_ne!(draw(1, 1, "a"), draw(1, 2, "a"));
        assert_ne!(draw(1, 1, "a"), draw(1, 1, "b"));
    }
}
