//! The program's own settings, in each function that takes them.

use k8s_openapi::api::core::v1::{Node, Pod};
use kooper::SecretValue;
use kooper::prelude::*;

use crate::names;

#[derive(clap::Args)]
struct ShopSettings {
    #[arg(long, env = "SHOP_GREETING", default_value = "hello")]
    greeting: String,
    #[arg(long)]
    token: Option<SecretValue>,
}

#[kooper::controller(
    resource = Pod,
    settings = ShopSettings,
    init = connect,
    cleanup = clean_up,
    finalizer = "ui.example.com/settings",
    deleted = forget,
    main = false,
)]
async fn everywhere(_: Arc<Pod>, settings: Settings<ShopSettings>, state: State<usize>) {
    assert_eq!(settings.greeting.len(), *state);
}

async fn connect(Settings(settings): Settings<ShopSettings>) -> Result<usize> {
    Ok(settings.token.as_ref().map_or(settings.greeting.len(), |token| token.expose().len()))
}

async fn clean_up(_: Arc<Pod>, _: Settings<ShopSettings>) {}

async fn forget(_: Gone, _: Settings<ShopSettings>) {}

#[kooper::controller(resource = [Pod, Node], settings = ShopSettings, main = false)]
async fn listed<K: Kind>(_: Arc<K>, _: Settings<ShopSettings>) {}

/// Without the key: `main!` names the type.
#[kooper::controller(resource = Pod, main = false)]
async fn elsewhere(_: Settings<ShopSettings>) {}

mod program {
    use super::{ShopSettings, elsewhere, listed};

    kooper::main! {
        /// Greets.
        ///
        /// And greets again.
        settings = ShopSettings, listed, elsewhere,
    }

    #[test]
    fn a_main_is_generated() {
        let _: fn() -> std::process::ExitCode = main;
    }
}

#[test]
fn settings_are_accepted() {
    assert_eq!(names::<everywhere>(), ["everywhere"]);
    assert_eq!(names::<listed>(), ["listed-pod", "listed-node"]);
    assert_eq!(names::<elsewhere>(), ["elsewhere"]);
}
