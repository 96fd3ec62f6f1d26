//! A program that runs on an API server of its own: its command `dev`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::{Client, Config, discovery};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::control_plane::{self, Output};
use crate::process::Process;

/// A folder for the files of programs, which is removed at the end.
#[derive(Debug)]
#[must_use = "dropping it removes the folder"]
pub struct Home(PathBuf);

impl Home {
    /// An empty folder in another one, such as `CARGO_TARGET_TMPDIR`.
    pub fn new(parent: &str, name: &str) -> Self {
        let path = Path::new(parent).join(format!("dev-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        fs::write(&path, text).expect("the file can be written");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// Starts `PROGRAM dev` with these arguments.
    pub fn start(&self, program: &str, args: &[&str]) -> Dev {
        let home = self.0.to_str().expect("the path is UTF-8");
        let process = Process::start(program, &[&["dev"], args].concat(), &[("XDG_STATE_HOME", home)]);
        Dev { process, runtime: Runtime::new().expect("there are threads") }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A program that runs as `dev`.
#[derive(Debug)]
#[must_use = "dropping it ends the program"]
pub struct Dev {
    /// The program.
    pub process: Process,
    runtime: Runtime,
}

impl Dev {
    /// The kubeconfig that it prints.
    pub fn kubeconfig(&self) -> PathBuf {
        let line = self.process.wait_for_line(&["  export KUBECONFIG="]);
        line.split_once("KUBECONFIG=").expect("a path follows").1.trim_matches('\'').into()
    }

    /// A client as kubectl has it with the printed line.
    pub fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).expect("it is a kubeconfig");
        let options = KubeConfigOptions::default();
        self.runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("it is complete");
            Client::try_from(config).expect("it is a client")
        })
    }

    /// Runs something that takes the client.
    pub fn with<T>(&self, work: impl AsyncFnOnce(Client) -> T) -> T {
        let client = self.client();
        self.runtime.block_on(work(client))
    }

    /// Applies an object.
    pub fn apply(&self, object: &Value) {
        self.with(async |client| {
            let (objects, name) = objects(client, object).await;
            let params = PatchParams::apply("test").force();
            objects.patch(&name, &params, &Patch::Apply(object)).await.expect("it is applied");
        });
    }

    /// Deletes an object.
    pub fn delete(&self, object: &Value) {
        self.with(async |client| {
            let (objects, name) = objects(client, object).await;
            objects.delete(&name, &Default::default()).await.expect("it is deleted");
        });
    }

    /// The object as the server has it.
    pub fn get(&self, object: &Value) -> Option<Value> {
        self.with(async |client| {
            let (objects, name) = objects(client, object).await;
            let found = objects.get_opt(&name).await.expect("the server answers");
            found.map(|object| serde_json::to_value(object).expect("it is JSON"))
        })
    }

    /// Runs kubectl with the printed kubeconfig; `None` where there is no kubectl.
    #[must_use]
    pub fn kubectl(&self, args: &[&str]) -> Option<Output> {
        let kubectl = control_plane::kubectl()?;
        let kubeconfig = self.kubeconfig();
        let cache = kubeconfig.with_file_name("kubectl-cache");
        let output = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--cache-dir")
            .arg(cache)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("kubectl can be run");
        Some(output.into())
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the end.
    pub fn stop(mut self) {
        self.process.signal("INT");
        assert_eq!(self.process.exit_code(), Some(0), "{}", self.process.lines().join("\n"));
    }
}

async fn objects(client: Client, object: &Value) -> (Api<DynamicObject>, String) {
    let types: TypeMeta = serde_json::from_value(object.clone()).expect("it has a type");
    let kind = GroupVersionKind::try_from(&types).expect("it has a kind");
    let (resource, _) = discovery::pinned_kind(&client, &kind).await.expect("the server has the kind");
    let name = object["metadata"]["name"].as_str().expect("it has a name").to_owned();
    let api = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::default_namespaced_with(client, &resource),
    };
    (api, name)
}
