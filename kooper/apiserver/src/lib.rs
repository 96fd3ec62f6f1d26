//! The Kubernetes API, served inside a Rust process.
//!
//! An in-memory API server for tests and development: any client of the
//! Kubernetes API can talk to it. It is not meant for production.
//!
//! Reading order follows a request: it is routed, admitted, stored and answered.

pub mod patch;
