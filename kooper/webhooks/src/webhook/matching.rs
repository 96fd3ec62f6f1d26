//! Which requests of its operations a function is called for.

use std::collections::BTreeSet;

use kooper_grammar::name;
use kooper_grammar::selector::{Comparator, Requirement, Selector};
use kooper_runtime::internal::object::kind::KindInfo;

use super::is_selected_by_namespace;

/// The most conditions that an API server accepts.
const MOST_CONDITIONS: usize = 64;

/// The subresources whose requests have objects of another kind.
const OTHERS: [&str; 9] = ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "scale", "token"];

/// As it was requested.
#[derive(Debug, Default)]
pub(super) struct Requested {
    pub(super) conditions: Option<Vec<(String, String)>>,
    pub(super) namespaces: Option<String>,
    pub(super) subresources: Vec<String>,
}

/// As an API server can be told.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// Names and expressions; `None` for the usual ones.
    pub(crate) conditions: Option<Vec<(String, String)>>,
    /// Labels of namespaces; `None` for the usual ones.
    pub(crate) namespaces: Option<Selector>,
    pub(crate) subresources: Vec<String>,
}

impl Requested {
    /// Returns what is wrong with it, and what to write instead.
    pub(super) fn check(self, kind: &KindInfo, mutates: bool) -> Result<Matching, String> {
        let Self { conditions, namespaces, subresources } = self;
        check_conditions(conditions.as_deref().unwrap_or_default())?;
        check_subresources(&subresources, kind, mutates)?;
        let namespaces = namespaces.map(|text| check_namespaces(&text, kind)).transpose()?;
        Ok(Matching { conditions, namespaces, subresources })
    }
}

fn check_conditions(conditions: &[(String, String)]) -> Result<(), String> {
    if conditions.len() > MOST_CONDITIONS {
        return Err(format!("an API server accepts {MOST_CONDITIONS} conditions at most: join some with `&&`"));
    }
    let mut names = BTreeSet::new();
    for (name, expression) in conditions {
        name::label(name).map_err(|error| format!("the name of a condition: {error}"))?;
        if !names.insert(name) {
            return Err(format!("two conditions have the name `{name}`: give one of them another name"));
        }
        if expression.trim().is_empty() {
            return Err(format!("the condition `{name}` has no expression: write one in CEL"));
        }
    }
    Ok(())
}

fn check_namespaces(text: &str, kind: &KindInfo) -> Result<Selector, String> {
    let selector = Selector::parse(text).map_err(|error| format!("the selector of namespaces: {error}"))?;
    if !is_selected_by_namespace(kind) {
        return Err(format!("objects of the kind `{}` are in no namespace: remove `namespace_selector`", kind.kind));
    }
    if selector.is_empty() {
        return Err("the selector of namespaces is empty: write one such as `environment=production`".to_owned());
    }
    let is_number = |one: &Requirement| matches!(one.operator(), Comparator::GreaterThan | Comparator::LessThan);
    if selector.requirements().iter().any(is_number) {
        return Err("an API server does not compare labels of namespaces with `<` or `>`: write values, such as \
                    `tier in (1, 2)`"
            .to_owned());
    }
    Ok(selector)
}

fn check_subresources(subresources: &[String], kind: &KindInfo, mutates: bool) -> Result<(), String> {
    if mutates && !subresources.is_empty() {
        return Err("a function that mutates is called only for the object itself: remove `subresources`".to_owned());
    }
    for one in subresources {
        name::label(one).map_err(|error| format!("the name of a subresource: {error}"))?;
        if OTHERS.contains(&&**one) {
            return Err(format!(
                "requests for `{one}` have objects of another kind than `{}`: remove it from `subresources`",
                kind.kind
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
    use kooper_runtime::Kind;

    use super::*;

    fn problem<K: Kind>(requested: Requested) -> String {
        requested.check(&KindInfo::of::<K>(), false).err().unwrap_or_default()
    }

    #[test]
    fn conditions_have_names_of_their_own_and_expressions() {
        let of = |conditions: &[(&str, &str)]| {
            let conditions = conditions.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            problem::<Pod>(Requested { conditions: Some(conditions.collect()), ..Requested::default() })
        };
        assert_eq!(of(&[("a", "true"), ("b", "true")]), "");
        assert!(of(&[("a", "true"), ("a", "true")]).starts_with("two conditions have the name `a`"));
        assert!(of(&[("a", " ")]).starts_with("the condition `a` has no expression"));
        assert!(of(&[("A", "true")]).starts_with("the name of a condition: \"A\" is not a DNS label"));
        assert!(of(&[("a", "true"); 65]).starts_with("an API server accepts 64 conditions at most"));
    }

    #[test]
    fn namespaces_are_selected_by_labels_that_are_not_compared_as_numbers() {
        fn of<K: Kind>(text: &str) -> String {
            problem::<K>(Requested { namespaces: Some(text.to_owned()), ..Requested::default() })
        }
        assert_eq!(of::<Pod>("environment=production,!legacy"), "");
        assert_eq!(of::<Namespace>("environment"), "");
        assert!(of::<Node>("environment").starts_with("objects of the kind `Node` are in no namespace"));
        assert!(of::<Pod>("").starts_with("the selector of namespaces is empty"));
        assert!(of::<Pod>("tier>1").starts_with("an API server does not compare"));
        assert!(of::<Pod>("a b").starts_with("the selector of namespaces: "));
    }

    #[test]
    fn subresources_have_the_object_itself() {
        let of = |name: &str, mutates| {
            let requested = Requested { subresources: vec![name.to_owned()], ..Requested::default() };
            requested.check(&KindInfo::of::<Pod>(), mutates).err().unwrap_or_default()
        };
        assert_eq!(of("status", false), "");
        assert!(of("status", true).starts_with("a function that mutates is called only for the object itself"));
        assert!(of("eviction", false).starts_with("requests for `eviction` have objects of another kind than `Pod`"));
    }
}
