//! The next size of each ReplicaSet of a Deployment: pure arithmetic.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The size of a ReplicaSet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) spec: i32,
    /// The pods that it has.
    pub(super) status: i32,
    pub(super) available: i32,
    /// The most pods of the Deployment when it was scaled last.
    pub(super) maximum: Option<i32>,
}

/// The limits of a rollout around the desired number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) surge: i32,
    pub(super) unavailable: i32,
    /// Old pods end before new ones begin.
    pub(super) recreates: bool,
}

impl Bounds {
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        let strategy = spec.strategy.clone().unwrap_or_default();
        if strategy.type_.as_deref() == Some("Recreate") {
            return Self { surge: 0, unavailable: 0, recreates: true };
        }
        let desired = spec.replicas.unwrap_or(1);
        let rolling = strategy.rolling_update.unwrap_or_default();
        let surge = part(rolling.max_surge.as_ref(), desired, true);
        let unavailable = part(rolling.max_unavailable.as_ref(), desired, false).min(desired);
        // Both can only be zero by rounding: then the rollout would never move.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { surge, unavailable, recreates: false }
    }
}

/// A number, or a percentage of `whole`.
pub(crate) fn part(value: Option<&IntOrString>, whole: i32, rounds_up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = i64::from(whole) * i64::from(percent);
            let part = if rounds_up { (product + 99) / 100 } else { product / 100 };
            i32::try_from(part).unwrap_or(i32::MAX)
        }
    }
}

fn sum(sizes: &[Size], of: fn(&Size) -> i32) -> i32 {
    sizes.iter().map(of).sum()
}

/// The next size of the new set, which is `new` now; `sizes` are those of all sets.
pub(super) fn new_size(new: i32, sizes: &[Size], desired: i32, bounds: Bounds) -> i32 {
    if new >= desired {
        return desired;
    }
    let room = desired.saturating_add(bounds.surge) - sum(sizes, |size| size.spec);
    new + room.clamp(0, desired - new)
}

/// Takes pods from the old sets as far as enough others are available. The first size is that of the new set, the
/// others are sorted by age.
pub(super) fn shrink_old(sizes: &mut [Size], desired: i32, bounds: Bounds) {
    let needed = desired - bounds.unavailable;
    let new_unavailable = sizes.first().map_or(0, |new| new.spec - new.available);
    let most = sum(sizes, |size| size.spec) - needed - new_unavailable;
    let available = sum(sizes, |size| size.available);
    let Some((_, old)) = sizes.split_first_mut() else { return };
    // Those that are not available serve nothing.
    let mut left = most;
    for size in &mut *old {
        let taken = left.min(size.spec - size.available).max(0);
        size.spec -= taken;
        left -= taken;
    }
    if most <= 0 {
        return;
    }
    let mut left = available - needed;
    for size in old {
        let taken = left.min(size.spec).max(0);
        size.spec -= taken;
        left -= taken;
    }
}

/// Scales the sets to another desired number, in the proportion that they have. `new` is the position of the new set;
/// the others are sorted by age.
pub(super) fn scale(sizes: &mut [Size], new: Option<usize>, desired: i32, bounds: Bounds) {
    let active: Vec<usize> = (0..sizes.len()).filter(|index| sizes[*index].spec > 0).collect();
    let only = match active.as_slice() {
        [] => new.or_else(|| sizes.len().checked_sub(1)),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        sizes[only].spec = desired;
        return;
    }
    if active.is_empty() {
        return;
    }
    if new.is_some_and(|new| sizes[new].spec == desired && sizes[new].available == desired) {
        let others = (0..sizes.len()).filter(|index| Some(*index) != new);
        others.for_each(|index| sizes[index].spec = 0);
        return;
    }
    let allowed = if desired > 0 { desired.saturating_add(bounds.surge) } else { 0 };
    let total = sum(sizes, |size| size.spec);
    let mut missing = allowed - total;
    // The largest first; of two equal ones the newer grows, and the older shrinks.
    let mut order = active;
    let age = |index: usize| if Some(index) == new { usize::MAX } else { index };
    order.sort_by_key(|index| {
        let age = age(*index);
        (-sizes[*index].spec, if missing > 0 { usize::MAX - age } else { age })
    });
    for index in &order {
        let size = &mut sizes[*index];
        let maximum = size.maximum.filter(|maximum| *maximum > 0).unwrap_or(total);
        let target = (f64::from(size.spec) * f64::from(allowed) / f64::from(maximum)).round();
        let share = target as i32 - size.spec;
        let share = if missing > 0 { share.clamp(0, missing) } else { share.clamp(missing, 0) };
        size.spec += share;
        missing -= share;
    }
    if let Some(first) = order.first() {
        sizes[*first].spec = (sizes[*first].spec + missing).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Bounds = Bounds { surge: 1, unavailable: 0, recreates: false };

    fn size(spec: i32, available: i32) -> Size {
        Size { spec, status: spec, available, maximum: None }
    }

    fn specs(sizes: &[Size]) -> Vec<i32> {
        sizes.iter().map(|size| size.spec).collect()
    }

    #[test]
    fn percentages_round_up_for_the_surge_and_down_for_the_unavailable() {
        let percent = IntOrString::String("25%".to_owned());
        assert_eq!((part(Some(&percent), 3, true), part(Some(&percent), 3, false)), (1, 0));
        assert_eq!((part(Some(&IntOrString::Int(2)), 3, true), part(None, 3, true)), (2, 0));
    }

    #[test]
    fn the_new_set_grows_into_the_surge() {
        assert_eq!(new_size(0, &[size(0, 0), size(3, 3)], 3, ONE), 1);
        assert_eq!(new_size(1, &[size(1, 1), size(3, 3)], 3, ONE), 1);
        assert_eq!(new_size(1, &[size(1, 1), size(2, 2)], 3, ONE), 2);
        assert_eq!(new_size(5, &[size(5, 5)], 3, ONE), 3);
    }

    #[test]
    fn an_old_set_shrinks_only_as_new_pods_become_available() {
        let mut sizes = [size(1, 0), size(3, 3)];
        shrink_old(&mut sizes, 3, ONE);
        assert_eq!(specs(&sizes), [1, 3]);
        let mut sizes = [size(1, 1), size(3, 3)];
        shrink_old(&mut sizes, 3, ONE);
        assert_eq!(specs(&sizes), [1, 2]);
        let mut sizes = [size(1, 0), size(3, 1)];
        shrink_old(&mut sizes, 3, Bounds { unavailable: 2, ..ONE });
        assert_eq!(specs(&sizes), [1, 1], "those that are not available go first");
    }

    #[test]
    fn a_rollout_ends_with_the_new_set_alone() {
        for bounds in [ONE, Bounds { surge: 0, unavailable: 1, ..ONE }, Bounds { surge: 3, unavailable: 2, ..ONE }] {
            let mut sizes = vec![size(0, 0), size(2, 2), size(5, 5)];
            for _ in 0..40 {
                let grown = new_size(sizes[0].spec, &sizes, 7, bounds);
                if grown == sizes[0].spec {
                    shrink_old(&mut sizes, 7, bounds);
                } else {
                    sizes[0].spec = grown;
                }
                assert!(sum(&sizes, |size| size.spec) <= 7 + bounds.surge);
                assert!(sizes.iter().map(|size| size.spec.min(size.available)).sum::<i32>() >= 7 - bounds.unavailable);
                sizes.iter_mut().for_each(|size| size.available = size.spec);
            }
            assert_eq!(specs(&sizes), [7, 0, 0]);
        }
    }

    #[test]
    fn one_set_is_scaled_at_once_and_several_in_proportion() {
        let mut sizes = [size(0, 0), size(3, 3)];
        scale(&mut sizes, Some(0), 10, ONE);
        assert_eq!(specs(&sizes), [0, 10]);
        let mut sizes = [size(0, 0), size(0, 0)];
        scale(&mut sizes, Some(0), 2, ONE);
        assert_eq!(specs(&sizes), [2, 0]);
        let with_maximum = |spec| Size { maximum: Some(11), ..size(spec, 0) };
        let mut sizes = [with_maximum(3), with_maximum(8)];
        scale(&mut sizes, Some(0), 20, ONE);
        assert_eq!(specs(&sizes), [6, 15]);
        let mut sizes = [size(3, 3), size(2, 2)];
        scale(&mut sizes, Some(0), 3, ONE);
        assert_eq!(specs(&sizes), [3, 0], "the new set is complete");
    }
}
