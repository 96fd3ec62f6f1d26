//! The warnings about caches of Secrets.

use super::*;

#[test]
fn each_cache_of_all_secrets_causes_a_warning() {
    async fn reads(_: Reader<Secret>) {}
    async fn plain() {}
    async fn get(_: Getter<Secret>) {}
    let wakes = |_: &Secret| Vec::new();
    let of = Controller::builder::<Pod>;
    let controllers = [
        of("reads").handler(reads),
        of("owns").owns(Secret::all()).handler(plain),
        of("watches").namespaces(["a", "b"]).watches::<Secret, _, _>(wakes).handler(plain),
        of("gets").handler(get),
        of("selected").handler(reads).reads(Secret::all().labels("app=shop")),
        of("narrow").owns(Secret::all().labels("app=shop")).handler(plain),
        of("metadata").owns(Secret::all().metadata_only()).handler(plain),
        of("named").watches_only(Secret::all().names(["one"]), wakes).handler(plain),
    ]
    .map(|builder| builder.build().expect("a controller"));
    let own = Controller::builder::<Secret>("own").handler(plain).build().expect("a controller");
    let metadata =
        Controller::builder::<Secret>("metadata").metadata_only().handler(plain).build().expect("a controller");
    let warnings = warnings(&controllers.into_iter().chain([own, metadata]).collect::<Vec<_>>());
    let expected = [
        "`Reader<Secret>` of the controller `reads` keeps every Secret of the cluster in memory and",
        "`owns = [Secret]` of the controller `owns` keeps every Secret of the cluster in memory and",
        "`watches = [Secret]` of the controller `watches` keeps every Secret of the namespaces a, b in memory and",
        "`resource = Secret` of the controller `own` keeps every Secret of the cluster in memory and",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{warning}");
    }
    for (warning, form) in warnings.iter().zip([
        "`Reader<PartialObjectMeta<Secret>>`",
        "`owns = [(Secret, metadata_only)]`",
        "`(Secret, names = [\"…\"]) => …`",
        "`metadata_only`",
    ]) {
        assert!(warning.contains(form), "{warning}");
    }
}
