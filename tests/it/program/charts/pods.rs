//! The values of the chart for its pods.

use serde_json::{Value, json};

use super::{Chart, INSTALLED, NAMESPACE};

fn values() -> Value {
    json!({
        "instance": "blue",
        "priorityClassName": "high",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
        ]}}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
            {
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"team": "trade"}},
            },
        ],
        "podLabels": {"team": "trade"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/shop"},
    })
}

/// The template of the pods of this kind.
fn template(documents: &[Value], kind: &str) -> Value {
    documents.iter().find(|one| one["kind"] == kind).unwrap()["spec"]["template"].clone()
}

#[test]
fn values_place_and_mark_the_pods_and_that_of_the_hook() {
    let Some(chart) = Chart::write(INSTALLED, "pods") else { return };
    let values = values();
    let documents = chart.template(&values);
    for kind in ["Deployment", "Job"] {
        let template = template(&documents, kind);
        let (metadata, spec) = (&template["metadata"], &template["spec"]);
        assert_eq!(metadata["annotations"], values["podAnnotations"], "{kind}");
        assert_eq!(metadata["labels"]["team"], "trade", "{kind}");
        assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], "blue", "{kind}");
        assert_eq!(spec["priorityClassName"], "high", "{kind}");
        assert_eq!(spec["affinity"]["nodeAffinity"], values["affinity"]["nodeAffinity"], "{kind}");
    }
    for (account, is_hook) in [("installed.blue", false), ("installed.blue-uninstall", true)] {
        let is_it = |one: &&Value| one["kind"] == "ServiceAccount" && one["metadata"]["name"] == account;
        let annotations = &documents.iter().find(is_it).unwrap()["metadata"]["annotations"];
        assert_eq!(annotations["eks.amazonaws.com/role-arn"], "arn:aws:iam::1:role/shop", "{account}");
        assert_eq!(!annotations["helm.sh/hook"].is_null(), is_hook, "{account}");
    }
    // A Deployment keeps its selector, and the pods that it selects.
    let labels = |document: &Value| document["spec"]["selector"]["matchLabels"].clone();
    let deployment = documents.iter().find(|one| one["kind"] == "Deployment").unwrap();
    assert_eq!(labels(deployment), json!({"kooper.rs/installation": "installed.blue"}));
    assert_eq!(template(&documents, "Deployment")["metadata"]["labels"]["kooper.rs/installation"], "installed.blue");
    assert_eq!(deployment["metadata"]["labels"]["team"], Value::Null);
}

#[test]
fn pods_are_spread_among_those_of_their_installation() {
    let Some(chart) = Chart::write(INSTALLED, "pods-spread") else { return };
    let spec = |values: &Value, kind: &str| template(&chart.template(values), kind)["spec"].take();
    let own = json!({"matchLabels": {"kooper.rs/installation": "installed.blue"}});
    let (usual, placed) = (spec(&json!({"instance": "blue"}), "Deployment"), spec(&values(), "Deployment"));
    let spread = &placed["topologySpreadConstraints"];
    assert_eq!(spread[0]["labelSelector"], own);
    assert_eq!(spread[1]["labelSelector"], json!({"matchLabels": {"team": "trade"}}));
    assert_eq!(usual["topologySpreadConstraints"], Value::Null);
    // Another kind of affinity does not replace it.
    let apart = "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
    assert_eq!(usual.pointer(apart).unwrap()["labelSelector"], own);
    assert_eq!(placed.pointer(apart), usual.pointer(apart));
    let none = json!({"affinity": {"podAntiAffinity": {}}});
    assert_eq!(spec(&none, "Deployment")["affinity"], none["affinity"]);
    // Its pod would wait for the place of those of the Deployment, which end only when it runs.
    let hook = spec(&values(), "Job");
    assert_eq!(
        (&hook["topologySpreadConstraints"], &hook["affinity"]["podAntiAffinity"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn labels_by_which_pods_are_selected_are_refused() {
    let Some(chart) = Chart::write(INSTALLED, "pods-labels") else { return };
    for label in ["kooper.rs/installation", "app.kubernetes.io/name", "app.kubernetes.io/instance"] {
        let values = json!({"podLabels": {label: "other"}});
        let (done, _, stderr) = chart.helm(&["template", "release", "CHART", "--namespace", NAMESPACE], &values);
        assert!(!done && stderr.contains("podLabels"), "{stderr}");
    }
}
