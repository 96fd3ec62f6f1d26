//! The protobuf encoding of Kubernetes' built-in kinds, to and from JSON.
//!
//! An API server sends and accepts its built-in kinds as
//! `application/vnd.kubernetes.protobuf`, see [`CONTENT_TYPE`]. This crate
//! transcodes between that and the JSON that the same server would send. It has
//! no generated types: one decoder and one encoder follow a table of 80 KB,
//! which is made from the struct tags of Kubernetes 1.33 to 1.37 itself.
//!
//! ```
//! use kooper_protobuf::{Envelope, Kind};
//! use serde_json::json;
//!
//! let kind = Kind::of("v1", "Namespace").expect("it is built in");
//! let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}});
//! let bytes = kind.encode(&namespace)?;
//!
//! let envelope = Envelope::open(&bytes)?;
//! assert_eq!((envelope.api_version(), envelope.kind()), ("v1", "Namespace"));
//! let decoded = kind.decode_value(envelope.raw())?;
//! // As a server writes it.
//! assert_eq!(decoded["metadata"], json!({"name": "shop"}));
//! assert_eq!(decoded["spec"], json!({}));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Kind::deserialize`] reads an object into a type, such as one of `k8s-openapi`, without
//! JSON between them. The type gets the same values as from the JSON.
//!
//! Fields that the table does not have are skipped, as an older client of
//! Kubernetes does. Whatever the input is, decoding returns an error that names
//! message, field and offset, or it succeeds; it never panics, and its nesting
//! is limited.

mod canonical;
mod decode;
mod deserialize;
mod encode;
mod envelope;
mod error;
mod fields;
mod json;
mod kind;
mod lexer;
mod list;
mod pages;
mod schema;
mod table;
mod time;
pub mod watch;
mod wire;

pub use self::envelope::Envelope;
pub use self::error::{DecodeError, EncodeError};
pub use self::fields::{RawField, RawFields};
pub use self::kind::Kind;
pub use self::list::List;
pub use self::pages::{ListMetadata, ListReader};
pub use self::schema::Schema;

/// The media type of an encoded object.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
