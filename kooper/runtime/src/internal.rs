//! The items that the other crates of Kooper use, by the module that they are in.

pub use kooper_base::{backoff, client, clock, debug_fields, error, executor};

pub mod call {
    pub use crate::call::Tasks;
    pub mod attempt {
        pub use crate::call::attempt::{Attempt, Failure, Part};
    }
    pub mod children {
        pub use crate::call::children::ChildObserver;
    }
    pub mod context {
        pub use crate::call::context::Written;
    }
    pub mod events {
        pub use crate::call::events::EventRecorder;
    }
    pub mod extensions {
        pub use crate::call::extensions::Extensions;
    }
    pub mod observer {
        pub use crate::call::observer::{CallObserver, EndedCall, Observe, Outcome};
    }
    pub mod worker {
        pub use crate::call::worker::Running;
    }
    pub mod finalizer {
        pub use crate::call::finalizer::{Finalizers, Retirement, set_by};
    }
    pub mod handler {
        pub use crate::call::handler::{DeletedFunction, DynHandler, Predicate};
    }
}
pub mod controller {
    pub use crate::controller::{Config, ControllerSpec, Hooks, Process, Runner};
    pub mod config {
        pub use crate::controller::config::{Leases, Names};
    }
    pub mod parts {
        pub use crate::controller::parts::{
            DynController, Handlers, InitContext, MakeIndex, MapKeys, Mapping, Priority, Relation, Trigger,
            TriggerStream,
        };
    }
    pub mod partition {
        pub use crate::controller::partition::Partition;
    }
    pub mod pass {
        pub use crate::controller::pass::{ControllerPass, Pass};
    }
    pub mod prerequisite {
        pub use crate::controller::prerequisite::{Prerequisite, PrerequisiteError};
    }
    pub mod review {
        pub use crate::controller::review::{may, review};
    }
    pub mod view {
        pub use crate::controller::health::Registered;
        pub use crate::controller::view::{ControllerView, WatchView};
    }
}
pub mod leader {
    pub use crate::leader::lease::{MARK, SCOPE};
    pub use crate::leader::shard::{SentIn, ShardTerm};
    pub use crate::leader::watchdog::{Elected, Watchdog};
    pub use crate::leader::{identity, is_fenced, new_identity};
}
pub mod held {
    pub use crate::held::{LockGuard, drop_aside};
}
pub mod metrics {
    #[cfg(feature = "measure")]
    pub use crate::held::measure::longest_held;
    pub use crate::metrics::PanicSafe;
    pub mod health {
        pub use crate::metrics::health::Probe;
    }
}
pub mod object {
    pub use crate::object::metadata::{OWNER, is_of_kind};
    pub use crate::object::version::older;
    pub mod as_object {
        pub use crate::object::as_object::AsObject;
    }
    pub mod kind {
        pub use crate::object::kind::{InProcess, KindInfo, is_metadata, short_type_name};
    }
    pub mod named {
        pub use crate::object::named::Named;
    }
    pub mod partial {
        pub use crate::object::partial::name_of;
    }
    pub mod segment {
        pub use crate::object::segment::{escape, unescape};
    }
}
pub mod protobuf {
    pub use kooper_protobuf::Schema;
}
pub mod queue {
    pub use crate::queue::admission::{Admission, AwaitedDeletion, Grant};
    pub use crate::queue::{AT_ONCE, ForbiddenKey, KeyView, NextRun, QueueCounts, Run, Timer, Waiting, WriteOrigin};
}
pub mod watch {
    pub mod cache_id {
        pub use crate::watch::cache_id::{CacheId, CacheRequest, CacheUse};
    }
    pub mod informer {
        pub use crate::watch::informer::{SharedWatches, Watched};
    }
    pub mod retriever {
        pub use crate::watch::retriever::{ErasedRetriever, ShardSelector, erase, fnv1a};
    }
    pub mod selection {
        pub use crate::watch::selection::{CacheSelection, SelectorState};
    }
    pub mod selected {
        pub use crate::watch::selected::{Selected, SelectorMismatch};
    }
    pub mod store {
        pub use crate::watch::store::{Cache, Change, IndexHit, Indexer, Store};
    }
}
