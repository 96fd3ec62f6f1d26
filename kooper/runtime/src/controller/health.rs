//! Readiness and liveness of the process.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::controller::view::ControllerView;
use crate::error::panic_text;
use crate::metrics::health::Probe;

/// The health of the process, as `/healthz` and `/readyz` report it. Clones share
/// their state.
///
/// A generated program serves it. With an `Operator` of your
/// own, pass one to its builder, and serve it with
/// `Listener`, or from a server of your own, after `build`:
///
/// ```
/// use kooper::{Health, Operator};
///
/// let health = Health::default();
/// let operator = Operator::builder().health(health.clone());
/// # let _ = operator;
///
/// // No check is registered before the operator is built.
/// assert_eq!(health.ready().as_deref(), Ok("ok\n"));
/// ```
#[doc(alias = "healthz")]
#[doc(alias = "readyz")]
#[doc(alias = "probe")]
#[derive(Clone, Default)]
pub struct Health {
    probes: Arc<Mutex<Vec<Arc<dyn Probe>>>>,
    controllers: Arc<Mutex<Vec<Registered>>>,
}

/// A controller of the process, which it does not keep alive.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its name.
    pub name: Arc<str>,
    /// The resource that it handles.
    pub resource: String,
    /// The controller, until it ends.
    pub view: Weak<ControllerView>,
}

impl Health {
    /// Adds a check of the program's own to `/readyz`: an `Err` is the reason why the process is not
    /// ready, and so is a panic. A replica that is not ready works on, but Services leave it out, also
    /// that of the webhooks, and a roll-out waits for it.
    ///
    /// The check is called for each request, and must not block: let it read what a task has found
    /// out. Everyone sees its name, and who may read `/readyz?verbose` its reason.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use kooper::Health;
    ///
    /// let (health, connected) = (Health::default(), Arc::new(AtomicBool::new(false)));
    /// let read = connected.clone();
    /// health.add_readyz_check("database", move || {
    ///     if read.load(Ordering::Relaxed) { Ok(()) } else { Err("it is not connected".to_owned()) }
    /// });
    ///
    /// assert_eq!(health.ready(), Err("database: it is not connected\n".to_owned()));
    /// connected.store(true, Ordering::Relaxed);
    /// assert!(health.ready().is_ok());
    /// ```
    pub fn add_readyz_check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add(Arc::new(Check { name: name.into(), is_liveness: false, check }));
    }

    /// Adds a check of the program's own to `/healthz`, as [`add_readyz_check`](Self::add_readyz_check)
    /// does to `/readyz`. When it fails, the kubelet restarts the container: use it only for what a
    /// restart mends.
    pub fn add_healthz_check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add(Arc::new(Check { name: name.into(), is_liveness: true, check }));
    }

    #[doc(hidden)]
    pub fn add(&self, probe: Arc<dyn Probe>) {
        self.probes.lock().push(probe);
    }

    /// Adds a controller, in place of one of the same name that has ended.
    pub(super) fn add_controller(&self, view: &Arc<ControllerView>) {
        let added =
            Registered { name: view.name().into(), resource: view.kind().resource(), view: Arc::downgrade(view) };
        let mut all = self.controllers.lock();
        all.retain(|known| known.name != added.name || known.view.strong_count() > 0);
        all.push(added);
    }

    /// The controllers of the process, also those that have ended.
    #[doc(hidden)]
    #[must_use]
    pub fn controllers(&self) -> Vec<Registered> {
        self.controllers.lock().clone()
    }

    /// Checks that every watch is synced and receives events. The returned string
    /// begins with `ok`, followed by remarks, one per line.
    ///
    /// # Errors
    /// The reasons why the process is not ready, one per line.
    pub fn ready(&self) -> Result<String, String> {
        self.collect(|probe| probe.ready())
    }

    /// The checks.
    #[doc(hidden)]
    #[must_use]
    pub fn probes(&self) -> Vec<Arc<dyn Probe>> {
        self.probes.lock().clone()
    }

    /// Checks that the process can continue without a restart.
    ///
    /// # Errors
    /// The reasons why only a restart helps, one per line.
    pub fn alive(&self) -> Result<String, String> {
        self.collect(|probe| probe.alive().map(|()| None))
    }

    fn collect(&self, check: impl Fn(&dyn Probe) -> Result<Option<String>, String>) -> Result<String, String> {
        let mut remarks = String::new();
        let mut reasons = String::new();
        for probe in self.probes() {
            match check(&*probe) {
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

/// A check of the program's own.
struct Check<F> {
    name: String,
    is_liveness: bool,
    check: F,
}

impl<F: Fn() -> Result<(), String>> Check<F> {
    fn run(&self, is_liveness: bool) -> Result<(), String> {
        if is_liveness != self.is_liveness {
            return Ok(());
        }
        catch_unwind(AssertUnwindSafe(&self.check))
            .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))))
            .map_err(|reason| format!("{}: {reason}", self.name))
    }
}

impl<F: Fn() -> Result<(), String> + Send + Sync> Probe for Check<F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ready(&self) -> Result<Option<String>, String> {
        self.run(false).map(|()| None)
    }

    fn alive(&self) -> Result<(), String> {
        self.run(true)
    }
}
