//! Resource usage of a process, as reported by the kernel.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Clock ticks a second in `/proc/<pid>/stat`: the kernel's interface says 100 whatever its own clock is.
const TICKS: u64 = 100;

/// A process whose use of the machine is read.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pid: u32,
}

impl Usage {
    /// The use of a process.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// CPU time since it started, in user and kernel mode, of all its threads.
    pub fn cpu(self) -> Result<Duration> {
        let stat = self.read("stat")?;
        // The name, second and in parentheses, may hold blanks; the fields after it don't.
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        let mut ticks = 0;
        for field in fields.split(' ').skip(11).take(2) {
            ticks += field.parse::<u64>()?;
        }
        Ok(Duration::from_millis(ticks * 1_000 / TICKS))
    }

    /// The largest resident size since the start or [`Usage::forget_peak`], in megabytes.
    pub fn peak(self) -> Result<f64> {
        self.size("VmHWM:")
    }

    /// The resident size, in megabytes.
    pub fn resident(self) -> Result<f64> {
        self.size("VmRSS:")
    }

    /// Makes the present size the peak.
    pub fn forget_peak(self) -> Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5").context("resetting the peak of the resident size")
    }

    fn size(self, field: &str) -> Result<f64> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context("the process has ended")?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes * 1024.0 / 1e6)
    }

    fn read(self, file: &str) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).context("the process has ended")
    }
}
