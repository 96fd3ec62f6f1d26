//! The description of a controller of [Kooper](https://github.com/kooper-rs/kooper), and what a
//! call of its handler may do. Depend on the crate `kooper`, which re-exports the public items.
//!
//! The types end here: [`controller`] builds a controller of functions whose arguments are
//! extracted by their types ([`extract`], [`handler`]), and the runtime runs it without them.
//! [`plan`] is what arguments need before the controller runs; a [`capability`] is an argument
//! that grants one verb on one kind.

mod calls;
pub mod capability;
mod clock;
mod context;
pub mod controller;
mod crd;
mod duration;
pub mod events;
pub mod extract;
mod field_name;
pub mod handler;
mod installation;
pub mod plan;
mod rebase;
pub mod retriever;
mod schema;
mod settings;
mod states;
mod subset;
mod three_way_merge;

pub use capability::{
    AccessError, Applier, Conditions, Creator, Deleter, Evictor, Getter, OwnedApplier, Patcher, Reader, Recorder,
    StatusWriter,
};

pub use clock::Clock;
pub use controller::error::{BuildError, ConfigError, ConfigErrorKind, RunError};
pub use controller::operator::Operator;
pub use controller::{Controller, KindExt};
pub use duration::{DurationError, GoDuration};
pub use extract::State;
pub use handler::outcome::Status;
pub use settings::{SecretValue, Settings};

/// The items for the other crates of Kooper. No part of it is stable.
#[doc(hidden)]
pub mod internal {
    pub use crate::calls::{Additions, CallTotals, Failing};
    pub use crate::capability::{ADOPTED, OWNER, OwnedApplyOptions, ReservedStatus, has_marked, note_marked};
    pub use crate::context::extensions;
    pub use crate::controller::builder::Sample;
    pub use crate::controller::operator::{DRAIN, check_controllers, check_names};
    pub use crate::field_name::FieldName;
    pub use crate::installation::Installation;
    pub use crate::rebase::rebase;
    pub use crate::settings::GivenSettings;
    pub use kooper_sharding::{BUCKET, bucket_of_owner};
    pub mod crd {
        pub use crate::crd::{
            Advice, InstallError, InstallPlan, Installer, PROGRAM, annotated, is_established, lacking, merged, older,
            taken_names,
        };
    }
    pub mod schema {
        pub use crate::schema::{KindOf, OtherKind, may_have_field};
    }
    pub mod three_way_merge {
        pub use crate::three_way_merge::{
            apply_given_values, changed_fields, merge, merge_patch, three_way_merge, without_volatile_fields,
        };
    }
}
