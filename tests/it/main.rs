//! Behaviour that users rely on.

mod access;
mod bad_objects;
mod capabilities;
mod cluster;
mod control_plane;
mod controllers;
mod crd_commands;
mod crd_facts;
mod crds;
mod edited_children;
mod finalizers;
mod fixture;
mod handlers;
mod leader;
mod live;
mod logs;
mod namespaces;
mod own_writes;
mod parity;
mod patches;
mod rbac;
mod readers;
mod reliability;
mod rooms;
mod secrets;
mod watch_faults;
