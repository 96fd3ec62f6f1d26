//! What the integration tests stand on.

pub mod control_plane;
