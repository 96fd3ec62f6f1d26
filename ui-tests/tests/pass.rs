//! Programs that the attribute accepts. Each controller is also defined, so that the builder
//! accepts it, too.

use kooper::__private::v1::{Definition, Program};

#[path = "../pass/arguments.rs"]
mod arguments;
#[path = "../pass/capabilities.rs"]
mod capabilities;
#[path = "../pass/children.rs"]
mod children;
#[path = "../pass/daemons.rs"]
mod daemons;
#[path = "../pass/hostile.rs"]
mod hostile;
#[path = "../pass/keys.rs"]
mod keys;
#[path = "../pass/kinds.rs"]
mod kinds;
#[path = "../pass/places.rs"]
mod places;
#[path = "../pass/reliable.rs"]
mod reliable;
#[path = "../pass/returns.rs"]
mod returns;
#[path = "../pass/settings.rs"]
mod settings;
#[path = "../pass/tasks.rs"]
mod tasks;
#[path = "../pass/webhooks.rs"]
mod webhooks;

/// The names of the controllers that a generated type defines.
fn names<D: Definition>() -> Vec<String> {
    let mut program = Program::default();
    D::define(&mut program);
    let controllers = program.into_controllers().expect("the builder accepts what the attribute accepted");
    controllers.iter().map(|controller| controller.name().to_owned()).collect()
}
