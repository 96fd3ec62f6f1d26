//! The command `graph`: the declared children of each controller.

use std::process::ExitCode;

use kooper_access::Controller;
use kooper_children::graph::Graph;
use kooper_runtime::BoxError;

use super::args::GraphFormat;
use super::invocation::Invocation;
use super::stdout::print;

/// Prints the slots of each controller.
pub(crate) fn graph(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let format = invocation.settings.graph;
    let controllers = invocation.controllers_quietly()?;
    let graphs = controllers.iter().map(|controller| written(controller, format));
    print(&graphs.collect::<Vec<_>>().join("\n"))
}

fn written(controller: &Controller, format: GraphFormat) -> String {
    let (name, graph) = (controller.name(), controller.extensions().get::<Graph>());
    match format {
        GraphFormat::Text if graph.nodes().is_empty() && graph.previous().is_empty() => {
            format!("{name}: no declared children\n")
        }
        GraphFormat::Text => {
            let slots = graph.to_text();
            let indented: String = slots.lines().map(|line| format!("  {line}\n")).collect();
            format!("{name}: {}\n{indented}", controller.kind())
        }
        GraphFormat::Mermaid => format!("---\ntitle: {name}\n---\n{}", graph.to_mermaid()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kooper_access::KindExt;
    use kooper_children::{SlotExt, declare};
    use kube::ResourceExt;

    use super::*;

    fn password(_: &ConfigMap) -> Secret {
        Secret::default()
    }

    fn copy(_: &ConfigMap, password: &Secret) -> Option<ConfigMap> {
        password.labels().get("copied").map(|_| ConfigMap::default())
    }

    #[test]
    fn the_slots_of_a_controller_are_printed_as_text_and_as_a_diagram() {
        let children = declare().child(copy.with((password,))).child(password.slot().once()).build().expect("slots");
        let controller = ConfigMap::controller("shops").handler(children.handler(async || {})).build().expect("valid");
        let text = written(&controller, GraphFormat::Text);
        assert_eq!(text, "shops: ConfigMap\n  password  Secret      once\n    copy    ConfigMap?  (password)\n");
        let diagram = written(&controller, GraphFormat::Mermaid);
        assert!(diagram.starts_with("---\ntitle: shops\n---\nflowchart TD\n"), "{diagram}");
        assert!(diagram.contains("  s1 --> s0\n"), "{diagram}");
    }

    #[test]
    fn kinds_of_previous_children_are_printed_also_if_there_is_no_slot() {
        let children = declare::<ConfigMap, ()>().previous_children::<Secret>().build().expect("valid");
        let controller = ConfigMap::controller("shops").handler(children.handler(async || {})).build().expect("valid");
        assert_eq!(written(&controller, GraphFormat::Text), "shops: ConfigMap\n  previous children: Secret\n");
    }

    #[test]
    fn a_controller_without_declared_children_is_named() {
        let controller = ConfigMap::controller("idle").handler(async || {}).build().expect("valid");
        assert_eq!(written(&controller, GraphFormat::Text), "idle: no declared children\n");
    }
}
