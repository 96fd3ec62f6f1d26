//! The keys for annotations by which users steer the calls for an object.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions};
use crate::controller::setting::Setting;
use crate::controller::value::{Value, strings};
use crate::support::errors::message;

pub(super) const PAUSE: Key<Args> = Key {
    name: "pause",
    form: "the name of an annotation",
    example: "pause = \"example.com/pause\"",
    default: "objects cannot be paused",
    doc: "While this annotation of an object is `true`, the handler is not called for it. Its deletion is handled as usual. With declared children, the status has the condition `Paused` meanwhile.",
    mentions: Mentions::Constants,
    read: |args, value| annotation(args, value, "pause"),
    ..Key::EQUALS
};

pub(super) const RECONCILE_NOW: Key<Args> = Key {
    name: "reconcile_now",
    form: "the name of an annotation",
    example: "reconcile_now = \"example.com/reconcile-now\"",
    default: "none",
    doc: "Each change of this annotation calls the handler for the object at once, whatever `changed` says, and resets its back-off.",
    mentions: Mentions::Constants,
    read: |args, value| annotation(args, value, "reconcile_now"),
    ..Key::EQUALS
};

/// The name of an annotation that no other key has. Constants are compared when the controller is built.
fn annotation(args: &mut Args, value: &Value<'_>, method: &'static str) -> syn::Result<()> {
    let name = strings::qualified(value)?;
    if let Some(text) = name.value.literal() {
        let written = text.value();
        if args.annotations.contains(&written) {
            value.note(text.span(), message!("\"{written}\" is the annotation of another key: write a different one"));
        }
        args.annotations.push(written);
    }
    args.settings.push(Setting::new(method, name));
    Ok(())
}
