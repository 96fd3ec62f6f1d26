//! Compiles and runs the code of the README, of `docs` and of the macros' documentation. With kooper as a dependency of
//! the tests of a macro crate, everything would be compiled once more, for the compiler's own use.

macro_rules! pages {
    ($($name:ident = $path:literal)*) => {
        $(
            #[doc = include_str!($path)]
            mod $name {}
        )*
    };
}

pages! {
    readme = "../../README.md"
    crate_readme = "../README.md"
    walk = "../../docs/guide/00-walk.md"
    first_controller = "../../docs/guide/01-first-controller.md"
    handler = "../../docs/guide/02-handler.md"
    custom_resources = "../../docs/guide/03-custom-resources.md"
    children_and_status = "../../docs/guide/04-children-and-status.md"
    errors_and_retries = "../../docs/guide/05-errors-and-retries.md"
    reading_and_related_objects = "../../docs/guide/06-reading-and-related-objects.md"
    cleaning_up = "../../docs/guide/07-cleaning-up.md"
    state_and_settings = "../../docs/guide/08-state-and-settings.md"
    several_controllers_and_filters = "../../docs/guide/09-several-controllers-and-filters.md"
    permissions = "../../docs/guide/11-permissions.md"
    leader_election = "../../docs/guide/12-leader-election.md"
    production = "../../docs/guide/13-production.md"
    middleware = "../../docs/guide/14-middleware.md"
    builder = "../../docs/guide/15-builder.md"
    cookbook = "../../docs/guide/19-cookbook.md"
    declared_children = "../../docs/guide/21-declared-children.md"
    shards = "../../docs/guide/22-shards.md"
    rules_without_a_webhook = "../../docs/guide/23-rules-without-a-webhook.md"
    tasks_and_daemons = "../../docs/guide/24-tasks-and-daemons.md"
    attribute = "../../docs/reference/attribute.md"
    task_attribute = "../../docs/reference/task-attribute.md"
    cli = "../../docs/reference/cli.md"
    metrics = "../../docs/reference/metrics.md"
    messages = "../../docs/reference/errors-and-messages.md"
    how_it_works = "../../docs/concepts/how-it-works.md"
    children = "../../docs/concepts/children.md"
    deletion = "../../docs/concepts/deletion.md"
    guarantees = "../../docs/concepts/guarantees.md"
    concept_leader_election = "../../docs/concepts/leader-election.md"
    from_controller_runtime = "../../docs/from-controller-runtime.md"
    from_kube_rs = "../../docs/from-kube-rs.md"
    from_go_kooper = "../../docs/from-go-kooper.md"
    from_josdk = "../../docs/from-josdk.md"
    from_kopf = "../../docs/from-kopf.md"
    contributing = "../../docs/contributing/index.md"
    architecture = "../../docs/contributing/architecture.md"
    how_to_test = "../../docs/contributing/testing.md"
    style = "../../docs/contributing/style.md"
    macro_controller = "../../kooper-macros/src/attribute.md"
    macro_task = "../../kooper-macros/src/task.md"
    derive_partial = "../../kooper-macros/src/partial.md"
}

#[cfg(feature = "webhooks")]
pages! {
    webhooks = "../../docs/guide/20-webhooks.md"
    macro_mutate = "../../kooper-macros/src/mutate.md"
    macro_validate = "../../kooper-macros/src/validate.md"
}

// Their tests need the embedded API server.
#[cfg(feature = "apiserver")]
pages! {
    testing = "../../docs/guide/10-testing.md"
    recipes = "../../docs/guide/16-recipes.md"
    faults_and_exploration = "../../docs/guide/17-faults-and-exploration.md"
    macro_explore = "../../kooper-macros/src/explore.md"
    macro_test = "../../kooper-macros/src/test.md"
}
