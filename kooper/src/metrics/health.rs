//! Whether the process is ready, and whether it can still help itself.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// What the listener's `/healthz` and `/readyz` ask. Cloneable; every clone
/// is the same.
#[derive(Clone, Default)]
pub struct Health {
    probes: Arc<Mutex<Vec<Arc<dyn Probe>>>>,
}

/// A part of the process that knows how it is.
pub(crate) trait Probe: Send + Sync {
    /// Ready, with a remark if there is one; or why not.
    fn ready(&self) -> Result<Option<String>, String>;

    /// Why only a restart of the process helps, if that is so.
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Health {
    pub(crate) fn add(&self, probe: Arc<dyn Probe>) {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner).push(probe);
    }

    /// `Ok` when every watch is synced and heard from; the text says what
    /// there is to say, or every reason why not, a line each.
    ///
    /// # Errors
    /// The reasons why the process is not ready.
    pub fn ready(&self) -> Result<String, String> {
        self.ask(|probe| probe.ready())
    }

    /// `Err` only when a restart of the process is the way out.
    ///
    /// # Errors
    /// The reasons why only a restart helps.
    pub fn alive(&self) -> Result<String, String> {
        self.ask(|probe| probe.alive().map(|()| None))
    }

    fn ask(&self, question: impl Fn(&dyn Probe) -> Result<Option<String>, String>) -> Result<String, String> {
        let probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut remarks = String::new();
        let mut reasons = String::new();
        for probe in &probes {
            match question(&**probe) {
                Ok(None) => {}
                Ok(Some(remark)) => drop(writeln!(remarks, "{remark}")),
                Err(reason) => drop(writeln!(reasons, "{reason}")),
            }
        }
        if reasons.is_empty() { Ok(format!("ok\n{remarks}")) } else { Err(reasons) }
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").field("ready", &self.ready()).finish()
    }
}
