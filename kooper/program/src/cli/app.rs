//! A program of controllers.

use std::io;
use std::process::ExitCode;

use prometheus::Registry;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::run_command;
use crate::http::Routes;
use crate::{Declared, Definition, Program, ProgramSettings};
use kooper_access::controller::Builder;
use kooper_runtime::{Health, Kind};

/// A program of controllers, with the same commands and flags as a generated `main`:
/// `run`, `dev`, `rbac`, `manifests` and the others.
///
/// `main!` is a line over it. It is for programs whose controllers are
/// built by functions, or that have logs or metrics of their own.
///
/// ```no_run
/// use std::process::ExitCode;
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{App, KindExt};
///
/// async fn echo(pod: Arc<Pod>) {
///     println!("{:?}", pod.metadata.name);
/// }
///
/// fn main() -> ExitCode {
///     App::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
///         .about("Prints the names of pods.")
///         .controller(|| Pod::controller("echo").handler(echo))
///         .run()
/// }
/// ```
#[must_use = "a program does nothing until `run` is called"]
pub struct App {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) about: Vec<String>,
    pub(crate) declared: Declared,
    definitions: Vec<Define>,
    pub(crate) registry: Registry,
    pub(crate) health: Health,
    pub(crate) has_subscriber: bool,
    pub(crate) routes: Routes,
    pub(crate) runtime: Option<RuntimeBuilder>,
}

/// Builds the runtime of the controllers.
type RuntimeBuilder = Box<dyn Fn() -> io::Result<Runtime>>;

/// Adds controllers to a program.
type Define = Box<dyn Fn(&mut Program)>;

impl App {
    /// A program without controllers. Leases, roles and the field manager derive from its
    /// name; the version is recorded on CRDs and in manifests.
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self {
            name,
            version,
            about: Vec::new(),
            declared: Declared::default(),
            definitions: Vec::new(),
            registry: Registry::new(),
            health: Health::default(),
            has_subscriber: false,
            routes: Routes::default(),
            runtime: None,
        }
    }

    /// The text at the top of `--help`, where a generated program has its doc comment.
    pub fn about(mut self, text: &str) -> Self {
        self.about = text.lines().map(ToOwned::to_owned).collect();
        self
    }

    /// Adds the controller that this function describes. The function is called whenever a
    /// command needs the controllers, some commands call it several times. A mistake in the
    /// description is printed, and the program exits with 1.
    pub fn controller<K, O, S>(self, describe: impl Fn() -> Builder<K, O, S> + 'static) -> Self
    where
        K: Kind,
        O: DeserializeOwned + Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        self.defined(move |program| program.add(describe()))
    }

    /// Adds the webhook that this function describes, see [`controller`](Self::controller).
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::App;
    /// use kooper::webhooks::{Denied, FailurePolicy, Webhook};
    ///
    /// async fn check(new: Arc<ConfigMap>) -> Result<(), Denied> {
    ///     if new.data.is_some() { Ok(()) } else { Err(Denied::default().field("data", "must be set")) }
    /// }
    ///
    /// fn main() -> ExitCode {
    ///     App::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    ///         .webhook(|| Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Ignore).function(check))
    ///         .run()
    /// }
    /// ```
    #[cfg(feature = "webhooks")]
    pub fn webhook<K, M, S>(self, describe: impl Fn() -> kooper_webhooks::Builder<K, M, S> + 'static) -> Self
    where
        K: Kind,
        M: 'static,
        S: Send + Sync + 'static,
    {
        self.defined(move |program| program.add_webhook(describe()))
    }

    /// Adds the controllers or the webhook of a function with one of the attributes, by the
    /// function's name: `.define::<echo>()`.
    pub fn define<D: Definition + 'static>(mut self) -> Self {
        D::declare(&mut self.declared);
        self.defined(D::define)
    }

    /// Adds the flags of the program's own settings, which handlers take as
    /// [`Settings<T>`](kooper_access::Settings). A program has one type of them.
    pub fn settings<T: ProgramSettings>(mut self) -> Self {
        self.declared.add::<T>();
        self
    }

    /// Collects the metrics of `run` and `dev` in this registry, beside those that the
    /// program has registered itself. `/metrics` serves all of them.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Serves this health of `run` and `dev`, to which the program has added checks of its own, with
    /// [`Health::add_readyz_check`] and [`Health::add_healthz_check`].
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Leaves logs to a subscriber of `tracing` that the program has set itself:
    /// `--log-level`, `--log-format` and `RUST_LOG` have no effect then, and nor has the feature
    /// `otel`: the subscriber has to export spans. It should write to stderr: commands such as
    /// `rbac` print documents to stdout.
    pub fn with_own_subscriber(mut self) -> Self {
        self.has_subscriber = true;
        self
    }

    /// Adds a page to the listener of the metrics of `run` and `dev`: the function answers `GET` and
    /// `HEAD` of this path, see [`Listener::route`](crate::http::Listener::route).
    pub fn route<B, F>(
        mut self,
        path: &'static str,
        answer: impl Fn(http::Request<()>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = http::Response<B>> + Send + 'static,
        B: Into<bytes::Bytes>,
    {
        self.routes.add(path, answer);
        self
    }

    /// Runs the controllers of `run` and `dev` on the runtime that this function builds, with I/O and
    /// time enabled. With several threads, handlers still have threads of their own. By default it is a
    /// runtime with a thread for each core. One without threads of its own, such as
    /// `Builder::new_current_thread` builds, is an error.
    pub fn runtime(mut self, build: impl Fn() -> io::Result<Runtime> + 'static) -> Self {
        self.runtime = Some(Box::new(build));
        self
    }

    /// Reads the command line and the environment, runs the command, and returns the exit
    /// code: 0, 1 if the command failed, or 2 if it cannot be run as it is written.
    #[must_use = "return it from `main`"]
    pub fn run(self) -> ExitCode {
        run_command(&self)
    }

    /// Adds what a function adds to a program.
    pub(crate) fn defined(mut self, define: impl Fn(&mut Program) + 'static) -> Self {
        self.definitions.push(Box::new(define));
        self
    }

    /// All controllers, described anew.
    pub(crate) fn program(&self) -> Program {
        let mut program = Program::default();
        self.definitions.iter().for_each(|define| define(&mut program));
        program
    }
}

kooper_runtime::internal::debug_fields! { App { name, version } }
