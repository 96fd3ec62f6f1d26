//! The ports that nodes open for Services. Servers draw them from a range, so they are compared by which Service has got
//! them when: a port may be drawn again after it was given back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The uid and the version of a Service in one state.
pub(super) type State = (String, u64);

/// The ports of each Service in each of its states.
#[derive(Default)]
pub(super) struct Ports {
    states: BTreeMap<String, BTreeMap<u64, BTreeSet<u64>>>,
    /// By the Service, the version since which it has the port, and the port.
    names: BTreeMap<(String, u64, u64), String>,
}

impl Ports {
    /// Learns the states that a body shows.
    pub(super) fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(entries) => match state(value) {
                Some((uid, version)) if value["spec"].is_object() => {
                    let spec = &value["spec"];
                    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
                    let ports = ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_u64);
                    self.states.entry(uid).or_default().entry(version).or_default().extend(ports);
                }
                Some(_) => {}
                None => entries.values().for_each(|value| self.collect(value)),
            },
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    /// The name of a port of a Service: the same in all states between which the Service had it.
    pub(super) fn name(&mut self, (uid, version): &State, port: u64) -> String {
        let states = self.states.get(uid);
        let earlier = states.into_iter().flat_map(|states| states.range(..=version).rev());
        let since = earlier.take_while(|(_, ports)| ports.contains(&port)).last().map_or(0, |(since, _)| *since);
        let next = format!("PORT-{}", self.names.len());
        self.names.entry((uid.clone(), since, port)).or_insert(next).clone()
    }
}

/// The state that an object is in.
pub(super) fn state(object: &Value) -> Option<State> {
    let text = |key: &str| object["metadata"][key].as_str();
    Some((text("uid")?.to_owned(), text("resourceVersion")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Ports;

    #[test]
    fn a_port_that_is_drawn_again_is_another_one() {
        let service = |uid: &str, version: u64, port: u64| {
            json!({
                "metadata": {"uid": uid, "resourceVersion": version.to_string()},
                "spec": {"ports": [{"nodePort": port}]}
            })
        };
        let mut ports = Ports::default();
        ports.collect(&json!({"items": [service("a", 1, 30_100), service("a", 2, 30_100)]}));
        ports.collect(&json!([service("a", 3, 30_200), service("a", 5, 30_100), service("b", 4, 30_100)]));
        let mut name = |uid: &str, version: u64, port: u64| ports.name(&(uid.to_owned(), version), port);
        let first = name("a", 1, 30_100);
        assert_eq!(name("a", 2, 30_100), first, "it is kept");
        assert_ne!(name("a", 3, 30_200), first);
        assert_ne!(name("a", 5, 30_100), first, "it was given back before");
        assert_ne!(name("b", 4, 30_100), first, "another Service has it");
    }
}
