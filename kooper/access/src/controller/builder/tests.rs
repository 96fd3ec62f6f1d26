use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::api::events::v1::Event;

use super::*;
use crate::Controller;
use crate::controller::Task;

fn builder() -> Builder<ConfigMap> {
    ConfigMap::controller("shop")
}

#[test]
fn a_function_that_a_later_setting_would_drop_is_an_error() {
    let init = || std::future::ready(Ok::<_, BoxError>(1_u8));
    let task = Task::builder("task", Duration::from_secs(60));
    let built: [(_, Result<Controller, ConfigError>); 6] = [
        ("`cleanup`", builder().cleanup("example.com/shop", async || {}).init(init).handler(async || {}).build()),
        ("`daemon`", builder().daemon(async || {}).state(1_u8).handler(async || {}).build()),
        ("`deleted`", builder().deleted(async || {}).state(1_u8).handler(async || {}).build()),
        ("`when`", builder().when(|_| false).metadata_only().handler(async || {}).build()),
        ("`priority`", builder().priority(|_| 1).metadata_only().handler(async || {}).build()),
        ("`layer`", task.metadata_only().handler(async || {}).build()),
    ];
    for (lost, built) in built {
        let error = built.unwrap_err();
        assert_eq!(error.kind, ConfigErrorKind::Conflict, "{error}");
        assert!(error.problem.contains(&format!("is called after {lost}: call it before")), "{error}");
    }
    let error = builder().handler(async || {}).state(1_u8).build().unwrap_err();
    assert_eq!(error.kind, ConfigErrorKind::Missing, "{error}");
    assert!(error.problem.contains("after `init`, `state`"), "{error}");
    let layer = tower::layer::layer_fn(|service: HandlerService<ConfigMap>| service);
    let kept = builder().when(|_| false).layer(layer).init(init);
    assert!(kept.cleanup("example.com/shop", async || {}).handler(async || {}).build().is_ok());
}

#[test]
fn a_cleanup_of_objects_that_leave_needs_a_cleanup_and_a_selector() {
    let leaving = || builder().handler(async || {}).cleanup_on_leave();
    let cleaned = || leaving().cleanup("example.com/shop", async || {});
    for (built, missing) in [
        (leaving().labels("app=shop").build(), "without `cleanup`: set that"),
        (cleaned().build(), "without a selector: set `labels`, `fields` or `namespace_selector`"),
        (cleaned().namespaces(["shop"]).build(), "without a selector: "),
    ] {
        let error = built.unwrap_err();
        assert_eq!((error.field, error.kind), ("cleanup_on_leave", ConfigErrorKind::Conflict), "{error}");
        assert!(error.problem.contains(missing), "{error}");
    }
    assert!(cleaned().labels("app=shop").build().is_ok());
    assert!(cleaned().fields("metadata.name=shop").build().is_ok());
    // `--namespace` replaces the selector.
    let mut controller = cleaned().namespace_selector("team=a").build().unwrap();
    assert!(controller.set_namespaces(vec!["shop".to_owned()]));
    controller.set_workers(2).unwrap();
}

#[test]
fn permissions_that_are_added_one_after_the_other_are_all_granted() {
    let rules = builder().rbac(["apps/deployments: get"]).rbac(["pods: list"]);
    let controller = rules.handler(async || {}).build().unwrap();
    let rules: Vec<_> = controller.plan().rbac().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["apps/deployments: get", "pods: list"]);
}

#[test]
fn no_event_is_recorded_about_an_event_whose_handler_fails() {
    let core = CoreEvent::controller("core").handler(async || {}).build().unwrap();
    let new = Event::controller("new").handler(async || {}).build().unwrap();
    let other = builder().handler(async || {}).build().unwrap();
    assert_eq!([core, new, other].map(|one| one.plan().reports), [false, false, true]);
}
