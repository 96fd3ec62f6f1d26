//! What a controller's signature says it needs, known before it runs.

use kooper_grammar::access::Rule;

/// Collects what the arguments of a handler need.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    client: bool,
    access: Option<Vec<Rule>>,
}

impl Plan {
    /// Something takes a client: the controller cannot run without a server.
    pub fn needs_client(&mut self) {
        self.client = true;
    }

    /// Whether something takes a client.
    pub fn takes_client(&self) -> bool {
        self.client
    }

    /// Notes the rules that `access` names, beyond what the arguments bring.
    pub(crate) fn grant(&mut self, rules: Vec<Rule>) {
        self.access = Some(rules);
    }

    /// The rules that `access` names; `None` where it was not given.
    pub fn access(&self) -> Option<&[Rule]> {
        self.access.as_deref()
    }
}
