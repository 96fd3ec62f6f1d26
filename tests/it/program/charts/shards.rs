//! The chart of a program with shards.

use std::process::Command;

use serde_json::{Value, json};

use super::{Chart, call, meaning};

/// Its controller has six members.
const SHARED: &str = env!("CARGO_BIN_EXE_shared");

fn flags(flags: &str) -> Vec<String> {
    format!("{flags} --image example.com/program:1").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn shards_allow_several_replicas_also_without_leader_election_as_in_manifests() {
    let Some(chart) = Chart::write(SHARED, "shards") else { return };
    let of = |documents: &[Value], kind: &str| documents.iter().find(|one| one["kind"] == kind).cloned();
    for (values, given) in [
        (json!({}), ""),
        (json!({"leaderElection": "off"}), "--leader-election off"),
        (json!({"leaderElection": "on", "replicas": 1}), "--leader-election on --replicas 1"),
        (json!({"leaderElection": false, "replicas": 5}), "--leader-election off --replicas 5"),
        (
            json!({"replicas": 5, "instance": "blue", "leaseNamespace": "leases"}),
            "--replicas 5 --instance blue --lease-namespace leases",
        ),
    ] {
        let (ours, expected) = (chart.template(&values), chart.printed("manifests", &flags(given)));
        for kind in ["Deployment", "PodDisruptionBudget"] {
            assert_eq!(of(&ours, kind), of(&expected, kind), "{values}");
        }
        let differ: Vec<_> = meaning(&ours).symmetric_difference(&meaning(&expected)).cloned().collect();
        assert!(differ.is_empty(), "{values}: {differ:#?}");
    }
    let spec = of(&chart.template(&json!({"leaderElection": "off"})), "Deployment").unwrap()["spec"].take();
    assert_eq!((&spec["replicas"], &spec["strategy"]["type"]), (&2.into(), &"RollingUpdate".into()));
}

#[test]
fn replicas_that_find_no_place_among_the_members_are_refused_as_by_manifests() {
    let Some(chart) = Chart::write(SHARED, "shards-members") else { return };
    let refused = "6 replicas and those of a roll-out are more than the 6 that share the shards of the controller \
                   `shared`: write `shards(count = …, members = 7)`";
    for election in ["on", "off"] {
        let values = json!({"replicas": 6, "leaderElection": election});
        let (done, _, stderr) = chart.helm(&["template", "release", "CHART"], &values);
        assert!(!done && stderr.contains(refused), "{stderr}");
    }
    let (done, _, stderr) = call(Command::new(SHARED).arg("manifests").args(flags("--replicas 6")));
    assert!(!done && stderr.contains(refused), "{stderr}");
}
