//! Amounts of resources, by the names of the resources: `{"cpu": "500m", "pods": "2"}`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::quantity::Quantity;

/// Amounts of resources, in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads an object of quantities; whatever is not one is left out.
    pub(crate) fn read(value: &Value) -> Self {
        let entries = value.as_object().into_iter().flatten();
        let entries = entries.filter_map(|(name, amount)| {
            let amount = match amount {
                Value::String(text) => Quantity::parse(text),
                Value::Number(number) => Quantity::parse(&number.to_string()),
                _ => None,
            };
            amount.map(|amount| (name.clone(), amount))
        });
        Self(entries.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    pub(crate) fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, others: &Self) {
        for (name, amount) in &others.0 {
            let sum = self.get(name).map_or(*amount, |present| present.plus(*amount));
            self.set(name.as_str(), sum);
        }
    }

    /// Raises each amount to the one in `others` where that is larger.
    pub(crate) fn raise(&mut self, others: &Self) {
        for (name, amount) in &others.0 {
            let larger = self.get(name).map_or(*amount, |present| present.max(*amount));
            self.set(name.as_str(), larger);
        }
    }

    /// Returns the amounts by which these exceed the others. Amounts that do not exceed the others
    /// are left out.
    pub(crate) fn beyond(&self, others: &Self) -> Self {
        let more = self.0.iter().filter_map(|(name, amount)| {
            let rest = others.get(name).map_or(*amount, |present| amount.minus(present));
            rest.is_positive().then(|| (name.clone(), rest))
        });
        Self(more.collect())
    }

    /// The amounts whose names are wanted.
    pub(crate) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| wanted(name)).map(|(name, amount)| (name.clone(), *amount)).collect())
    }

    pub(crate) fn to_value(&self) -> Value {
        self.0.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect()
    }

    /// The amounts in a message: `cpu=1,pods=2`.
    pub(crate) fn shown(&self) -> String {
        let shown: Vec<_> = self.0.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        shown.join(",")
    }
}

impl PartialEq for Amounts {
    /// Amounts are compared, however they are written.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, amount)| other.get(name).is_some_and(|other| other.equals(*amount)))
    }
}

/// Returns the total requests or limits of a pod's containers; `list` is `requests` or `limits`.
///
/// Init containers run one after the other, so only the largest of them counts.
pub(crate) fn of_pod(pod: &Value, list: &str) -> Amounts {
    let spec = &pod["spec"];
    let amounts = |container: &Value| Amounts::read(&container["resources"][list]);
    let containers = |name: &str| spec[name].as_array().into_iter().flatten();
    let mut sum = Amounts::default();
    for container in containers("containers") {
        sum.add(&amounts(container));
    }
    let (mut most, mut sidecars) = (Amounts::default(), Amounts::default());
    for container in containers("initContainers") {
        let own = amounts(container);
        if container["restartPolicy"] == "Always" {
            sum.add(&own);
            sidecars.add(&own);
            most.raise(&sidecars);
        } else {
            let mut together = own;
            together.add(&sidecars);
            most.raise(&together);
        }
    }
    sum.raise(&most);
    for (name, amount) in Amounts::read(&spec["resources"][list]).iter() {
        if matches!(name, "cpu" | "memory") {
            sum.set(name, amount);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Amounts, of_pod};

    #[test]
    fn init_containers_count_by_the_most_that_runs_at_once() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {
            "containers": [container("200m"), container("300m")],
            "initContainers": [sidecar, container("1")]
        }});
        assert_eq!(of_pod(&pod, "requests").to_value(), json!({"cpu": "1100m"}));
        let pod = json!({"spec": {"containers": [container("1")], "initContainers": [container("1m")]}});
        assert_eq!(of_pod(&pod, "requests").to_value(), json!({"cpu": "1"}));
        let pod = json!({"spec": {"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}});
        assert_eq!(of_pod(&pod, "requests").to_value(), json!({"cpu": "3"}));
    }

    #[test]
    fn what_exceeds_is_the_positive_difference() {
        let (new, old) = (json!({"a": "2", "b": "1", "c": "1"}), json!({"a": "1500m", "b": "1"}));
        let more = Amounts::read(&new).beyond(&Amounts::read(&old));
        assert_eq!(more.shown(), "a=500m,c=1");
    }
}
