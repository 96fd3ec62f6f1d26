//! The slots of an object, as a graph with their states.

use std::fmt::{self, Write};
use std::sync::Arc;

use kooper_children::SlotMemory;
use kooper_children::graph::{Graph, Node};
use kooper_children::plan::SlotState;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::controller::view::ControllerView;

use super::escaped::Escaped;

/// The size of a slot, and the distance to the next one.
const SIZE: (usize, usize) = (180, 58);
const GAP: (usize, usize) = (50, 14);

/// The longest text in a slot, in characters.
const LONGEST: usize = 22;

/// The slots of an object.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) key: ObjectKey,
    pub(crate) graph: Arc<Graph>,
    /// Their states; `None` before the first pass, and while the object is being deleted.
    pub(crate) states: Option<Vec<SlotState>>,
}

impl Slots {
    /// The slots of an object, if its controller has declared some.
    pub(super) fn of(view: &ControllerView, key: &ObjectKey) -> Option<Self> {
        let graph = view.extensions().get::<Graph>();
        let slots = graph.nodes().len();
        if slots == 0 || !view.is_cached(key) {
            return None;
        }
        let states = view.extensions().get::<SlotMemory>().of(key, slots);
        Some(Self { key: key.clone(), graph, states })
    }

    fn state(&self, slot: usize) -> Option<&SlotState> {
        self.states.as_ref()?.get(slot)
    }

    /// The place of each slot: a column for each depth.
    fn places(&self) -> Vec<(usize, usize)> {
        let mut rows: Vec<usize> = Vec::new();
        let place = |node: &Node| {
            let column = node.depth() as usize;
            rows.resize(rows.len().max(column + 1), 0);
            rows[column] += 1;
            (column * (SIZE.0 + GAP.0) + 1, (rows[column] - 1) * (SIZE.1 + GAP.1) + 1)
        };
        self.graph.nodes().iter().map(place).collect()
    }

    /// Writes the graph, and a table of the slots that are not ready.
    pub(super) fn write(&self, html: &mut String) -> fmt::Result {
        let (nodes, places) = (self.graph.nodes(), self.places());
        let width = places.iter().map(|place| place.0 + SIZE.0 + 1).max().unwrap_or_default();
        let height = places.iter().map(|place| place.1 + SIZE.1 + 1).max().unwrap_or_default();
        let key = Escaped(self.key.as_str());
        write!(
            html,
            "<h3>Slots of {key}</h3>\n<div class=\"wide\"><svg class=\"slots\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"The slots of {key}, and what they wait for\">\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n"
        )?;
        let find = |name: &String| nodes.iter().position(|node| node.spec.name == *name);
        for (slot, node) in nodes.iter().enumerate() {
            let inputs = node.spec.inputs.iter().map(|name| (name, "input"));
            for (name, class) in inputs.chain(node.spec.after.iter().map(|name| (name, "after"))) {
                let Some(other) = find(name) else { continue };
                let ((x, y), (end, last)) = (places[other], places[slot]);
                let (x, y, last) = (x + SIZE.0, y + SIZE.1 / 2, last + SIZE.1 / 2);
                let middle = (x + end) / 2;
                writeln!(
                    html,
                    "<path class=\"{class}\" d=\"M{x} {y}C{middle} {y} {middle} {last} {end} {last}\" \
                     marker-end=\"url(#arrow)\"/>"
                )?;
            }
        }
        for (slot, (node, (x, y))) in nodes.iter().zip(places).enumerate() {
            self.write_slot(html, slot, node, (x, y))?;
        }
        html.push_str("</svg></div>\n");
        self.write_reasons(html)
    }

    fn write_slot(&self, html: &mut String, slot: usize, node: &Node, (x, y): (usize, usize)) -> fmt::Result {
        let state = self.state(slot);
        let (class, word) = state.map_or(("", "no pass yet"), described);
        let kind = format!("{}{}", node.spec.kind, node.spec.returns);
        let (left, width, height) = (x + 10, SIZE.0, SIZE.1);
        write!(html, "<g class=\"slot {class}\"><title>{}: {kind}: {word}", Escaped(&node.spec.name))?;
        if let Some(why) = state.and_then(SlotState::reason) {
            write!(html, ": {}", Escaped(why))?;
        }
        let (name, kind) = (short(&node.spec.name), short(&kind));
        let dash = if node.spec.flags.external { " class=\"external\"" } else { "" };
        writeln!(
            html,
            "</title><rect{dash} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
             <text class=\"name\" x=\"{left}\" y=\"{}\">{}</text><text x=\"{left}\" y=\"{}\">{}</text>\
             <text class=\"state\" x=\"{left}\" y=\"{}\">{word}</text></g>",
            y + 18,
            Escaped(&name),
            y + 34,
            Escaped(&kind),
            y + 50
        )
    }

    /// Names the slots that are not ready, with their reasons.
    fn write_reasons(&self, html: &mut String) -> fmt::Result {
        let slots = self.graph.nodes().iter().enumerate();
        let reasons = slots.filter_map(|(slot, node)| {
            let state = self.state(slot)?;
            Some((&node.spec.name, described(state), state.reason()?))
        });
        let mut reasons = reasons.peekable();
        if reasons.peek().is_none() {
            return Ok(());
        }
        html.push_str("<ul>\n");
        for (name, (class, word), why) in reasons {
            writeln!(
                html,
                "<li><b>{}</b> <span class=\"{class}\">{word}</span>: {}</li>",
                Escaped(name),
                Escaped(why)
            )?;
        }
        html.push_str("</ul>\n");
        Ok(())
    }
}

/// The class of a state, and a word for it.
fn described(state: &SlotState) -> (&'static str, &'static str) {
    match state {
        SlotState::Ready => ("good", "ready"),
        SlotState::NotReady(_) => ("waits", "not ready"),
        SlotState::Held(_) => ("waits", "held"),
        SlotState::Pending => ("waits", "pending"),
        SlotState::Skipped => ("", "skipped"),
        SlotState::Failed(_) => ("bad", "failed"),
        SlotState::Stalled(_) => ("bad", "stalled"),
        SlotState::Unhealthy(_) => ("bad", "unhealthy"),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kooper_children::graph::SlotSpec;

    use super::*;

    fn slots(states: Option<Vec<SlotState>>) -> String {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let slot = |name: &str, kind: &str, inputs: &[&str], after: &[&str]| SlotSpec {
            name: name.to_owned(),
            kind: kind.to_owned(),
            inputs: names(inputs),
            after: names(after),
            ..SlotSpec::default()
        };
        let specs = vec![
            slot("config", "ConfigMap", &[], &[]),
            slot("password", "Secret", &[], &[]),
            slot("web", "Deployment", &["config", "password"], &[]),
            slot("front", "Service", &[], &["web"]),
        ];
        let graph = Arc::new(Graph::new(specs).expect("valid"));
        let mut html = String::new();
        let slots = Slots { key: ObjectKey::namespaced("shop", "a"), graph, states };
        slots.write(&mut html).expect("a string");
        html
    }

    #[test]
    fn slots_are_drawn_with_their_states_and_what_they_wait_for() {
        let html = slots(Some(vec![
            SlotState::Ready,
            SlotState::Failed("</title><script>".to_owned()),
            SlotState::Held("waits for password".to_owned()),
            SlotState::Held("waits for web".to_owned()),
        ]));
        assert_eq!(html.matches("<path class=\"input\"").count(), 2, "{html}");
        assert_eq!(html.matches("<path class=\"after\"").count(), 1, "{html}");
        assert!(html.contains("<g class=\"slot good\"><title>config: ConfigMap: ready</title>"), "{html}");
        assert!(html.contains("<title>web: Deployment: held: waits for password</title>"), "{html}");
        assert!(
            html.contains("<li><b>password</b> <span class=\"bad\">failed</span>: &lt;/title&gt;&lt;script&gt;</li>")
        );
        assert!(!html.contains("<script>"), "{html}");
        // A column for each depth: two slots below each other, and then one in each.
        assert!(html.contains("viewBox=\"0 0 642 132\""), "{html}");
    }

    #[test]
    fn slots_without_a_pass_have_no_state() {
        let html = slots(None);
        assert_eq!(html.matches(">no pass yet</text>").count(), 4, "{html}");
        assert!(!html.contains("<ul>"), "{html}");
    }

    #[test]
    fn long_names_are_cut_off() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short(&"ä".repeat(LONGEST)), "ä".repeat(LONGEST));
        assert_eq!(short(&"ä".repeat(LONGEST + 1)), "ä".repeat(LONGEST - 1) + "…");
    }
}
