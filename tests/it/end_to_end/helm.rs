//! The walk of the guide on the real control plane: an operator of the template is installed by Helm, watched by
//! Prometheus, upgraded and uninstalled.
//!
//! `.ci/end-to-end` builds what it needs, and `KOOPER_WALK` names the folder with it. Without, it is skipped.

mod kubelet;
mod release;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use kooper_tests::https;
use kooper_tests::process::{Process, value};
use kooper_tests::prometheus::{Prometheus, filled, queries};
use kooper_tests::wait::until;
use serde_json::{Value, json};

use kubelet::Kubelet;
use release::{NAMESPACE, Release};

/// The accounts of the operator and of its hook.
const ACCOUNTS: [&str; 2] = ["system:serviceaccount:site:site", "system:serviceaccount:site:site-uninstall"];

#[test]
fn an_operator_of_the_template_is_installed_watched_upgraded_and_uninstalled() {
    let Some(release) = Release::new() else { return };
    let release = Arc::new(release);
    let walk = Walk { kubelet: Kubelet::start(&release), release };
    walk.installs();
    walk.is_watched();
    walk.upgrades();
    walk.uninstalls();
    walk.returns_and_removes_everything();
    assert_eq!(walk.forbidden(), Vec::<Value>::new());
}

struct Walk {
    /// Dropped before the cluster.
    kubelet: Kubelet,
    release: Arc<Release>,
}

impl Walk {
    /// Runs kubectl.
    fn must(&self, args: &[&str]) -> String {
        self.release.cluster.must(args)
    }

    /// A field of an object.
    fn field(&self, object: &str, path: &str) -> String {
        self.must(&["get", object, &format!("--output=jsonpath={{{path}}}")])
    }

    fn wait_for_field(&self, object: &str, path: &str, value: &str) {
        let field = || self.field(object, path);
        until(&format!("{path} of {object} is {value}"), || (field() == value).then_some(()), field);
    }

    fn edit(&self, spec: &Value) {
        self.must(&["patch", "site", "sample", "--type=merge", "--patch", &json!({"spec": spec}).to_string()]);
    }

    /// The names of what is in the namespace of the release.
    fn names(&self, kinds: &str) -> String {
        self.must(&["--namespace", NAMESPACE, "get", kinds, "--output=name"])
    }

    /// A token of the account that may read the metrics, as Prometheus has one.
    fn scraper(&self) -> String {
        self.must(&["create", "token", "scraper"]).trim().to_owned()
    }

    /// The value of a series, for those who may read it.
    fn metric(program: &Process, token: &str, series: &str) -> Option<f64> {
        let answer = https::get(program.address(), "/metrics", Some(&format!("Bearer {token}"))).ok()?;
        value(&answer.body, series)
    }

    /// Waits until two replicas of this version run, and one of them is the leader.
    fn runs(&self, version: &str) {
        let leads = r#"leader_election_master_status{name="site-site"}"#;
        let own = format!("version=\"{version}\"");
        let token = self.scraper();
        let look = || {
            self.kubelet.each(|_, program| {
                let answers = |page| program.get(page).is_some_and(|(status, _)| status == 200);
                (program.count(&[" starting ", &own]) == 1 && answers("/readyz") && answers("/healthz"))
                    .then(|| Self::metric(program, &token, leads).unwrap_or(f64::NAN).to_string())
            })
        };
        let complete = || {
            let mut replicas = look();
            replicas.sort();
            (replicas == [Some("0".to_owned()), Some("1".to_owned())]).then_some(())
        };
        let logs = || self.kubelet.each(|name, program| format!("{name}:\n{}", program.lines().join("\n")));
        until(&format!("{version} runs twice"), complete, || format!("{:?}\n{}", look(), logs().join("\n")));
    }

    /// Returns the forbidden requests of the operator and its hook, from the audit log.
    fn forbidden(&self) -> Vec<Value> {
        let is_refused = |event: &Value| {
            let user = event["user"]["username"].as_str().unwrap_or_default();
            ACCOUNTS.contains(&user) && event["responseStatus"]["code"] == 403
        };
        self.release.cluster.audit_log("").into_iter().filter(is_refused).collect()
    }

    /// Waits for the pods of the sample, and until the operator reports them.
    fn wait_until_ready(&self, pods: &str) {
        self.wait_for_field("deployment/sample", ".status.availableReplicas", pods);
        self.wait_for_field("site/sample", r#".status.conditions[?(@.type=="Ready")].status"#, "True");
    }

    fn installs(&self) {
        self.must(&["create", "namespace", NAMESPACE]);
        for mode in ["enforce", "warn", "audit"] {
            self.must(&["label", "namespace", NAMESPACE, &format!("pod-security.kubernetes.io/{mode}=restricted")]);
        }
        self.must(&["create", "serviceaccount", "scraper"]);
        let role = "--clusterrole=site:site:metrics-reader";
        self.must(&["create", "clusterrolebinding", "scraper", role, "--serviceaccount=default:scraper"]);
        // Helm waits until the pods are ready.
        self.release.helm(&["install", "site", &self.release.chart("0.1.0"), "--wait", "--timeout=2m"]);
        self.runs("0.1.0");

        self.must(&["apply", "--filename", self.release.file("site/sample.yaml").to_str().unwrap()]);
        self.wait_until_ready("2");
        // The operator corrects what other clients change, and follows the object.
        self.must(&["scale", "deployment", "sample", "--replicas=5"]);
        self.wait_for_field("deployment/sample", ".spec.replicas", "2");
        self.edit(&json!({"replicas": 3}));
        self.wait_until_ready("3");
    }

    /// Prometheus has data for each query of the dashboard, and evaluates the alerts.
    fn is_watched(&self) {
        // A call that fails, for what counts errors: a container needs an image.
        self.release.cluster.apply([json!({
            "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"namespace": "default", "name": "broken"},
            "spec": {"image": "", "replicas": 1},
        })]);
        let folder = self.release.file("prometheus");
        fs::create_dir_all(&folder).unwrap();
        let rules = folder.join("rules.yaml");
        fs::write(&rules, self.release.print("0.1.0", &["alerts"])).unwrap();
        let targets = self
            .kubelet
            .each(|pod, program| (program.address(), json!({"namespace": NAMESPACE, "job": "site", "pod": pod})));
        let anonymous = self.kubelet.each(|_, program| https::get(program.address(), "/metrics", None).unwrap().status);
        assert_eq!(anonymous, [401, 401], "the metrics need a token");
        let token = folder.join("token");
        fs::write(&token, self.scraper()).unwrap();
        let scrape = json!({
            "job_name": "kooper", "scheme": "https", "tls_config": {"insecure_skip_verify": true},
            "authorization": {"credentials_file": token},
            "static_configs": targets.iter().map(|(address, labels)| {
                json!({"targets": [address.to_string()], "labels": labels})
            }).collect::<Vec<_>>(),
        });
        let prometheus = Prometheus::scraping(&folder, &scrape, &[&rules]);

        let dashboard: Value = serde_json::from_str(&self.release.print("0.1.0", &["dashboard"])).unwrap();
        let asked = queries(&dashboard);
        assert!(asked.len() > 20, "{asked:#?}");
        for query in asked {
            prometheus.wait_for_data(&filled(&query, NAMESPACE, "site"));
        }
        let rules = prometheus.wait_for_rules();
        let firing: Vec<_> = rules.iter().filter(|rule| rule["state"] == "firing").map(|rule| &rule["name"]).collect();
        assert!(!rules.is_empty() && firing.is_empty(), "{firing:?} of {}", rules.len());

        let events = || self.must(&["get", "events", "--field-selector=involvedObject.name=broken"]);
        until("the error is on the object", || events().contains("image: Required value").then_some(()), events);
        self.must(&["delete", "site", "broken", "--timeout=60s"]);
    }

    /// The next version has another field in its CRD and another permission. Everything else is kept.
    fn upgrades(&self) {
        let kept = ["crd/sites.example.com", "site/sample", "deployment/sample", "clusterrole/site:site"];
        let uids = || kept.map(|object| self.field(object, ".metadata.uid"));
        let before = uids();
        let role = self.field("clusterrole/site:site", ".rules");

        self.release.helm(&["upgrade", "site", &self.release.chart("0.2.0"), "--wait", "--timeout=2m"]);
        self.runs("0.2.0");
        assert_eq!(uids(), before, "{kept:?}");
        assert_eq!(self.field("crd/sites.example.com", r".metadata.annotations.kooper\.rs/version"), "0.2.0");
        let rules = self.field("clusterrole/site:site", ".rules");
        assert!(!role.contains("services") && rules.contains("services"), "{role}\n{rules}");

        self.edit(&json!({"note": "new"}));
        self.wait_for_field("deployment/sample", ".spec.template.metadata.annotations.note", "new");
        self.wait_until_ready("3");
    }

    /// The hook removes finalizers and Leases when the processes have ended. The objects and the CRD are kept.
    fn uninstalls(&self) {
        assert_eq!(self.field("site/sample", ".metadata.finalizers"), r#"["example.com/site"]"#);
        assert_eq!(self.names("leases"), "lease.coordination.k8s.io/site-site\n");
        let left = "deployments,services,jobs,serviceaccounts,roles,rolebindings,poddisruptionbudgets";
        assert!(self.names(left).contains("serviceaccount/site\n"), "{}", self.names(left));

        self.release.helm(&["uninstall", "site", "--timeout=3m"]);
        let log = self.kubelet.log_of("site-uninstall").expect("the hook has run");
        for line in ["stop      Deployment site/site", "release   sites.example.com: default/sample;", "done "] {
            assert!(log.contains(line), "{line}: {log}");
        }
        assert!(log.contains("delete    Lease site/site-site"), "{log}");
        assert_eq!(self.names("leases"), "");
        assert_eq!(self.field("site/sample", ".metadata.finalizers"), "");
        for kept in ["crd/sites.example.com", "deployment/sample"] {
            self.must(&["get", kept]);
        }
        let names = self.names(left);
        assert_eq!(names.lines().collect::<BTreeSet<_>>(), ["serviceaccount/default"].into(), "{names}");
        let roles = self.must(&["get", "clusterroles,clusterrolebindings", "--output=name"]);
        assert!(!roles.contains("/site:"), "{roles}");
    }

    /// A second release takes over the CRD and its objects. After `uninstall`, nothing is left.
    fn returns_and_removes_everything(&self) {
        // The garbage collector looks for new kinds twice a minute, and deletes no children of a kind that it does not
        // know when it is removed.
        self.release.cluster.apply([json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "collected", "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Site", "name": "gone",
                "uid": "00000000-0000-4000-8000-000000000000",
            }]},
        })]);
        let left = || self.must(&["get", "configmap", "collected", "--ignore-not-found", "--output=name"]);
        until("the garbage collector knows the kind", || left().is_empty().then_some(()), left);
        self.release.helm(&["install", "site", &self.release.chart("0.2.0"), "--wait", "--timeout=2m"]);
        self.runs("0.2.0");
        self.wait_for_field("site/sample", ".metadata.finalizers", r#"["example.com/site"]"#);

        let log = self.release.administer("0.2.0", &["uninstall", "--install-namespace", NAMESPACE]);
        assert!(log.contains("delete    CRD sites.example.com, with "), "{log}");
        // Its hook finds neither the CRD nor a Lease.
        self.release.helm(&["uninstall", "site", "--timeout=3m"]);
        self.must(&["delete", "namespace", NAMESPACE, "--timeout=60s"]);
        let crd = self.release.cluster.kubectl(&["get", "crd", "sites.example.com"]);
        assert!(crd.stderr.contains("not found"), "{crd:?}");
        let children = || self.must(&["get", "deployments,replicasets,pods", "--output=name"]);
        until("the children are deleted", || children().is_empty().then_some(()), children);
    }
}
