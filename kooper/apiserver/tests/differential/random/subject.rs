//! The kinds that random histories are about.

/// A kind, as requests name it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// The collection in the history's namespace.
    pub(crate) path: &'static str,
    pub(crate) custom: bool,
    pub(crate) status: bool,
    pub(crate) scale: bool,
}

pub(crate) const SUBJECTS: [Subject; 7] = [
    Subject::core("ConfigMap", "/api/v1/namespaces/$ns/configmaps"),
    Subject::core("Secret", "/api/v1/namespaces/$ns/secrets"),
    Subject { status: true, ..Subject::core("Pod", "/api/v1/namespaces/$ns/pods") },
    Subject { status: true, ..Subject::core("Service", "/api/v1/namespaces/$ns/services") },
    Subject {
        api_version: "apps/v1",
        kind: "Deployment",
        path: "/apis/apps/v1/namespaces/$ns/deployments",
        custom: false,
        status: true,
        scale: true,
    },
    Subject {
        api_version: "random.example/v1",
        kind: "Widget",
        path: "/apis/random.example/v1/namespaces/$ns/widgets",
        custom: true,
        status: true,
        scale: true,
    },
    Subject {
        api_version: "random.example/v1",
        kind: "Gadget",
        path: "/apis/random.example/v1/namespaces/$ns/gadgets",
        custom: true,
        status: false,
        scale: false,
    },
];

impl Subject {
    const fn core(kind: &'static str, path: &'static str) -> Self {
        Self { api_version: "v1", kind, path, custom: false, status: false, scale: false }
    }

    /// The verbs that it has, with how often they are chosen.
    pub(crate) fn verbs(&self) -> Vec<(&'static str, u32)> {
        let mut verbs = vec![
            ("create", 15),
            ("get", 6),
            ("list", 8),
            ("watch", 11),
            ("update", 15),
            ("json-patch", 7),
            ("merge-patch", 9),
            ("strategic-patch", if self.custom { 5 } else { 7 }),
            ("apply", 9),
            ("delete", 8),
            ("deletecollection", 5),
        ];
        if self.status {
            verbs.extend([("get-status", 5), ("update-status", 5), ("patch-status", 5)]);
        }
        if self.scale {
            verbs.extend([("get-scale", 5), ("update-scale", 5), ("patch-scale", 5)]);
        }
        verbs
    }
}
