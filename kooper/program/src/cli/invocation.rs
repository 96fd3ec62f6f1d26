//! A program with the settings of its command line: what every command is given.

use super::app::App;
use super::args::Settings;
use super::connect::Connection;
use kooper_access::Controller;
use kooper_access::internal::{Installation, check_controllers, check_names};
use kooper_runtime::BoxError;
use kooper_runtime::leader::LeaderElection;

/// A program that runs a command with these settings.
pub(crate) struct Invocation<'a> {
    pub(crate) app: &'a App,
    pub(crate) settings: Settings,
}

impl<'a> Invocation<'a> {
    /// The same program with other settings.
    pub(crate) fn with(&self, settings: Settings) -> Invocation<'a> {
        Invocation { app: self.app, settings }
    }

    /// The program's name with that of its instance.
    pub(crate) fn installation(&self) -> Installation {
        self.settings.installation(self.app.name)
    }

    /// The controllers of the program, with the settings of the flags.
    pub(crate) fn controllers(&self) -> Result<Vec<Controller>, BoxError> {
        self.configured(|controller| {
            let (name, kind) = (controller.name(), controller.kind());
            tracing::warn!(
                "--namespace does not apply to the controller `{name}`: {kind} is cluster-scoped, or the controller has a custom retriever"
            );
        })
    }

    /// The controllers of the program, without warnings about the settings.
    pub(crate) fn controllers_quietly(&self) -> Result<Vec<Controller>, BoxError> {
        self.configured(|_| ())
    }

    fn configured(&self, unaffected: fn(&Controller)) -> Result<Vec<Controller>, BoxError> {
        let settings = &self.settings;
        let mut controllers =
            self.app.program().into_controllers()?.into_iter().flat_map(Controller::with_daemon).collect::<Vec<_>>();
        check_controllers(&controllers)?;
        for controller in &mut controllers {
            crate::check(controller, settings.own.declared.as_ref())?;
            if let Some(workers) = settings.workers {
                controller.set_workers(workers)?;
            }
            if let Some(resync) = settings.resync {
                controller.set_resync(resync.0)?;
            }
            controller.set_json_only(settings.json_only);
            match settings.leader_election {
                Some(false) => controller.set_leader_election(None)?,
                Some(true) if controller.limits_replicas() => {
                    controller.set_leader_election(Some(LeaderElection::default()))?;
                }
                _ => {}
            }
            if settings.namespaces.is_empty() {
                continue;
            }
            if !controller.set_namespaces(settings.namespaces.clone()) {
                unaffected(controller);
            }
        }
        // The operator repeats it with the namespace that the connection has.
        check_names(&controllers, &self.installation(), settings.lease_namespace.as_deref().unwrap_or_default())?;
        Ok(controllers)
    }
}

/// The namespace of Leases without one of their own. Outside of a cluster it is a
/// guess, which is logged.
pub(crate) fn lease_namespace(
    program: &str,
    controllers: &[Controller],
    settings: &Settings,
    connection: &Connection,
) -> String {
    if let Some(namespace) = &settings.lease_namespace {
        return namespace.clone();
    }
    let namespace = connection.client.default_namespace();
    let installation = settings.installation(program);
    // A Lease with its own namespace does not depend on the default.
    let guessed = |controller: &Controller| {
        let of = |namespace| {
            let shards = || controller.shard_leases(&installation, namespace).map(|leases| leases.namespace);
            controller.leases(&installation, namespace).map(|leases| leases.namespace).or_else(shards)
        };
        of("a").is_some() && of("a") != of("b")
    };
    if !connection.in_pod && controllers.iter().any(guessed) {
        tracing::warn!(
            "the leases are in namespace `{namespace}` of the kubeconfig's context: if replicas in the cluster use \
             another namespace, set `--lease-namespace NAME`"
        );
    }
    namespace.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::Program;
    use kooper_access::controller::Task;

    #[test]
    fn a_task_that_runs_everywhere_gets_no_leader_election() {
        fn tasks(program: &mut Program) {
            let task = |name: &str| Task::builder(name, Duration::from_secs(600)).handler(async || {});
            program.add(task("report"));
            program.add(task("refresh").everywhere());
        }
        let app = App::new("shop", "1.0.0").defined(tasks);
        let settings = Settings { leader_election: Some(true), ..Settings::default() };
        let controllers = Invocation { app: &app, settings }.controllers().expect("tasks");
        let elected: Vec<_> = controllers.iter().map(|one| (one.name(), one.has_leader_election())).collect();
        assert_eq!(elected, [("report", true), ("refresh", false)]);
    }

    #[test]
    fn a_task_in_a_shard_of_a_controller_that_does_not_exist_is_an_error_of_each_command() {
        fn tasks(program: &mut Program) {
            program.add(Task::builder("sweep", Duration::from_secs(600)).shard_of("stores").handler(async || {}));
        }
        let app = App::new("shop", "1.0.0").defined(tasks);
        let error = Invocation { app: &app, settings: Settings::default() }.controllers().unwrap_err().to_string();
        assert!(error.contains("the program has no controller `stores` with shards"), "{error}");
    }

    #[test]
    fn controllers_that_share_their_name_or_finalizer_are_an_error_of_each_command() {
        fn names(program: &mut Program) {
            program.add(Controller::builder::<Pod>("one").handler(async || {}));
            program.add(Controller::builder::<Pod>("one").handler(async || {}));
        }
        fn finalizers(program: &mut Program) {
            for name in ["one", "two"] {
                let cleaning = Controller::builder::<Pod>(name).cleanup("example.com/pantry", async || {});
                program.add(cleaning.handler(async || {}));
            }
        }
        for (define, problem) in [
            (names as fn(&mut Program), "two controllers have this name: rename one of them"),
            (finalizers, "the controller `one` of the same kind has this finalizer"),
        ] {
            let app = App::new("shop", "1.0.0").defined(define);
            let error = Invocation { app: &app, settings: Settings::default() }.controllers().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn two_controllers_with_one_lease_are_an_error_of_each_command() {
        fn controllers(program: &mut Program) {
            for name in ["one", "two"] {
                let election = LeaderElection::new().lease("pantry");
                program.add(Controller::builder::<Pod>(name).leader_election(election).handler(async || {}));
            }
        }
        let app = App::new("shop", "1.0.0").defined(controllers);
        let error = |settings| Invocation { app: &app, settings }.controllers().map(drop).unwrap_err().to_string();
        let unknown = error(Settings::default());
        assert!(unknown.contains("the controller `one` has the Lease pantry, too"), "{unknown}");
        let known = error(Settings { lease_namespace: Some("shops".to_owned()), ..Settings::default() });
        assert!(known.contains("the controller `one` has the Lease shops/pantry, too"), "{known}");
        let settings = Settings { leader_election: Some(false), ..Settings::default() };
        assert!(Invocation { app: &app, settings }.controllers().is_ok(), "without election there is no Lease");
    }

    #[test]
    fn tasks_work_in_the_namespaces_of_the_command_line() {
        fn tasks(program: &mut Program) {
            let task = |name: &str| Task::builder(name, Duration::from_secs(600)).handler(async || {});
            program.add(task("all"));
            program.add(task("own").own_namespace());
            program.add(task("shop").namespaces(["shop"]));
        }
        let app = App::new("shop", "1.0.0").defined(tasks);
        let settings = Settings { namespaces: vec!["a".to_owned(), "b".to_owned()], ..Settings::default() };
        let mut controllers = Invocation { app: &app, settings }.controllers().expect("tasks");
        for task in &mut controllers {
            task.set_own_namespace("here");
            assert_eq!(task.namespaces(), ["a", "b"], "{}", task.name());
        }
    }
}
