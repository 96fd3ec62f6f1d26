//! An installation of a program: what its leases, its account and its roles
//! are named after.

use std::fmt;

/// A program's name, and the instance that distinguishes this installation from
/// others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// As Kubernetes takes names.
    pub(crate) program: String,
    pub(crate) instance: Option<String>,
}

impl Installation {
    /// An installation of a program, whose name is brought into the form of Kubernetes' names.
    pub(crate) fn new(program: &str, instance: Option<String>) -> Self {
        Self { program: label(program), instance }
    }

    /// What this installation has under a name that all of them would share.
    /// A dot is in no other part of the name, so that no two of them are the
    /// same.
    pub(crate) fn name(&self, shared: &str) -> String {
        match &self.instance {
            Some(instance) => format!("{shared}.{instance}"),
            None => shared.to_owned(),
        }
    }

    /// The same instance of a program of another name.
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

/// A program's name as Kubernetes takes names: `my_program` is `my-program`.
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
    fn every_program_has_a_name_that_kubernetes_takes() {
        let long = "x".repeat(70);
        for (program, expected) in
            [("echo-pod", "echo-pod"), ("My_Program", "my-program"), ("_", "kooper"), (&long, &long[..63])]
        {
            assert_eq!(label(program), expected);
            assert!(kooper_grammar::name::label(&label(program)).is_ok());
        }
    }
}
