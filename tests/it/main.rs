//! What a user relies on, in sentences.

mod control_plane;
mod controllers;
mod fixture;
mod handlers;
mod layers;
