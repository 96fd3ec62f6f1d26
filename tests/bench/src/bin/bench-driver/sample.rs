//! One measurement.

use std::fmt;
use std::time::Duration;

use kooper_bench::{Kind, Report};
use serde::Serialize;

/// Measurements of one program in one scenario of one run. Values that a scenario doesn't
/// measure are `None`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    pub(crate) program: &'static str,
    pub(crate) run: u32,
    pub(crate) stage: Stage,
    /// Wall time, in seconds.
    pub(crate) wall: Option<f64>,
    /// CPU time, in seconds.
    pub(crate) cpu: Option<f64>,
    /// CPU time of the API server meanwhile, in seconds.
    pub(crate) server: Option<f64>,
    /// Share of one core, in percent.
    pub(crate) share: Option<f64>,
    /// Peak of the resident size, in megabytes.
    pub(crate) peak: Option<f64>,
    /// Resident size at the end, in megabytes.
    pub(crate) resident: Option<f64>,
    /// Changes a second that the server took.
    pub(crate) rate: Option<f64>,
    /// CPU time for each change, in microseconds.
    pub(crate) cpu_each: Option<f64>,
    /// Counters of the program.
    pub(crate) report: Option<Report>,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// From the start to the last object.
    Sync,
    /// Nothing happens.
    Idle,
    /// Touches at this many a second.
    Latency(u32),
    /// The list after a 410.
    Relist,
    /// Touches and replacements for a long time.
    Churn,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("Cold sync"),
            Self::Idle => f.write_str("Idle"),
            Self::Latency(rate) => write!(f, "{rate} changes a second"),
            Self::Relist => f.write_str("Relist after 410"),
            Self::Churn => f.write_str("Churn"),
        }
    }
}

impl Sample {
    /// A measurement with nothing in it yet.
    pub(crate) fn new(kind: Kind, program: &'static str, run: u32, stage: Stage) -> Self {
        Self {
            kind,
            program,
            run,
            stage,
            wall: None,
            cpu: None,
            server: None,
            share: None,
            peak: None,
            resident: None,
            rate: None,
            cpu_each: None,
            report: None,
        }
    }

    /// Adds what came of a number of changes that took this long to write.
    pub(crate) fn with_changes(mut self, changes: usize, writing: Duration, cpu: Duration, report: Report) -> Self {
        self.rate = Some(changes as f64 / writing.as_secs_f64());
        self.cpu = Some(cpu.as_secs_f64());
        // Merged changes are handled in one call, but they all arrived.
        self.cpu_each = Some(cpu.as_secs_f64() * 1e6 / changes as f64);
        self.report = Some(report);
        self
    }
}
