//! A graph as text and as a Mermaid diagram.

use std::fmt::Write;

use super::{Graph, Node};

impl Graph {
    /// The slots as lines of text, each with its kind, what it waits for and its flags. The last line has the kinds of
    /// previous children, if there are some.
    ///
    /// ```
    /// use kooper_children::graph::{Graph, SlotSpec};
    ///
    /// let slot = |name: &str, kind: &str, inputs: &[&str]| SlotSpec {
    ///     name: name.to_owned(),
    ///     kind: kind.to_owned(),
    ///     inputs: inputs.iter().map(|&name| name.to_owned()).collect(),
    ///     ..SlotSpec::default()
    /// };
    /// let graph = Graph::new(vec![slot("web", "Deployment", &["config"]), slot("config", "ConfigMap", &[])])?;
    /// assert_eq!(graph.to_text(), "config  ConfigMap\n  web   Deployment  (config)\n");
    /// # Ok::<_, kooper_children::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn to_text(&self) -> String {
        let rows: Vec<_> = self.order.iter().map(|&slot| self.row(&self.nodes[slot])).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let (first, second) = (width(0), width(1));
        let mut text = String::new();
        for [name, kind, rest] in &rows {
            let line = format!("{name:first$}  {kind:second$}  {rest}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if !self.previous.is_empty() {
            let _ = writeln!(text, "previous children: {}", self.previous_kinds());
        }
        text
    }

    fn previous_kinds(&self) -> String {
        let kinds: Vec<_> = self.previous.iter().map(|kind| kind.kind.as_str()).collect();
        kinds.join(", ")
    }

    fn row(&self, node: &Node) -> [String; 3] {
        let spec = &node.spec;
        let name = format!("{:indent$}{}", "", spec.name, indent = 2 * node.depth() as usize);
        let mut rest = Vec::new();
        if !spec.inputs.is_empty() {
            rest.push(format!("({})", spec.inputs.join(", ")));
        }
        if !spec.after.is_empty() {
            rest.push(format!("after {}", spec.after.join(", ")));
        }
        rest.extend(spec.flags.names().map(str::to_owned));
        [name, format!("{}{}", spec.kind, spec.returns), rest.join(" ")]
    }

    /// The slots as a Mermaid flowchart. An input is a solid arrow, `after` a dotted one.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let mut text = "flowchart TD\n".to_owned();
        for &slot in &self.order {
            let spec = &self.nodes[slot].spec;
            let flags: Vec<_> = spec.flags.names().collect();
            let flags = if flags.is_empty() { String::new() } else { format!("<br/><i>{}</i>", flags.join(", ")) };
            let (open, close) = if spec.flags.external { ("([\"", "\"])") } else { ("[\"", "\"]") };
            // Writing to a string does not fail.
            let _ =
                writeln!(text, "  s{slot}{open}<b>{}</b><br/>{}{}{flags}{close}", spec.name, spec.kind, spec.returns);
        }
        for &slot in &self.order {
            let node = &self.nodes[slot];
            let inputs = node.inputs.iter().map(|other| (other, "-->"));
            for (other, arrow) in inputs.chain(node.after.iter().map(|other| (other, "-.->"))) {
                let _ = writeln!(text, "  s{other} {arrow} s{slot}");
            }
        }
        if !self.previous.is_empty() {
            let _ = writeln!(text, "  previous[\"<i>previous children</i><br/>{}\"]", self.previous_kinds());
        }
        text
    }
}
