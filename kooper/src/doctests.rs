//! Compiles and runs the code of the README and of `docs`.

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
    first_controller = "../../docs/guide/01-first-controller.md"
    handler = "../../docs/guide/02-handler.md"
    errors_retries_resync = "../../docs/guide/03-errors-retries-resync.md"
    state = "../../docs/guide/04-state.md"
    several_controllers = "../../docs/guide/05-several-controllers.md"
    middleware = "../../docs/guide/06-middleware.md"
    testing = "../../docs/guide/07-testing.md"
    production = "../../docs/guide/08-production.md"
    builder = "../../docs/guide/09-builder.md"
    children = "../../docs/guide/10-children.md"
    related_objects = "../../docs/guide/11-related-objects.md"
    reading = "../../docs/guide/12-reading.md"
    cleaning_up = "../../docs/guide/13-cleaning-up.md"
    leader_election = "../../docs/guide/14-leader-election.md"
    custom_resources = "../../docs/guide/15-custom-resources.md"
    permissions = "../../docs/guide/16-permissions.md"
    attribute = "../../docs/reference/attribute.md"
    cli = "../../docs/reference/cli.md"
    metrics = "../../docs/reference/metrics.md"
    messages = "../../docs/reference/errors-and-messages.md"
    how_it_works = "../../docs/concepts/how-it-works.md"
    guarantees = "../../docs/concepts/guarantees.md"
    concept_leader_election = "../../docs/concepts/leader-election.md"
    from_go_kooper = "../../docs/from-go-kooper.md"
    architecture = "../../docs/contributing/architecture.md"
    how_to_test = "../../docs/contributing/testing.md"
    style = "../../docs/contributing/style.md"
}
