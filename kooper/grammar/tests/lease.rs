//! Timings of a lease.

use std::time::Duration;

use kooper_grammar::lease::{LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, Timing, TimingError, check};
use proptest::prelude::*;

fn of(lease: u64, renew: u64, retry: u64) -> Result<(), TimingError> {
    check(Duration::from_millis(lease), Duration::from_millis(renew), Duration::from_millis(retry))
}

#[test]
fn the_defaults_are_valid_and_the_limits_are_exact() {
    let defaults = [LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD].map(|default| default.as_secs());
    assert_eq!(defaults, [15, 10, 2], "the defaults of client-go");
    assert_eq!(of(15_000, 10_000, 2_000), Ok(()));
    assert!(matches!(of(15_000, 10_001, 2_000), Err(TimingError::RenewTooLong { .. })));
    assert!(matches!(of(9_000, 6_000, 5_000), Err(TimingError::RetryTooLong { .. })));
    assert_eq!(of(9_000, 6_000, 4_999), Ok(()));
    assert!(matches!(of(3_000, 2_000, 999), Err(TimingError::TooShort { timing: Timing::RetryPeriod, .. })));
}

#[test]
fn errors_name_the_problem_and_what_to_write() {
    for ((lease, renew, retry), message) in [
        ((900, 600, 100), "`lease_duration` is 900ms, shorter than a second: write at least \"1s\""),
        (
            (10_000, 8_000, 2_000),
            "`renew_deadline` is 8s, more than two thirds of `lease_duration`, 10s: \
             write a shorter `renew_deadline` or a longer `lease_duration`",
        ),
        (
            (15_000, 2_000, 2_000),
            "`renew_deadline` is 2s, not more than 1.2 times `retry_period`, 2s: \
             write a longer `renew_deadline` or a shorter `retry_period`",
        ),
    ] {
        assert_eq!(of(lease, renew, retry).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

proptest! {
    #[test]
    fn a_longer_lease_or_a_shorter_retry_period_stays_valid(
        lease in 1_000..60_000u64, renew in 1_000..60_000u64, retry in 1_000..60_000u64, more in 0..9_000u64,
    ) {
        if of(lease, renew, retry).is_ok() {
            prop_assert!(of(lease + more, renew, retry).is_ok());
            prop_assert!(of(lease, renew, retry.saturating_sub(more).max(1_000)).is_ok());
        }
    }
}
