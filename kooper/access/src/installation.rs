//! An installation of a program. The names of its leases, service account and
//! roles derive from it.

use std::fmt;

/// A program's name, and the instance that distinguishes this installation from
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The program's name in the form of Kubernetes' names.
    pub program: String,
    /// The name of the instance; `None` for an installation without an instance name.
    pub instance: Option<String>,
}

impl Installation {
    /// An installation of a program, whose name is converted to a valid Kubernetes name.
    #[must_use]
    pub fn new(program: &str, instance: Option<String>) -> Self {
        Self { program: label(program), instance }
    }

    /// The name of this installation's object, from the name that all
    /// installations would share. No other part of the name contains a dot, so two
    /// installations never have the same name.
    #[must_use]
    pub fn name(&self, shared: &str) -> String {
        match &self.instance {
            Some(instance) => format!("{shared}.{instance}"),
            None => shared.to_owned(),
        }
    }

    /// The same instance of a program with another name.
    pub(crate) fn of(&self, program: &str) -> Self {
        Self { program: program.to_owned(), instance: self.instance.clone() }
    }
}

/// `shop`, or `shop.blue` with an instance name.
impl fmt::Display for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name(&self.program))
    }
}

/// Converts a program's name to a valid Kubernetes name: `my_program` becomes `my-program`.
fn label(program: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = program.chars().map(plain).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "kooper".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_valid_kubernetes_name() {
        let long = "x".repeat(70);
        for (program, expected) in
            [("echo-pod", "echo-pod"), ("My_Program", "my-program"), ("_", "kooper"), (&long, &long[..63])]
        {
            assert_eq!(label(program), expected);
            assert!(kooper_grammar::name::label(&label(program)).is_ok());
        }
    }
}
