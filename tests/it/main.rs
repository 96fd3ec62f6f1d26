//! Behaviour that users rely on.

mod fixture;
mod layering;
mod leader;
mod live;
mod seams;
mod shards;

mod queue {
    mod controllers;
    mod counting;
    mod failing_calls;
    mod handlers;
    mod own_writes;
    mod parity;
    mod stalls;
}

mod writes {
    mod capabilities;
    mod conflicts;
    mod deletion;
    mod edited_children;
    mod finalizers;
    mod patches;
}

mod watch {
    mod access;
    mod bad_objects;
    mod compression;
    mod encoding;
    mod faults;
    mod namespaces;
    mod readers;
    mod subset_caches;
}

mod program {
    mod assembled;
    mod charts;
    mod check_as;
    mod crd_commands;
    mod crd_facts;
    mod crds;
    mod dev;
    mod diff;
    pub(crate) mod dry_run;
    mod durations;
    mod logs;
    mod manifests;
    mod policies;
    mod rbac;
    mod secrets;
    mod secured;
    pub(crate) mod status_page;
    mod uninstall;
    mod webhook_url;
    mod webhooks;
}

mod cluster {
    mod attribute;
    mod children;
    mod clock;
    mod cron_jobs;
    mod daemons;
    mod exploration;
    mod garbage;
    mod namespace_selector;
    mod own_namespace;
    mod prioritized;
    mod same_end;
    mod settling;
    mod simulation;
    mod steered;
    mod tasks;
    mod triggers;
    mod webhooks;
}

mod end_to_end {
    mod helm;
    mod reliability;
}
