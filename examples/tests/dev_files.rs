//! The files of `dev -f`.

use std::net::TcpListener;

use kooper_tests::dev::Home;
use serde_json::json;

use crate::dev::home;
use crate::support::{ICECREAM, ONEFILE_ECHO_POD};

const PODS: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: anna, namespace: people}
spec: {containers: [{name: main, image: none}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: people}
";

const GADGET: &str = "\
apiVersion: example.com/v1
kind: Gadget
metadata: {name: one}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, maximum: 5}
";

#[test]
fn files_and_folders_are_applied_each_object_after_what_it_needs() {
    let home = home("files");
    let pods = home.file("pods.yaml", PODS);
    home.file("others/gadget.yml", GADGET);
    home.file(
        "others/ben.json",
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ben"},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        })
        .to_string(),
    );
    home.file("others/readme.txt", "nothing");
    let others = home.path().join("others");
    let others = others.to_str().expect("the path is UTF-8");
    let dev = home.start(ONEFILE_ECHO_POD, &["--port", "0", "-f", &pods, "--filename", others]);
    dev.process.wait_for_line(&["  objects", "pod/anna", "namespace/people", "pod/ben", "gadget/one"]);
    dev.process.wait_for_line(&["kubectl get pods --all-namespaces"]);
    dev.process.wait_for_line(&["kubectl label pod/anna mood=good --namespace people"]);
    dev.process.wait_for_line(&["kubectl delete pod/anna --namespace people"]);
    dev.process.wait_for_line(&["seen pod=anna namespace=\"people\""]);
    dev.process.wait_for_line(&["seen pod=ben namespace=\"default\""]);
    // Nothing but these.
    assert_eq!(dev.process.count(&["pod=hello"]), 0);
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}});
    assert_eq!(dev.get(&gadget).expect("it is there")["spec"]["size"], 3);
    dev.stop();
}

fn refused(home: &Home, program: &str, name: &str, text: &str, expected: &str) {
    let file = home.file(name, text);
    let mut dev = home.start(program, &["--port", "0", "-f", &file]);
    assert_eq!(dev.process.exit_code(), Some(1), "{}", dev.process.lines().join("\n"));
    let expected = format!("{file}{expected}");
    assert_eq!(dev.process.count(&[&expected]), 1, "{expected}\nis not in\n{}", dev.process.lines().join("\n"));
}

#[test]
fn what_is_wrong_is_named_with_file_and_line() {
    let home = home("wrong");
    let refused = |program, name, text: &str, expected| refused(&home, program, name, text, expected);
    refused(ONEFILE_ECHO_POD, "broken.yaml", "apiVersion: v1\nkind: [Pod\n", ":");
    refused(ONEFILE_ECHO_POD, "broken.json", "{\n\"kind\" 3}", ":2: ");
    refused(ONEFILE_ECHO_POD, "nameless.yaml", "apiVersion: v1\nkind: Pod\n", ":1: `metadata.name` is missing");
    let unknown = "# A gadget.\napiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n";
    refused(ONEFILE_ECHO_POD, "unknown.yaml", unknown, ":3: the API server has no kind `Gadget` of `example.com/v1`");
    let gadget = GADGET.replace("spec: {size: 3}", "spec:\n  size: 7");
    refused(ONEFILE_ECHO_POD, "gadget.yaml", &gadget, ":5: Gadget.example.com \"one\" is invalid: spec.size");
    let icecream = "apiVersion: controller.nicoleh.io/v1alpha1\nkind: IceCream\nmetadata:\n  name: vanilla\nspec:\n  deploymentName: vanilla\n  replicas: -1\n";
    refused(ICECREAM, "icecream.yaml", icecream, ":7: IceCream.controller.nicoleh.io \"vanilla\" is invalid: ");

    // Also where the port of the metrics is taken.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("bound").to_string();
    let file = home.file("gadget.yaml", &gadget);
    let mut dev = home.start(ONEFILE_ECHO_POD, &["--port", "0", "--listen", &listen, "-f", &file]);
    assert_eq!(dev.process.exit_code(), Some(1));
    dev.process.wait_for_line(&["gadget.yaml:5: Gadget.example.com \"one\" is invalid: spec.size"]);

    // A generator that has failed may have written nothing: the samples would hide that.
    let file = home.file("none.yaml", "# nothing\n");
    let mut dev = home.start(ONEFILE_ECHO_POD, &["--port", "0", "-f", &file]);
    assert_eq!(dev.process.exit_code(), Some(1));
    dev.process.wait_for_line(&["onefile-echo-pod cannot start: the files contain no objects"]);

    let mut dev = home.start(ONEFILE_ECHO_POD, &["-f", "/nowhere/pods.yaml"]);
    assert_eq!(dev.process.exit_code(), Some(1));
    dev.process.wait_for_line(&["onefile-echo-pod cannot start: /nowhere/pods.yaml cannot be read: "]);
}
