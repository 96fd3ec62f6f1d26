//! The roles of the chart. They depend on values as those of `rbac` depend on flags:
//! the rules of each combination are computed here, with names that stand for those
//! of the values, and the chart chooses among them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::args::Settings;
use crate::cli::invocation::Invocation;
use crate::cli::webhooks;
use crate::manifests::template::escaped;
use crate::rbac::{self, Grant, Place};
use kooper_runtime::BoxError;

/// Names that stand for those of values.
const WATCHED: &str = "kooper-watched-namespace";
const LEASES: &str = "kooper-lease-namespace";
const INSTANCE: &str = "kooper-instance";
const OWN: &str = "kooper-own-namespace";

/// The choices of leader election: the value, and the flag.
pub(super) const ELECTIONS: [(&str, Option<bool>); 3] = [("", None), ("on", Some(true)), ("off", Some(false))];

/// The named templates with the rules, and with the roles of an account.
pub(super) fn named(name: &str, plain: &Invocation<'_>) -> Result<String, BoxError> {
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for namespaces in [false, true] {
        for instance in [false, true] {
            for (election, flag) in ELECTIONS {
                let settings = Settings {
                    namespaces: if namespaces { vec![WATCHED.to_owned()] } else { Vec::new() },
                    instance: instance.then(|| INSTANCE.to_owned()),
                    leader_election: flag,
                    ..plain.settings.clone()
                };
                let place = Place {
                    installation: settings.installation(name),
                    namespace: OWN.to_owned(),
                    lease_namespace: LEASES.to_owned(),
                    // Added by the template.
                    reviews_tokens: false,
                };
                let invocation = plain.with(settings);
                let mut controllers = invocation.controllers_quietly()?;
                controllers.iter_mut().for_each(|one| one.set_own_namespace(OWN));
                controllers.extend(webhooks::controllers(&invocation, &place)?);
                let grants = rbac::grants(&controllers, &place)?;
                let rules = escaped(&parts(grants.keys()).to_string());
                // Names have them, too.
                let rules = rules.replace(INSTANCE, "{{ .Values.instance }}").replace(OWN, "{{ .Release.Namespace }}");
                cases.entry(rules).or_default().push(format!("\"{namespaces} {instance} {election}\""));
            }
        }
    }
    let mut text = format!(
        "{{{{- /* The rules: for the cluster, the watched namespaces, that of the Leases, that of the release, and others. */ -}}}}\n\
         {{{{- define \"{name}.rules\" -}}}}\n\
         {{{{- $case := printf \"%t %t %s\" (not (empty .Values.namespaces)) (not (empty .Values.instance)) \
         (include \"{name}.setting\" (list . \"leaderElection\")) -}}}}\n"
    );
    for (at, (rules, cases)) in cases.iter().enumerate() {
        let otherwise = if at == 0 { "" } else { "else " };
        text += &format!("{{{{- {otherwise}if has $case (list {}) -}}}}\n{rules}\n", cases.join(" "));
    }
    text += "{{- end -}}\n{{- end }}\n\n";
    let reviews = rbac::REVIEWS
        .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]}));
    Ok(text + &ROLES.replace("PROGRAM", name).replace("REVIEWS", &json!(reviews).to_string()))
}

/// The rules by the place that they are granted in.
fn parts<'a>(grants: impl Iterator<Item = &'a Grant>) -> Value {
    let mut places: BTreeMap<Option<&str>, Vec<&Grant>> = BTreeMap::new();
    for grant in grants {
        places.entry(grant.namespace.as_deref()).or_default().push(grant);
    }
    let [cluster, watched, leases, own] = [None, Some(WATCHED), Some(LEASES), Some(OWN)]
        .map(|place| places.remove(&place).map_or_else(Vec::new, |grants| rbac::rules(&grants)));
    let others: serde_json::Map<_, _> = places
        .into_iter()
        .filter_map(|(namespace, grants)| Some((namespace?.to_owned(), rbac::rules(&grants).into())))
        .collect();
    json!({"cluster": cluster, "watched": watched, "leases": leases, "own": own, "others": others})
}

/// The service account of the program, with its roles.
pub(super) fn own(name: &str) -> String {
    format!(
        "{{{{- include \"{name}.roles\" (dict \"root\" . \"account\" (include \"{name}.account\" .) \"annotations\" (dict) \
         \"own\" (list) \"reviews\" true) }}}}\n"
    )
}

const ROLES: &str = include_str!("roles.tpl");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use kooper_access::controller::Task;
    use kooper_access::{Controller, Reader};

    use super::*;
    use crate::Program;
    use crate::cli::app::App;

    #[test]
    fn a_controller_of_the_operators_namespace_has_a_role_in_that_of_the_release() {
        fn own(program: &mut Program) {
            async fn count(_: Reader<Pod>) {}
            program.add(Controller::builder::<Pod>("one").own_namespace().handler(async || {}));
            program.add(Task::builder("count", Duration::from_secs(600)).own_namespace().handler(count));
        }
        let app = App::new("shop", "1.0.0").defined(own);
        let text = named("shop", &Invocation { app: &app, settings: Settings::default() }).expect("a template");
        let rules = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let has = |rules: &Value, part: &str| rules[part].as_array().is_some_and(|rules| !rules.is_empty());
        let parts: Vec<_> = rules.map(|rules| ["cluster", "watched", "own"].map(|part| has(&rules, part))).collect();
        assert!(parts.contains(&[false, false, true]), "{text}");
        assert!(parts.contains(&[false, true, false]), "with the value `namespaces`: {text}");
        assert!(parts.iter().all(|[cluster, watched, own]| !cluster && watched != own), "{text}");
    }
}
