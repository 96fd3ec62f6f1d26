//! The commands that print documents: `crd` and `rbac`.

use std::process::ExitCode;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;

use super::invocation::Invocation;
use super::stdout::print;
use super::webhooks;
use crate::rbac::{self, Place};
use kooper_access::Controller;
use kooper_access::internal::crd::{annotated, merged};
use kooper_runtime::BoxError;

/// The CRDs of the controllers' kinds, each once.
pub(crate) fn crd(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let crds = crds(&invocation.installation().program, invocation.app.version, &invocation.controllers()?);
    if crds.is_empty() {
        return print("# The controllers of this program have no CRDs.\n");
    }
    print(&yaml(crds)?)
}

/// The CRDs with their annotations.
pub(super) fn crds(program: &str, version: &str, controllers: &[Controller]) -> Vec<CustomResourceDefinition> {
    let crds = merged(controllers.iter().filter_map(Controller::crd).map(|(crd, _)| crd));
    crds.into_values().map(|crd| annotated(crd, program, version)).collect()
}

/// The service account with its roles.
pub(crate) fn rbac(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let mut controllers = invocation.controllers()?;
    let place = place(invocation);
    controllers.iter_mut().for_each(|one| one.set_own_namespace(&place.namespace));
    controllers.extend(webhooks::controllers(invocation, &place)?);
    let grants = rbac::grants(&controllers, &place)?;
    warn(&controllers);
    print(&yaml(rbac::documents(&grants, &place))?)
}

/// Where the flags install the program.
pub(super) fn place(invocation: &Invocation<'_>) -> Place {
    let settings = &invocation.settings;
    let namespace = settings.install_namespace().to_owned();
    let lease_namespace = settings.lease_namespace.clone().unwrap_or_else(|| namespace.clone());
    let reviews_tokens = settings.reviews_tokens();
    Place { installation: invocation.installation(), namespace, lease_namespace, reviews_tokens }
}

/// Logs what is dangerous about the permissions.
pub(super) fn warn(controllers: &[Controller]) {
    for warning in rbac::warnings(controllers) {
        tracing::warn!("{warning}");
    }
}

/// Documents as YAML for kubectl.
pub(super) fn yaml<T: Serialize>(documents: impl IntoIterator<Item = T>) -> Result<String, BoxError> {
    let mut text = String::new();
    for document in documents {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        // Of one type: each type that YAML is written from costs compile time.
        text.push_str(&serde_saphyr::to_string(&serde_json::to_value(&document)?)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Program;
    use crate::cli::app::App;
    use crate::cli::args::Settings;

    fn unruled(program: &mut Program) {
        async fn handler(_: kube::Client) {}
        program.add(Controller::builder::<k8s_openapi::api::core::v1::Pod>("one").handler(handler));
    }

    #[test]
    fn a_client_without_rules_has_no_role() {
        let app = App::new("shop", "1.0.0").defined(unruled);
        let invocation = Invocation { app: &app, settings: Settings::default() };
        let error = rbac(&invocation).expect_err("its permissions are unknown");
        assert!(
            error.to_string().starts_with("the controller `one` takes `Client`, whose permissions are unknown"),
            "{error}"
        );
        crd(&invocation).expect("it prints that there are no CRDs");
    }

    #[test]
    fn yaml_keeps_the_type_of_every_string() {
        let words = "on yes y No null true ~ 1 1e3 .inf 0x1f 012 1:30 2001-01-01 #a * &a !a %a \
                     @a `a` {a} [a] ' \" \\ = << | > ? ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
        let long = "a line that is so long that it would be folded by a writer with a limit on line length, with  two  blanks and an end ";
        let with_blanks = ["", " a ", "a: b", "- a", "a #b", "a\nb\n", "a\n\n", "\ta", "a\u{7f}b", long];
        let texts: Vec<_> = words.split_whitespace().chain(with_blanks).collect();
        let fields: serde_json::Map<_, _> = texts.iter().map(|text| ((*text).to_owned(), json!(1))).collect();
        let document = json!({
            "texts": texts, "fields": fields, "numbers": [1, 1.5, -2.0, 1e300], "none": {}, "no": [],
        });
        let text = yaml([&document, &document]).expect("YAML");
        let (one, two) = text.split_once("\n---\n").expect("two documents");
        assert_eq!(two.trim_end(), one.trim_end());
        let read: Value = serde_saphyr::from_str(one).expect("it can be read");
        assert_eq!(read, document);
        for quoted in ["'on'", "'yes'", "'1'", "'012'", "'1:30'", "'2001-01-01'"] {
            let double = quoted.replace('\'', "\"");
            assert!(one.contains(quoted) || one.contains(&double), "{quoted} in {one}");
        }
    }
}
