//! Declared children of [Kooper](https://github.com/kooper-rs/kooper)'s controllers: functions return the children
//! of an object, and Kooper applies them in order.
//!
//! A *slot* is a child function with what it depends on, see [`declare`]. [`graph`] checks and orders the slots of a
//! controller. [`mod@plan`] decides what is next: it is a function of the owner, its slots and what is [`observed`],
//! without any I/O. [`mod@readiness`] judges objects by the rules of their kind. An executor does the steps with the
//! capabilities of the runtime, which knows nothing of children.

mod children;
mod daemon;
mod declared;
mod executor;
pub mod function;
pub mod graph;
mod kind;
mod labels;
mod memory;
pub mod observed;
pub mod plan;
pub mod readiness;
mod record;
mod slot;
mod status;
mod typed;

pub use children::{Children, OfCall};
pub use daemon::NotingDaemon;
#[doc(hidden)]
pub use declared::DeletesInWaves;
pub use declared::{Applying, Declaration, Declared, Deleting, IntoSlot, OfFunction, OfSlot, WithChildren, declare};
pub use executor::wait;
pub use function::External;
#[doc(hidden)]
pub use labels::{CONTROLLER, DEPTH, KEEP, KEPT, SLOT};
#[doc(hidden)]
pub use memory::SlotMemory;
pub use slot::{Deletes, Fits, FunctionId, Keeps, Optional, Slot, SlotExt, SlotInputs, Verbs};
pub use status::{OwnerStatus, Reports, StatusFields};
pub use typed::{PlanSlot, Planned, PreviousChildren};
