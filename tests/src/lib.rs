//! Fixtures of the integration tests. Most panic if something fails or does not happen in time: the test ends then.

#![expect(clippy::must_use_candidate, reason = "most of these wait and assert: their values are a bonus")]

pub mod allocator;
pub mod control_plane;
pub mod dev;
pub mod faults;
pub mod https;
pub mod layers;
pub mod least_role;
pub mod nodes;
pub mod process;
pub mod prometheus;
pub mod responses;
pub mod tools;
pub mod wait;
pub mod yaml;
