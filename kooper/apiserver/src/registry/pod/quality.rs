//! The quality of service of a pod.

use serde_json::Value;

use crate::quantity::Quantity;

/// The quality of service: guaranteed where every container has limits of both resources and requests as much.
pub(super) fn of(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let (mut requests, mut limits) = (Sums::default(), Sums::default());
    let mut guaranteed = true;
    if spec["resources"].is_object() {
        requests.add(&spec["resources"]["requests"]);
        guaranteed = limits.add(&spec["resources"]["limits"]);
    } else {
        let all = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
        for container in all {
            requests.add(&container["resources"]["requests"]);
            guaranteed &= limits.add(&container["resources"]["limits"]);
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests.equals(&limits) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The resources that the quality of service depends on.
const COUNTED: [&str; 2] = ["cpu", "memory"];

#[derive(Default)]
struct Sums([Option<Quantity>; 2]);

impl Sums {
    /// Adds what is more than nothing, and returns whether that was all of the resources.
    fn add(&mut self, amounts: &Value) -> bool {
        let mut all = true;
        for (sum, resource) in self.0.iter_mut().zip(COUNTED) {
            let amount = amounts[resource].as_str().and_then(Quantity::parse).filter(|amount| amount.is_positive());
            all &= amount.is_some();
            if let Some(amount) = amount {
                *sum = Some(sum.map_or(amount, |sum| sum.plus(amount)));
            }
        }
        all
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn equals(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|pair| match pair {
            (Some(left), Some(right)) => left.equals(*right),
            (left, right) => left.is_none() && right.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::of as quality;

    #[test]
    fn the_quality_of_service_follows_from_requests_and_limits() {
        let of = |containers: Value| quality(&json!({"spec": {"containers": containers}}));
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        assert_eq!(of(json!([{}])), "BestEffort");
        assert_eq!(of(json!([{"resources": full}])), "Guaranteed");
        assert_eq!(of(json!([{"resources": full}, {}])), "Burstable");
        assert_eq!(of(json!([{"resources": {"requests": {"cpu": "1"}}}])), "Burstable");
        assert_eq!(of(json!([{"resources": {"requests": {"cpu": "0", "example.com/gpu": "1"}}}])), "BestEffort");
        let pod = json!({"spec": {"resources": full, "containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        assert_eq!(quality(&pod), "Guaranteed");
    }
}
