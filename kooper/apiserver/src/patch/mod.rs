//! How a patch changes an object: strategic merge, JSON merge and server-side apply.
//!
//! Every function here is pure: it takes JSON values and a description of the
//! schema, and returns the patched value.
