//! The names of an installation on the API server, checked for all of its controllers.

use std::collections::HashMap;

use kooper_grammar::name;

use crate::controller::Controller;
use crate::controller::error::{BuildError, ConfigError, ConfigErrorKind};
use crate::installation::Installation;

/// The longest field manager: the API server takes 128 characters, and a healed child needs some of them.
const LONGEST_MANAGER: usize = 123;

/// Checks the names of the installation, and those of the Leases and field managers, which derive from them. Where the
/// namespace of the Leases is not known, it is empty.
///
/// # Errors
/// If a name is invalid, or two controllers have a Lease in common.
#[doc(hidden)]
pub fn check_names(controllers: &[Controller], installation: &Installation, namespace: &str) -> Result<(), BuildError> {
    if let Some(instance) = &installation.instance {
        name::label(instance).map_err(BuildError::Instance)?;
    }
    for one in controllers {
        let manager = one.field_manager(installation);
        if manager.len() > LONGEST_MANAGER {
            return Err(BuildError::FieldManager { manager, most: LONGEST_MANAGER });
        }
        if one.previous_program() == Some(&installation.program) {
            let problem = format!("`{}` is the current name of the program: set a previous one", installation.program);
            return Err(one.error("previous_program", ConfigErrorKind::Taken, problem).into());
        }
        for lease in one.shard_leases(installation, namespace).iter().flat_map(|leases| &leases.names) {
            name::subdomain(lease).map_err(|error| one.error("shards", ConfigErrorKind::Malformed, error))?;
        }
        if let Some(leases) = one.leases(installation, namespace) {
            let leases = std::iter::once(&leases.name).chain(leases.previous.iter().map(|previous| &previous.name));
            for lease in leases {
                name::subdomain(lease)
                    .map_err(|error| one.error("leader_election", ConfigErrorKind::Malformed, error))?;
            }
        }
    }
    check_leases(controllers, installation, namespace)?;
    Ok(())
}

/// No two controllers may have a Lease in common: it belongs to the first, and the other would never work.
fn check_leases(controllers: &[Controller], installation: &Installation, namespace: &str) -> Result<(), ConfigError> {
    let mut taken = HashMap::new();
    for one in controllers {
        let leader = one.leases(installation, namespace);
        let leader = leader.map(|leases| ("leader_election", leases.namespace, vec![leases.name]));
        let shards = one.shard_leases(installation, namespace);
        let shards = shards.map(|leases| ("shards", leases.namespace, leases.names));
        for (field, namespace, names) in leader.into_iter().chain(shards) {
            for lease in names.iter().map(|name| place(&namespace, name)) {
                if let Some((other, _)) = taken.get(&lease) {
                    let problem = format!(
                        "the controller `{other}` has the Lease {lease}, too, and only one of the two would work: set \
                         another `lease` for one of them"
                    );
                    return Err(one.error(field, ConfigErrorKind::Taken, problem));
                }
                taken.insert(lease, (one.name(), field));
            }
        }
    }
    // The map of shards has no holder to wait for.
    let elected = |lease: &String| taken.get(lease).filter(|(_, field)| *field == "leader_election");
    for one in controllers {
        let Some(leases) = one.leases(installation, namespace) else { continue };
        for previous in &leases.previous {
            let lease = place(&leases.namespace, &previous.name);
            let Some((other, _)) = elected(&lease).filter(|(other, _)| *other != one.name()) else { continue };
            let problem = format!(
                "the controller `{other}` has the Lease {lease}, and this one would wait for its release: set another \
                 `lease` for `{other}`"
            );
            return Err(one.error(previous.owner.key(), ConfigErrorKind::Taken, problem));
        }
    }
    Ok(())
}

fn place(namespace: &str, lease: &str) -> String {
    if namespace.is_empty() { lease.to_owned() } else { format!("{namespace}/{lease}") }
}
