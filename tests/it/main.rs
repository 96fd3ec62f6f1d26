//! What a user relies on, in sentences.

mod access;
mod bad_objects;
mod control_plane;
mod controllers;
mod crds;
mod fixture;
mod handlers;
mod layers;
mod live;
mod rbac;
mod watch_faults;
