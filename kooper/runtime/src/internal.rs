//! The items that the other crates of Kooper use, by the module that they are in.

pub mod call {
    pub use crate::call::Tasks;
    pub mod action {
        pub use crate::call::action::Outcome;
    }
    pub mod finalizer {
        pub use crate::call::finalizer::{Finalizers, Retirement, set_by};
    }
    pub mod settings {
        pub use crate::call::settings::GivenSettings;
    }
}
pub mod client {
    pub use crate::client::abort::abort;
    pub use crate::client::stack::{ClientStack, Next, RequestLayer, ResponseBody, boxed, from_fn};
}
pub mod clock {
    pub use crate::clock::wall;
}
pub mod controller {
    pub use crate::controller::builder::Sample;
    pub use crate::controller::states::States;
    pub mod crd {
        pub use crate::controller::crd::{
            Advice, InstallError, InstallPlan, Installer, PROGRAM, annotated, is_established, lacking, merged, older,
        };
    }
    pub mod installation {
        pub use crate::controller::installation::Installation;
    }
    pub mod operator {
        pub use crate::controller::operator::DRAIN;
    }
    pub mod partition {
        pub use crate::controller::partition::Partition;
    }
    pub mod pass {
        pub use crate::controller::pass::{ControllerPass, Pass};
    }
    pub mod review {
        pub use crate::controller::review::{may, own_namespace};
    }
}
pub mod error {
    pub use crate::error::{chain, panic_text};
    pub mod redaction {
        pub use crate::error::redaction::{redact, remember};
    }
}
pub mod executor {
    pub use crate::executor::is_in_task;
}
pub mod leader {
    pub use crate::leader::lease::{MARK, SCOPE};
    pub mod lease_state {
        pub use crate::leader::lease_state::{
            Candidate, LeaseState, LeaseWrite, Lost, NextStep, Record, Terms, WriteResult,
        };
    }
    pub use crate::leader::new_identity;
    pub use crate::leader::watchdog::Watchdog;
}
pub mod metrics {
    #[cfg(feature = "measure")]
    pub use crate::metrics::held::measure::longest_held;
    pub mod health {
        pub use crate::metrics::health::Probe;
    }
    pub mod status {
        pub use crate::metrics::status::{
            CallState, ControllerState, Inspect, KeyState, Query, QueueCounts, Role, Rows, WatchState, shown,
        };
    }
    pub mod table {
        pub use crate::metrics::table::*;
    }
}
pub mod object {
    pub mod kind {
        pub use crate::object::kind::KindInfo;
    }
    pub mod named {
        pub use crate::object::named::Named;
    }
    pub mod segment {
        pub use crate::object::segment::{escape, unescape};
    }
    pub mod three_way_merge {
        pub use crate::object::three_way_merge::{
            changed_fields, essence, impose, merge, merge_patch, three_way_merge,
        };
    }
}
pub mod queue {
    pub use crate::queue::admission::Admission;
}
pub mod watch {
    pub mod cache_id {
        pub use crate::watch::cache_id::CacheId;
    }
    pub mod informer {
        pub use crate::watch::informer::Watched;
    }
    pub mod selection {
        pub use crate::watch::selection::CacheSelection;
    }
    pub mod selected {
        pub use crate::watch::selected::selects;
    }
    pub mod store {
        pub use crate::watch::store::{Cache, Store};
    }
}
