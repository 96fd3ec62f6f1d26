//! What the integration tests stand on.

pub mod control_plane;
pub mod faults;
pub mod least_role;
pub mod nodes;
pub mod process;
pub mod wait;
