//! The row of a pod: how many of its containers are ready, and what it is doing.

use serde_json::{Value, json};

use crate::registry::row::Row;
use crate::time::age;

pub(super) fn cells(pod: Row<'_>) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match &summary.restarted {
        Some(time) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, age(time)),
        _ => summary.restarts.to_string(),
    };
    let sidecars = pod.items("/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let gates = pod.items("/spec/readinessGates");
    let open = gates.iter().filter(|gate| pod.has_condition(gate["conditionType"].as_str().unwrap_or_default()));
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        pod.name(),
        json!(format!("{}/{}", summary.ready, pod.items("/spec/containers").len() + sidecars)),
        json!(summary.reason),
        json!(restarts),
        pod.age(),
        pod.text_or("/status/podIPs/0/ip", "<none>"),
        pod.text_or("/spec/nodeName", "<none>"),
        pod.text_or("/status/nominatedNodeName", "<none>"),
        json!(gates),
    ]
}

/// Returns the conditions of the table row of a pod that has ended.
pub(super) fn conditions(pod: Row<'_>) -> Option<Value> {
    let (reason, message) = match pod.text("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

struct Summary {
    ready: usize,
    restarts: i64,
    /// When a container last ended before a restart.
    restarted: Option<String>,
    reason: String,
}

impl Summary {
    fn of(pod: Row<'_>) -> Self {
        let phase = pod.text("/status/phase");
        let stated = pod.text("/status/reason");
        let mut summary = Self {
            ready: 0,
            restarts: 0,
            restarted: None,
            reason: if stated.is_empty() { phase } else { stated }.to_owned(),
        };
        let gated =
            |condition: &&Value| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated";
        if pod.items("/status/conditions").iter().any(|condition| gated(&condition)) {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let (initializing, sidecars) = summary.add_init_containers(pod);
        if !initializing || pod.has_condition("Initialized") {
            (summary.restarts, summary.restarted) = sidecars;
            summary.add_containers(pod);
        }
        if pod.is_deleting() {
            if stated == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Adds the init containers. Returns whether the pod is still initializing, and the restarts of
    /// its sidecars.
    fn add_init_containers(&mut self, pod: Row<'_>) -> (bool, (i64, Option<String>)) {
        let specs = pod.items("/spec/initContainers");
        let mut sidecars = (0, None);
        for (index, status) in pod.items("/status/initContainerStatuses").iter().enumerate() {
            let status = Row(status);
            let sidecar = specs.iter().any(|spec| spec["name"] == status.0["name"] && is_sidecar(spec));
            count_restart(status, &mut self.restarts, &mut self.restarted);
            if sidecar {
                count_restart(status, &mut sidecars.0, &mut sidecars.1);
            }
            let ended = status.at("/state/terminated").is_object();
            if ended && status.number("/state/terminated/exitCode") == 0 {
                continue;
            }
            if sidecar && status.flag("/started") {
                self.ready += usize::from(status.flag("/ready"));
                continue;
            }
            let waiting = status.text("/state/waiting/reason");
            self.reason = if ended {
                format!("Init:{}", end_of(status))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    fn add_containers(&mut self, pod: Row<'_>) {
        let mut running = false;
        let mut failed = None;
        // The first container has the last word.
        for status in pod.items("/status/containerStatuses").iter().rev().map(Row) {
            count_restart(status, &mut self.restarts, &mut self.restarted);
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if status.at("/state/terminated").is_object() {
                self.reason = end_of(status);
                if status.number("/state/terminated/exitCode") != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if status.flag("/ready") && status.at("/state/running").is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && pod.has_condition("Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failed) = failed {
                self.reason = failed;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

/// An init container that keeps running.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn count_restart(status: Row<'_>, restarts: &mut i64, last: &mut Option<String>) {
    *restarts += status.number("/restartCount");
    let ended = status.text("/lastState/terminated/finishedAt");
    if !ended.is_empty() && last.as_deref().is_none_or(|last| last < ended) {
        *last = Some(ended.to_owned());
    }
}

/// Why a container ended.
fn end_of(status: Row<'_>) -> String {
    let reason = status.text("/state/terminated/reason");
    let signal = status.number("/state/terminated/signal");
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", status.number("/state/terminated/exitCode"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{cells, conditions};
    use crate::registry::row::Row;

    fn shown(pod: &Value) -> Vec<String> {
        cells(Row(pod)).iter().map(crate::registry::row::plain).collect()
    }

    #[test]
    fn a_pod_shows_why_its_container_waits() {
        let mut pod = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                {"name": "d", "ready": true, "restartCount": 1, "state": {"running": {}}}
            ]}
        });
        assert_eq!(shown(&pod)[1..4], ["1/2", "CrashLoopBackOff", "4"]);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(shown(&pod)[2], "Terminating");
        pod["status"] = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]});
        pod["spec"]["initContainers"] = json!([{"name": "i"}]);
        pod["metadata"] = json!({"name": "a"});
        assert_eq!(shown(&pod)[1..4], ["0/2", "Init:0/1", "0"]);
        assert!(conditions(Row(&json!({"status": {"phase": "Failed"}}))).is_some());
    }
}
