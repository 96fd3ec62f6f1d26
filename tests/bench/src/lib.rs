//! Kooper beside its peers: one real API server, one driver, programs that speak one small protocol.
//!
//! `bench-driver` loads the objects, starts one program after another, writes to the objects and reads
//! CPU time and peak memory of the program from `/proc`.
//!
//! # Protocol
//!
//! A program is started with
//!
//! ```text
//! PROGRAM --kubeconfig FILE --kind pods|crs --expect N --workers 4
//! ```
//!
//! and runs one controller over all objects of that kind, without resync, with that many workers and
//! without a limit on its request rate. Objects are named `bench-<index>`, the index below `N`.
//! For each call its handler
//!
//! 1. reads a field of the spec (the image of a pod's first container, a widget's image), so that lazy
//!    decoding skips nothing;
//! 2. reads the annotation [`SENT`]: when the driver wrote it, in nanoseconds since 1970, or `0`;
//! 3. hands both to its tally ([`Tally::saw`] in Rust).
//!
//! The tally keeps eight bytes for each index: the last [`SENT`] seen. A value that differs from the last
//! one of an index that was seen before is a *change*, and its latency is now minus that value.
//!
//! Standard output carries one JSON line for each of these, and nothing else:
//!
//! | line | when |
//! |---|---|
//! | `{"event":"synced","objects":N}` | the N-th distinct object was seen |
//! | `{"event":"reached","changes":M}` | M changes were seen since the last `reset M` |
//! | `{"event":"reset"}` | answer to `reset M` |
//! | `{"event":"report", …}` | answer to `report`: a [`Report`] |
//!
//! Standard input carries one command a line:
//!
//! | command | does |
//! |---|---|
//! | `reset M` | forgets calls and latencies and starts to count to M (`0`: doesn't) |
//! | `report` | prints what was counted since the last `reset` |
//! | `quit`, or the end of the input | ends the process with 0 |
//!
//! Logs go to standard error. In Rust, [`Flags`] and [`console::serve`] are the whole of it; `bench-kube`
//! is the shortest example.

mod api;
mod comparison;
pub mod console;
pub mod document;
mod etcd;
mod flags;
mod held;
mod metric;
mod proxy;
mod reply;
mod running;
mod subject;
mod tally;
mod usage;
mod widget;
mod wiki;

pub use api::{Api, send};
pub use comparison::{Program, compare, median};
pub use etcd::Etcd;
pub use flags::{Flags, Kind, client, config};
pub use held::longest_held;
pub use metric::metric;
pub use proxy::Proxy;
pub use reply::{Reply, Report};
pub use running::Running;
pub use subject::{PodImage, Subject, WidgetImage, sent};
pub use tally::{Tally, now};
pub use usage::Usage;
pub use widget::{Backup, Condition, Listener, Setting, Widget, WidgetSpec, WidgetStatus};
pub use wiki::{Wiki, WikiSpec, WikiStatus, apply_by_hand, wiki_children};

/// The annotation that says when the driver wrote the object.
pub const SENT: &str = "bench.kooper.dev/sent";
