//! The driver's command line.

use std::path::PathBuf;

use kooper_bench::Kind;

use crate::Scenario;

/// Measures Kooper and its peers against one real API server.
#[derive(Debug, clap::Parser)]
pub(crate) struct Arguments {
    /// Number of objects of each kind.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) objects: u32,
    /// Number of measurements of each program.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Only this kind.
    #[arg(long, value_enum)]
    pub(crate) only: Option<Kind>,
    /// Duration of the last run's churn, in seconds.
    #[arg(long, default_value_t = 600)]
    pub(crate) churn: u64,
    /// The measurements; the cold sync is always one of them.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sync,idle,latency,relist,churn")]
    scenarios: Vec<Scenario>,
    /// A first look: the cold sync alone, one run.
    #[arg(long, conflicts_with_all = ["runs", "scenarios", "churn"])]
    quick: bool,
    /// Draw memory and time against the number of objects into this file, instead of measuring the scenarios.
    #[arg(long)]
    pub(crate) figure: Option<PathBuf>,
    /// The numbers of objects of the figure, in ascending order.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000,1000000")]
    pub(crate) sizes: Vec<u32>,
    /// Larger lists are replayed, not served by the real server.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) largest_real: u32,
    /// Only these programs, by name.
    #[arg(long, value_delimiter = ',')]
    pub(crate) programs: Vec<String>,
    /// The folder of the Go programs.
    #[arg(long)]
    pub(crate) peers: PathBuf,
    /// The folder of the Rust programs.
    #[arg(long)]
    pub(crate) binaries: PathBuf,
    /// Where raw results and logs go.
    #[arg(long)]
    pub(crate) output: PathBuf,
    /// The versions of the programs, for the heading.
    #[arg(long, default_value = "")]
    pub(crate) versions: String,
}

impl Arguments {
    /// The kinds to measure.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.only.map_or_else(|| vec![Kind::Pods, Kind::Crs], |kind| vec![kind])
    }

    /// Returns the number of times that each program is measured.
    pub(crate) fn runs(&self) -> u32 {
        if self.quick { 1 } else { self.runs }
    }

    /// Returns whether a scenario is selected.
    pub(crate) fn wants(&self, scenario: Scenario) -> bool {
        self.scenarios.contains(&scenario) && !self.quick
    }
}
