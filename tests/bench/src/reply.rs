//! The lines a program writes.

use serde::{Deserialize, Serialize};

/// One line of a program's standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Reply {
    /// Every object was seen once.
    Synced {
        /// Number of objects.
        objects: usize,
    },
    /// As many changes were seen as the last reset asked for.
    Reached {
        /// Number of changes.
        changes: usize,
    },
    /// The counters are zero again.
    Reset,
    /// The counters.
    Report(Report),
}

impl Reply {
    /// Writes the line to standard output.
    pub fn print(&self) {
        // The driver is gone when standard output is: the end of standard input ends the program.
        if let Ok(line) = serde_json::to_string(self) {
            println!("{line}");
        }
    }
}

/// Counters of a program since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Distinct objects seen since the start; a reset leaves it.
    pub objects: usize,
    /// Handler calls.
    pub calls: u64,
    /// Sum of the lengths of the spec field that the handler read.
    pub read: u64,
    /// Changes seen.
    pub changes: usize,
    /// Median latency of a change, in microseconds.
    pub p50_us: u64,
    /// 99th percentile of the latency, in microseconds.
    pub p99_us: u64,
    /// Longest latency, in microseconds.
    pub max_us: u64,
}
