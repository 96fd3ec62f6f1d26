use serde_json::{Value, json};

use super::Readiness::{Failed, Ready, Usable, Waiting};
use super::*;

fn waiting(why: &str) -> Readiness {
    Waiting(why.to_owned())
}

/// The object with some of its fields replaced, as by a merge patch.
fn with(object: &Value, changes: &Value) -> Value {
    fn merge(object: &mut Value, changes: &Value) {
        let Value::Object(fields) = changes else {
            *object = changes.clone();
            return;
        };
        if !object.is_object() {
            *object = json!({});
        }
        for (name, value) in fields {
            merge(&mut object[name.as_str()], value);
        }
    }
    let mut object = object.clone();
    merge(&mut object, changes);
    object
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web", "generation": 4},
        "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 4, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        },
    })
}

fn of_deployment(changes: &Value) -> Readiness {
    readiness("apps", "Deployment", &with(&deployment(), changes))
}

#[test]
fn a_deployment_is_ready_when_all_of_its_replicas_are_new_and_available() {
    assert_eq!(of_deployment(&json!({})), Ready);
    assert_eq!(of_deployment(&json!({"status": {"updatedReplicas": 1}})), waiting("1 of 3 are updated"));
    assert_eq!(of_deployment(&json!({"status": {"readyReplicas": 2}})), waiting("2 of 3 are ready"));
    assert_eq!(of_deployment(&json!({"status": {"availableReplicas": null}})), waiting("0 of 3 are available"));
    assert_eq!(of_deployment(&json!({"status": {"replicas": 4}})), waiting("1 old replicas are left"));
    let unavailable = json!([{"type": "Available", "status": "False", "message": "too few replicas"}]);
    assert_eq!(of_deployment(&json!({"status": {"conditions": unavailable}})), waiting("Available: too few replicas"));
}

#[test]
fn a_status_from_before_a_change_of_the_spec_does_not_count() {
    let unseen = waiting("its controller has not observed it yet");
    assert_eq!(of_deployment(&json!({"metadata": {"generation": 5}})), unseen);
    assert_eq!(of_deployment(&json!({"status": {"observedGeneration": null}})), unseen);
    assert_eq!(readiness("apps", "StatefulSet", &json!({"metadata": {"generation": 1}})), unseen);
    assert_eq!(readiness("apps", "DaemonSet", &json!({"metadata": {"generation": 1}, "status": {}})), unseen);
}

#[test]
fn a_deployment_that_misses_its_deadline_has_failed() {
    let late = json!([{
        "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"web-1\" has timed out progressing.",
    }]);
    let why = "Progressing: ReplicaSet \"web-1\" has timed out progressing.".to_owned();
    assert_eq!(of_deployment(&json!({"status": {"conditions": late, "readyReplicas": 1}})), Failed(why));
}

#[test]
fn a_deployment_that_is_scaled_to_zero_is_ready_without_pods() {
    let none = json!({"replicas": null, "updatedReplicas": null, "readyReplicas": null, "availableReplicas": null});
    assert_eq!(of_deployment(&json!({"spec": {"replicas": 0}, "status": none})), Ready);
}

#[test]
fn an_object_that_is_being_deleted_is_not_ready() {
    let marked = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(of_deployment(&marked), waiting("it is being deleted"));
    assert_eq!(readiness("", "Secret", &marked), waiting("it is being deleted"));
}

fn of_stateful_set(changes: &Value) -> Readiness {
    let set = json!({
        "metadata": {"name": "db", "generation": 2},
        "spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}},
        "status": {
            "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
            "currentRevision": "db-7", "updateRevision": "db-7",
        },
    });
    readiness("apps", "StatefulSet", &with(&set, changes))
}

#[test]
fn a_stateful_set_is_ready_when_its_pods_have_the_new_revision() {
    assert_eq!(of_stateful_set(&json!({})), Ready);
    assert_eq!(of_stateful_set(&json!({"status": {"readyReplicas": 1}})), waiting("1 of 3 are ready"));
    assert_eq!(of_stateful_set(&json!({"status": {"replicas": 2}})), waiting("2 of 3 exist"));
    let rolling = json!({"status": {"updateRevision": "db-8", "updatedReplicas": 1}});
    assert_eq!(of_stateful_set(&rolling), waiting("1 of 3 are updated"));
}

#[test]
fn a_stateful_set_with_a_partition_updates_only_the_rest() {
    let canary = |updated| {
        of_stateful_set(&json!({
            "spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}},
            "status": {"updateRevision": "db-8", "updatedReplicas": updated},
        }))
    };
    assert_eq!(canary(1), Ready);
    assert_eq!(canary(0), waiting("0 of 1 are updated"));
}

#[test]
fn a_stateful_set_whose_pods_are_replaced_by_hand_does_not_wait_for_its_revision() {
    let by_hand = json!({
        "spec": {"updateStrategy": {"type": "OnDelete"}},
        "status": {"updateRevision": "db-8", "updatedReplicas": 0},
    });
    assert_eq!(of_stateful_set(&by_hand), Ready);
}

#[test]
fn a_daemon_set_is_ready_when_it_is_on_every_node() {
    let of = |changes: &Value| {
        let set = json!({
            "metadata": {"generation": 1},
            "status": {
                "observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2,
            },
        });
        readiness("apps", "DaemonSet", &with(&set, changes))
    };
    assert_eq!(of(&json!({})), Ready);
    assert_eq!(of(&json!({"status": {"updatedNumberScheduled": 1}})), waiting("1 of 2 are updated"));
    assert_eq!(of(&json!({"status": {"numberAvailable": null}})), waiting("0 of 2 are available"));
    assert_eq!(of(&json!({"status": {"desiredNumberScheduled": 0}})), Ready, "no node is selected");
}

#[test]
fn a_job_is_ready_when_it_is_complete_and_fails_for_good() {
    let of = |status: Value| readiness("batch", "Job", &json!({"spec": {"completions": 2}, "status": status}));
    assert_eq!(of(json!({"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 2})), Ready);
    assert_eq!(of(json!({"active": 1, "succeeded": 1})), waiting("1 of 2 completed"));
    let failed = json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"});
    assert_eq!(of(json!({"conditions": [failed]})), Failed("Failed: BackoffLimitExceeded".to_owned()));
    assert_eq!(of(json!({"conditions": [{"type": "Suspended", "status": "True"}]})), waiting("0 of 2 completed"));
}

#[test]
fn a_pod_is_ready_when_it_serves_or_has_succeeded() {
    let of = |status: Value| readiness("", "Pod", &json!({"status": status}));
    assert_eq!(of(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})), Ready);
    assert_eq!(of(json!({"phase": "Succeeded"})), Ready);
    let starting = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [web]"});
    assert_eq!(
        of(json!({"phase": "Pending", "conditions": [starting]})),
        waiting("Ready: containers with unready status: [web]")
    );
    assert_eq!(of(json!({"phase": "Pending"})), waiting("not Ready yet"));
    assert_eq!(of(json!({"phase": "Failed", "reason": "Evicted"})), Failed("Evicted".to_owned()));
    let crashing = json!({"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let why = Failed("its container web keeps crashing".to_owned());
    assert_eq!(of(json!({"phase": "Running", "containerStatuses": [crashing]})), why);
    assert_eq!(of(json!({"phase": "Pending", "initContainerStatuses": [crashing]})), why);
}

#[test]
fn an_unbound_claim_is_not_ready_and_keeps_no_slot_waiting() {
    let of = |phase: &str| readiness("", "PersistentVolumeClaim", &json!({"status": {"phase": phase}}));
    assert_eq!(of("Bound"), Ready);
    assert_eq!(of("Lost"), Failed("its volume is lost".to_owned()));
    let pending = of("Pending");
    assert_eq!(pending, Usable("it has no volume yet".to_owned()));
    assert!(pending.is_usable() && !pending.is_ready());
}

#[test]
fn only_a_service_with_a_load_balancer_waits_for_an_address() {
    let of = |object: Value| readiness("", "Service", &object);
    assert_eq!(of(json!({"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {}}})), Ready);
    let balanced = |status: Value| of(json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": status}}));
    assert_eq!(balanced(json!({})), waiting("its load balancer has no address yet"));
    assert_eq!(balanced(json!({"ingress": []})), waiting("its load balancer has no address yet"));
    assert_eq!(balanced(json!({"ingress": [{"ip": "203.0.113.7"}]})), Ready);
    let given = json!({"type": "LoadBalancer", "externalIPs": ["203.0.113.7"]});
    assert_eq!(of(json!({"spec": given, "status": {"loadBalancer": {}}})), Ready);
}

#[test]
fn a_budget_is_ready_when_it_is_observed_although_it_allows_no_eviction() {
    let of = |status: Value| {
        readiness("policy", "PodDisruptionBudget", &json!({"metadata": {"generation": 2}, "status": status}))
    };
    let denied = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}]);
    assert_eq!(of(json!({"observedGeneration": 2, "disruptionsAllowed": 0, "conditions": denied})), Ready);
    let unseen = waiting("its controller has not observed it yet");
    assert_eq!(of(json!({"observedGeneration": 1, "disruptionsAllowed": 1})), unseen);
    assert_eq!(of(Value::Null), unseen);
}

#[test]
fn a_definition_is_ready_when_its_names_are_accepted_and_it_is_served() {
    let of = |accepted: &str, established: &str| {
        let conditions = json!([
            {"type": "NamesAccepted", "status": accepted, "message": "no conflicts found"},
            {"type": "Established", "status": established},
        ]);
        readiness("apiextensions.k8s.io", "CustomResourceDefinition", &json!({"status": {"conditions": conditions}}))
    };
    assert_eq!(of("True", "True"), Ready);
    assert_eq!(of("True", "False"), waiting("not Established yet"));
    assert_eq!(of("False", "True"), waiting("NamesAccepted: no conflicts found"));
}

#[test]
fn a_namespace_is_ready_while_it_is_active() {
    let of = |phase: &str| readiness("", "Namespace", &json!({"status": {"phase": phase}}));
    assert_eq!(of("Active"), Ready);
    assert_eq!(of("Terminating"), waiting("its phase is Terminating"));
}

#[test]
fn kinds_without_a_state_that_is_waited_for_are_ready_when_they_exist() {
    for (group, kind) in [
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("networking.k8s.io", "Ingress"),
        ("batch", "CronJob"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
    ] {
        assert_eq!(readiness(group, kind, &json!({})), Ready, "{kind}");
    }
}

#[test]
fn an_object_of_another_kind_is_judged_by_its_conditions() {
    let of = |generation: i64, status: Value| {
        readiness("example.com", "Shop", &json!({"metadata": {"generation": generation}, "status": status}))
    };
    let ready = json!({"type": "Ready", "status": "True"});
    assert_eq!(of(1, json!({"conditions": [ready]})), Ready);
    assert_eq!(of(1, json!({"conditions": [ready], "observedGeneration": 1})), Ready);
    let unseen = waiting("its controller has not observed it yet");
    assert_eq!(of(2, json!({"conditions": [ready], "observedGeneration": 1})), unseen);
    let old = json!({"type": "Ready", "status": "True", "observedGeneration": 1});
    assert_eq!(of(2, json!({"conditions": [old]})), unseen);
    let unready = json!({"type": "Ready", "status": "False", "message": "waits for web"});
    assert_eq!(of(1, json!({"conditions": [unready]})), waiting("Ready: waits for web"));
    let reconciling = json!({"type": "Reconciling", "status": "True", "message": "rolls out"});
    assert_eq!(of(1, json!({"conditions": [ready, reconciling]})), waiting("Reconciling: rolls out"));
    let stalled = json!({"type": "Stalled", "status": "True", "message": "no image"});
    assert_eq!(of(1, json!({"conditions": [ready, stalled]})), Failed("Stalled: no image".to_owned()));
    assert!(matches!(of(1, json!({})), Waiting(why) if why.contains("ready = fn")));
}
