//! What a user relies on, in sentences.

mod access;
mod bad_objects;
mod control_plane;
mod controllers;
mod finalizers;
mod fixture;
mod handlers;
mod layers;
mod leader;
mod live;
mod readers;
mod watch_faults;
