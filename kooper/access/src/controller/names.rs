//! The names of a controller on the API server, which derive from those of the installation.

use std::iter::once;

use kooper_runtime::internal::controller::config::{Leases, Names};
use kooper_runtime::leader::{LeaseOwner, PreviousLease};

use super::Controller;
use crate::installation::Installation;

impl Controller {
    /// Its names in an installation whose Leases are in `namespace`.
    pub(super) fn names(&self, installation: &Installation, namespace: &str) -> Names {
        Names {
            installation: installation.to_string(),
            managers: self.managers(installation),
            previous_managers: self.previous_managers(installation),
            leases: self.leases(installation, namespace),
        }
    }

    /// The current and previous names of program and controller, the latest first.
    fn all_names<'a>(&'a self, program: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let programs = once(program).chain(self.previous_program());
        programs.flat_map(move |program| {
            let names = once(self.name()).chain(self.previous_names().iter().map(String::as_str));
            names.map(move |name| (program, name))
        })
    }

    /// The field manager, `<program>/<controller>` or `<program>.<instance>/<controller>`.
    pub(crate) fn field_manager(&self, installation: &Installation) -> String {
        format!("{installation}/{}", self.name())
    }

    /// All field managers whose fields are its own. Requests of a `Client` without a field manager
    /// have that of the user agent, which begins with the program.
    #[doc(hidden)]
    #[must_use]
    pub fn managers(&self, installation: &Installation) -> Vec<String> {
        let own = [self.field_manager(installation), installation.program.clone()];
        own.into_iter().chain(self.previous_managers(installation)).collect()
    }

    /// The field managers of previous names, and of an installation that had no instance name.
    fn previous_managers(&self, installation: &Installation) -> Vec<String> {
        let names = || self.all_names(&installation.program);
        let unnamed = names().filter(|_| installation.instance.is_some());
        let unnamed = unnamed.map(|(program, name)| format!("{program}/{name}"));
        names().skip(1).map(|(program, name)| format!("{}/{name}", installation.of(program))).chain(unnamed).collect()
    }

    /// Its leases in an installation; `None` without leader election. They are in `namespace` unless
    /// the settings name another one.
    #[doc(hidden)]
    #[must_use]
    pub fn leases(&self, installation: &Installation, namespace: &str) -> Option<Leases> {
        let (lease, own_namespace) = self.spec.config.leader.as_ref()?.place();
        let shared = |(program, name): (&str, &str)| format!("{program}-{name}");
        let own = lease.map_or_else(|| shared((&installation.program, self.name())), str::to_owned);
        let name = installation.name(&own);
        let previous = |lease: String, owner| PreviousLease { name: lease, owner };
        let mut all: Vec<_> =
            installation.instance.iter().map(|_| previous(own.clone(), LeaseOwner::NoInstance)).collect();
        for names in self.all_names(&installation.program).skip(1) {
            let owner = if names.0 == installation.program { LeaseOwner::Controller } else { LeaseOwner::Program };
            all.push(previous(installation.name(&shared(names)), owner));
            all.extend(installation.instance.iter().map(|_| previous(shared(names), owner)));
        }
        let marks = self.all_names(&installation.program);
        let mut marks = marks.map(|(program, name)| format!("{}/{name}", installation.of(program)));
        Some(Leases {
            name,
            namespace: own_namespace.unwrap_or(namespace).to_owned(),
            mark: marks.next().unwrap_or_default(),
            previous_marks: marks.collect(),
            previous: all,
        })
    }
}
