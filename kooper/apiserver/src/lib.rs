//! The Kubernetes API, served inside a Rust process.
//!
//! An in-memory API server for tests and development: any client of the
//! Kubernetes API can talk to it. It is not meant for production.
//!
//! Reading order follows a request: [`server`] has its socket, [`walk`] takes it
//! in, [`route`] finds what it is about, [`auth`] whether its user may, [`verbs`]
//! what it does with the objects of [`kinds`], with [`admission`], [`prepare`] and
//! [`schema`] on the way; the [`store`] of the [`cluster`] keeps the result, and
//! [`controllers`] do what follows from it before the answer goes out. A module
//! imports from those before it, never in a circle.

#![allow(rustdoc::private_intra_doc_links, reason = "the reading order is for those who read the source")]

mod admission;
mod amounts;
mod auth;
mod bootstrap;
mod cause;
mod cel;
mod cluster;
mod conditions;
mod controllers;
mod convert;
mod crd;
mod decode;
mod defaults;
mod discovery;
mod escape;
pub mod faults;
mod fields;
mod form;
mod http;
mod identity;
mod kinds;
mod match_conditions;
mod meta;
mod openapi;
pub mod patch;
mod prepare;
mod print;
mod protobuf;
mod quantity;
mod random;
mod registry;
mod roles;
mod route;
mod schema;
mod select;
mod server;
mod status;
mod store;
mod task;
mod time;
mod tls;
mod usage;
mod validate;
mod verbs;
mod walk;
mod work;

pub use self::http::Body;
pub use self::identity::User;
pub use self::server::{ApiServer, Builder, Credentials, CredentialsError, Service, StoredObject};
