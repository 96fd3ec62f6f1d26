//! Expansions as a whole.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use super::signature::Role;

fn expand(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    super::expand(Role::Controller, attribute, item)
}

/// An expansion as a formatted file.
fn expanded(attribute: TokenStream, item: &TokenStream) -> String {
    let tokens = expand(attribute, item).to_string();
    prettyplease::unparse(&syn2::parse_file(&tokens).expect("an expansion is a file of Rust"))
}

fn echo() -> TokenStream {
    quote! {
        /// Logs every pod.
        async fn echo(pod: Arc<Pod>) -> Result<()> {
            tracing::info!(pod = %pod.name_any(), "seen");
            Ok(())
        }
    }
}

/// An attribute and its item.
type Case = (TokenStream, TokenStream);

fn with_every_key() -> Case {
    let attribute = quote! {
        resource = v1::Pod, name = "pods", resync = off, workers = limits::WORKERS, retries = 5, backoff = ("10ms", "1m"),
        retry_rate = 20, timeout = "1.5s", namespaces = ["a", "b"], labels = "app in (web, api)",
        fields = "status.phase!=Failed", metadata_only, changed = [labels, "metadata.annotations['a.b/c']"], when = is_ours, debounce = "2s", priority = urgency,
        init = connect, events = off, settings = ShopSettings, layers = [audited, throttled::<3>], rbac("pods/log: get"), main = false, type_name = Pods,
    };
    let item = quote! {
        pub(crate) async fn pods(call: Call, pod: Arc<PartialObjectMeta<v1::Pod>>, db: State<Db>, settings: Settings<ShopSettings>) {}
    };
    (attribute, item)
}

fn with_every_key_for_production() -> Case {
    let attribute = quote! {
        resource(Shop, optional), labels = "app=web", owns = [Deployment, v1::Service],
        watches = [ConfigMap => users_of, Secret => v1::holders_of],
        reads = [(Secret, labels = "app=web"), (v1::Pod, names = ["a"], metadata_only)], sources = [orders],
        cleanup = tear_down, finalizer = "shop.example.com/cleanup", on_leave = cleanup,
        previous_names = ["old-shops"], previous_finalizers = ["shop.example.com/old"], previous_program = "old-shop", deleted = forget,
        leader_election(lease = "shops", namespace = "malls", lease_duration = "30s", renew_deadline = "20s", retry_period = "5s"),
        install_crd, samples = ["shop.yaml", "malls/mall.json"], main = false,
    };
    let item = quote! {
        async fn shops(
            shop: Arc<Shop>, secrets: Reader<Secret>, pods: Reader<PartialObjectMeta<v1::Pod>>
        ) -> Result<()> { Ok(()) }
    };
    (attribute, item)
}

fn with_children() -> Case {
    let attribute = quote! {
        resource = Shop, init = connect, children = [
            config, password(once), v1::web(config, password, keep, not_ready), front(after = web, recreate(orphan)),
            dns(web, after = [front, config]), tls(external),
        ],
        deletion = ordered, cleanup = tear_down, finalizer = "shop.example.com/shop", daemon = watch,
        previous_children = [Ingress, v1::Service], main = false,
    };
    let item = quote! {
        async fn shops(children: Children<Shop>) -> Result<()> { Ok(()) }
    };
    (attribute, item)
}

fn with_a_task() -> Case {
    let attribute = quote! {
        every = "10m", name = "sweep-pods", backoff = ("1s", "1m"), timeout = "2m", leader_election,
        namespaces = ["shop"], reads = [(Pod, labels = "app=web")], init = connect, settings = ShopSettings, layers = [audited],
        rbac("pods/log: get"), type_name = Sweep, main = false,
    };
    let item = quote! {
        pub async fn sweep(pods: Reader<Pod>, db: State<Db>, settings: Settings<ShopSettings>) -> Result<()> { Ok(()) }
    };
    (attribute, item)
}

fn with_a_list() -> Case {
    let item = quote! {
        pub async fn each<K: Kind + Debug>(object: Arc<K>) -> Result<Action> where K: Clone {
            Ok(Action::done())
        }
    };
    let attribute = quote! {
        resource([Shop, v1::Mall], optional), namespace = "shop", leader_election, install_crd, main = false
    };
    (attribute, item)
}

#[test]
fn every_key() {
    let (attribute, item) = with_every_key();
    insta::assert_snapshot!(expanded(attribute, &item));
}

#[test]
fn every_key_for_production() {
    let (attribute, item) = with_every_key_for_production();
    insta::assert_snapshot!(expanded(attribute, &item));
}

#[test]
fn a_task_with_every_key() {
    let (attribute, item) = with_a_task();
    let tokens = super::expand(Role::Task, quote!(crate = my::platform, #attribute), &item).to_string();
    assert!(!tokens.contains(":: kooper"), "{tokens}");
    insta::assert_snapshot!(prettyplease::unparse(&syn2::parse_file(&tokens).expect("a file of Rust")));
}

#[test]
fn a_task_with_a_schedule() {
    let item = quote!(
        async fn sweep() {}
    );
    let tokens = super::expand(Role::Task, quote!(cron = "0 3 * * *", main = false), &item).to_string();
    assert!(tokens.contains(r#":: kooper :: __private :: v1 :: cron_task ("sweep" , "0 3 * * *")"#), "{tokens}");
}

#[test]
fn a_task_for_each_replica() {
    let item = quote!(
        async fn sweep() {}
    );
    let tokens = super::expand(Role::Task, quote!(every = "10m", everywhere, main = false), &item).to_string();
    assert!(tokens.contains(". everywhere ()"), "{tokens}");
}

#[test]
fn declared_children() {
    let (attribute, item) = with_children();
    insta::assert_snapshot!(expanded(attribute, &item));
}

#[test]
fn children_that_are_deleted_in_order_need_no_cleanup() {
    let attribute = quote!(resource = Shop, children = [config], deletion = ordered, finalizer = "a.b/c", main = false);
    let item = quote!(
        async fn shops() {}
    );
    let tokens = expand(attribute, &item).to_string();
    assert!(
        tokens.contains(r#"(__builder , & __children , "a.b/c" , :: kooper :: __private :: v1 :: no_cleanup)"#),
        "{tokens}"
    );
}

#[test]
fn all_slots_may_be_previous_ones() {
    let attribute = quote!(resource = Shop, children = [], previous_children = [Ingress], status = none, main = false);
    let item = quote!(
        async fn shops() {}
    );
    let tokens = expand(attribute, &item).to_string();
    assert!(
        tokens
            .contains("owned_previous_children (__children , :: kooper :: __private :: v1 :: kind :: < Ingress > ())"),
        "{tokens}"
    );
    assert!(!tokens.contains("compile_error"), "{tokens}");
}

#[test]
fn a_list_of_kinds() {
    let (attribute, item) = with_a_list();
    insta::assert_snapshot!(expanded(attribute, &item));
}

#[test]
fn the_fallback_does_not_import_a_type_parameter() {
    let (_, item) = with_a_list();
    let attribute = quote!(resource = [Pod], deleted = forget::<K>, workers = 0);
    let tokens = expand(attribute, &item).to_string();
    assert!(tokens.contains("use forget as _"), "{tokens}");
    assert!(!tokens.contains("use K as _"), "{tokens}");
}

#[test]
fn the_fallback_imports_constants_and_no_other_word_in_their_place() {
    let attribute = quote!(
        resource = Pod,
        resync = Off,
        retries = u32::MAX,
        workers = Limits::WORKERS,
        labels = WEB,
        leader_election(retry_period = Short)
    );
    let tokens = expand(attribute, &echo()).to_string();
    for imported in ["use Pod as _", "use Limits as _", "use WEB as _"] {
        assert!(tokens.contains(imported), "{tokens}");
    }
    assert!(!["use Off", "use u32", "use Short"].iter().any(|word| tokens.contains(word)), "{tokens}");
}

#[test]
fn an_error_in_main_generates_an_empty_main() {
    for attribute in [quote!(resource = Pod, main = true), quote!(resource = Pod, workers = 0)] {
        let tokens = expand(attribute, &echo()).to_string();
        assert!(tokens.ends_with("fn main () { }"), "{tokens}");
    }
    let without = expand(quote!(resource = Pod, workers = 0, main = false), &echo()).to_string();
    assert!(!without.contains("fn main"), "{without}");
}

#[test]
fn the_fallback_for_a_method() {
    let item = quote!(
        async fn echo(&self, pod: Arc<Pod>) {}
    );
    let tokens = expand(quote!(resource = Pod), &item).to_string();
    assert!(tokens.ends_with(&item.to_string()), "{tokens}");
}

#[test]
fn the_fallback_generates_nothing_that_an_attribute_below_generates() {
    let item = quote! {
        #[kooper::task(every = "10m")]
        async fn echo(pod: Arc<Pod>) {}
    };
    let tokens = expand(quote!(resource = v1::Pod), &item).to_string();
    assert!(tokens.contains("use v1 :: Pod as _"), "{tokens}");
    assert!(!tokens.contains("struct echo") && !tokens.contains("fn main"), "{tokens}");
}

#[test]
fn a_function_has_two_attributes_if_one_names_its_type() {
    let item = |name: TokenStream| {
        quote! {
            #[kooper::task(every = "10m", main = false #name)]
            async fn tick(call: Call) {}
        }
    };
    for (attribute, below) in [
        (quote!(resource = Pod, main = false, type_name = Ticks), quote!()),
        (quote!(resource = Pod, main = false), quote!(, type_name = Ticks)),
    ] {
        let tokens = expand(attribute, &item(below)).to_string();
        assert!(!tokens.contains("compile_error"), "{tokens}");
    }
}

#[test]
fn a_custom_path_is_the_only_path_to_kooper() {
    let cases = [
        (quote!(resource = Pod), echo()),
        (quote!(resource = Pod, workers = 0, main = false), echo()),
        with_every_key(),
        with_every_key_for_production(),
        with_children(),
        with_a_list(),
    ];
    for (attribute, item) in cases {
        let tokens = expand(quote!(crate = my::platform, #attribute), &item).to_string();
        assert!(!tokens.contains(":: kooper"), "{tokens}");
        assert!(tokens.contains("my :: platform :: __private :: v1"), "{tokens}");
    }
}

#[test]
fn the_fn_is_emitted_as_written() {
    let item = echo().to_string();
    for attribute in [quote!(resource = Pod), quote!(), quote!(resource = [Pod], workers = "x")] {
        assert!(expand(attribute, &echo()).to_string().contains(&item));
    }
}

#[test]
fn an_unknown_key_is_imported_for_the_completion_in_editors() {
    let tokens = expand(quote!(resource = Pod, wor), &echo()).to_string();
    assert!(tokens.contains(":: kooper :: __private :: v1 :: complete ! (wor) ;"), "{tokens}");
    assert!(!expand(quote!(resource = Pod, workers = 0), &echo()).to_string().contains("complete"));
}

/// The places of all words with this name in tokens.
fn places(tokens: TokenStream, name: &str, found: &mut Vec<(usize, usize)>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == name => {
                let (start, end) = (ident.span().start(), ident.span().end());
                found.push((start.column, end.column));
            }
            TokenTree::Group(group) => places(group.stream(), name, found),
            _ => {}
        }
    }
}

#[test]
fn the_call_of_a_key_has_the_place_of_the_key() {
    let attribute =
        "resource = Pod, workers = 4, when = is_ours, owns = [Service], cleanup = end, finalizer = \"a.b/c\"";
    let expanded = expand(attribute.parse().expect("an attribute"), &echo());
    for (key, method) in [("workers", "workers"), ("when", "when_fn"), ("owns", "owns"), ("cleanup", "cleanup")] {
        let mut found = Vec::new();
        places(expanded.clone(), method, &mut found);
        let start = attribute.find(key).expect(key);
        assert!(found.contains(&(start, start + key.len())), "{key}: {found:?}");
    }
}

#[test]
fn the_call_of_an_argument_spans_its_first_to_its_last_word() {
    let item = "async fn echo(pod: v1::Pod) {}";
    let expanded = expand(quote!(resource = Pod), &item.parse().expect("an item"));
    let mut found = Vec::new();
    places(expanded, "argument", &mut found);
    let last = item.find("Pod").expect("the last word of the type");
    assert_eq!(found, [(last, last + 3)]);
}

#[test]
fn generated_items_have_the_conditions_of_the_function() {
    let item = quote! {
        /// Logs every pod.
        #[cfg(feature = "pods")]
        #[cfg_attr(test, allow(dead_code), cfg(unix))]
        #[inline]
        async fn echo(pod: Arc<Pod>) {}
    };
    insta::assert_snapshot!(expanded(quote!(resource = Pod), &item));
    insta::assert_snapshot!(expanded(quote!(resource = Pod, workers = 0), &item));
}

#[test]
fn generated_items_allow_what_the_function_allows() {
    let item = quote! {
        #[deprecated = "pods are logged by another program"]
        #[allow(dead_code)]
        #[expect(clippy::absolute_paths, reason = "it is written once")]
        async fn echo(pod: Arc<Pod>) {}
    };
    let allowed = quote! {
        #[allow(deprecated)]
        #[allow(dead_code)]
        #[allow(clippy::absolute_paths, reason = "it is written once")]
    };
    let tokens = expand(quote!(resource = Pod, changed = ["spec.nodeName"]), &item).to_string();
    for (generated, times) in [(quote!(#[doc(hidden)]), 1), (quote!(const _), 2)] {
        assert_eq!(tokens.matches(&quote!(#allowed #generated).to_string()).count(), times, "{tokens}");
    }
}

#[test]
fn the_message_about_a_field_that_is_missing_has_the_braces_of_its_kind() {
    let item = quote! {
        async fn size(sized: Arc<Sized<{ 1 + 1 }>>) {}
    };
    let tokens = expand(quote!(resource = Sized<{ 1 + 1 }>, changed = ["spec.size"]), &item).to_string();
    assert!(tokens.contains("Sized<{{1+1}}>` has no field `spec.size`"), "{tokens}");
}

#[test]
fn lints_that_are_allowed_under_a_condition_are_allowed_in_generated_items() {
    let item = quote! {
        #[cfg_attr(feature = "next", deprecated, expect(clippy::unused_async), doc = "replaced")]
        async fn echo(pod: Arc<Pod>) {}
    };
    let lints = quote!(#[cfg_attr(feature = "next", allow(deprecated), allow(clippy::unused_async))]).to_string();
    for (attribute, times) in [(quote!(resource = Pod), 2), (quote!(resource = Pod, workers = 0), 2)] {
        let tokens = expand(attribute, &item).to_string();
        assert_eq!(tokens.matches(&lints).count(), times, "{tokens}");
    }
}
