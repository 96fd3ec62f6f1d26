//! The calls of a controller's builder, each a statement.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::controller::emit::calls::Calls;
use crate::controller::model::{Cleanup, Deletion, Kinds, Model, Times};
use crate::controller::setting::{Emit, Setting, parentheses};
use crate::controller::slots::Slot;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

/// The type whose name the compiler shows if the status lacks a field.
const STATUS_ADVICE: &str = "add_conditions_and_observed_generation_to_the_status_or_write_status_none";

/// The calls of one controller, each with the place of its key or value, so that a bound that is not
/// met is reported there.
pub(super) struct Steps<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) calls: Calls<'a>,
}

impl<'a> Steps<'a> {
    pub(super) fn of(model: &'a Model<'a>) -> Self {
        Self { model, calls: Calls { runtime: &model.runtime, module: None, ident: &model.handler.ident } }
    }

    /// One call for each setting.
    pub(super) fn settings(&self) -> TokenStream {
        let Model { settings, cleanup, .. } = self.model;
        let cleanup: Vec<_> = cleanup.iter().flat_map(Cleanup::settings).collect();
        let daemon = self.reporting_daemon().map(|daemon| daemon.method);
        let settings = settings.iter().filter(|setting| Some(setting.method) != daemon);
        self.calls.settings(settings.chain(&cleanup))
    }

    /// The setting with the daemon, if its failures are part of the status.
    fn reporting_daemon(&self) -> Option<&'a Setting> {
        let reports = self.model.children.is_some() && self.model.reports;
        self.model.settings.iter().find(|setting| reports && setting.method == "daemon")
    }

    /// The call for a daemon whose failures are part of the status.
    pub(super) fn daemon(&self) -> Option<TokenStream> {
        let daemon = self.reporting_daemon()?;
        let function = daemon.value.arguments(&self.model.runtime);
        Some(self.with_children(daemon.place, daemon.key, "daemon_beside_children", &function))
    }

    /// The call of a function of the runtime with the builder, the children and these arguments, at the place of a
    /// function of the user's. Its name is elsewhere: clippy would take that function for what is called, and report one
    /// that awaits nothing.
    fn with_children(&self, place: Place, key: Span, callee: &str, arguments: &TokenStream) -> TokenStream {
        let (start, end, key) = (self.calls.at(place.start), self.calls.at(place.end), self.calls.at(key));
        let (here, callee) = (self.model.runtime.at(key), Ident::new(callee, key));
        let (builder, children) = (self.calls.variable(start), self.calls.local("__children", start));
        let arguments = parentheses(quote!(#builder, &#children, #arguments), end);
        quote_spanned!(start=> let #builder = #here::#callee #arguments;)
    }

    /// The beginning of a task.
    pub(super) fn task(&self, times: &Times<'_>, name: &TokenStream) -> TokenStream {
        let runtime = &self.model.runtime;
        let (function, value) = match times {
            Times::Every(every) => ("task", every.value.arguments(runtime)),
            Times::Cron(cron) => ("cron_task", cron.value.arguments(runtime)),
        };
        let place = self.calls.at(times.place().start);
        let (builder, here, function) = (self.calls.variable(place), runtime.at(place), Ident::new(function, place));
        quote_spanned!(place=> let #builder = #here::#function(#name, #value);)
    }

    /// The declaration of the children, each with the place of its function.
    pub(super) fn children(&self, slots: &Spanned<Vec<Slot>>) -> TokenStream {
        let (runtime, calls) = (&self.model.runtime, &self.calls);
        let place = calls.at(slots.key);
        let (builder, children, here) = (calls.variable(place), calls.local("__children", place), runtime.at(place));
        let slot_statements = slots.value.iter().map(|slot| {
            let place = calls.at(slot.place().start);
            let (children, here, end) =
                (calls.local("__children", place), runtime.at(place), calls.at(slot.place().end));
            let variable = calls.local("__slot", place);
            let (path, inputs, flags) = (slot.path(), slot.inputs(&slots.value), slot.calls(&slots.value, runtime));
            let arguments = parentheses(quote!(&#children, #path, #inputs), end);
            let child = parentheses(variable.to_token_stream(), end);
            // Others are not deleted with their owner.
            let is_owned = slot.flag("external").is_none() && !self.is_ordered();
            let callee = Ident::new(if is_owned { "owned_slot" } else { "slot" }, place);
            quote_spanned! {place=>
                let #variable = #here::#callee #arguments #flags;
                let #children = #children.child #child;
            }
        });
        let slot_statements: TokenStream = slot_statements.collect();
        let previous = self.previous_children();
        let status = self.model.reports.then(|| self.status(place));
        quote_spanned! {place=>
            let #children = #here::children(&#builder);
            #slot_statements
            #previous
            #status
            let (#builder, #children) = #here::declared(#builder, #children);
        }
    }

    /// The kinds of previous children, each with the place of its type.
    fn previous_children(&self) -> TokenStream {
        let name = if self.is_ordered() { "previous_children" } else { "owned_previous_children" };
        let statements = self.model.previous_children.iter().map(|kind| {
            let place = self.calls.at(Place::of(kind).start);
            let (children, here) = (self.calls.local("__children", place), self.model.runtime.at(place));
            let (callee, end) = (Ident::new(name, place), self.calls.at(Place::of(kind).end));
            let arguments = parentheses(quote_spanned!(place=> #children, #here::kind::<#kind>()), end);
            quote_spanned!(place=> let #children = #here::#callee #arguments;)
        });
        statements.collect()
    }

    /// The fields of the status that summarize the children.
    fn status(&self, place: Span) -> TokenStream {
        let (children, here) = (self.calls.local("__children", place), self.model.runtime.at(place));
        let (status, fields) = (self.calls.local("__status", place), self.calls.local("__fields", place));
        let advice = Ident::new(STATUS_ADVICE, place);
        quote_spanned! {place=>
            let #children = #children.status(|#status, #fields| {
                let mut #status = #here::#advice(#status);
                #fields.conditions(&mut #status.conditions);
                #fields.observed_generation(&mut #status.observed_generation);
            });
        }
    }

    fn is_ordered(&self) -> bool {
        matches!(self.model.cleanup, Some(Cleanup { deletion: Deletion::Ordered { .. }, .. }))
    }

    /// The ordered deletion of the children, before the user's own cleanup.
    pub(super) fn deletion(&self) -> Option<TokenStream> {
        let Cleanup { deletion: Deletion::Ordered { ordered, cleanup }, finalizer, .. } =
            self.model.cleanup.as_ref()?
        else {
            return None;
        };
        let key = ordered.place.start;
        let place = cleanup.map_or(ordered.place, |cleanup| cleanup.place);
        let here = self.model.runtime.at(self.calls.at(key));
        let function = cleanup.map_or_else(|| quote!(#here::no_cleanup), |cleanup| cleanup.value.to_token_stream());
        let finalizer = finalizer.arguments(&self.model.runtime);
        Some(self.with_children(place, key, "cleanup_after_children", &quote!(#finalizer, #function)))
    }

    /// The call of the function with the extracted arguments.
    pub(super) fn handler(&self, kind: &TokenStream) -> TokenStream {
        let turbofish = match self.model.kinds {
            Kinds::One { .. } | Kinds::Task { .. } => None,
            Kinds::Each { .. } => Some(quote!(::<#kind>)),
        };
        self.calls.function(turbofish.as_ref(), self.model.handler.arguments.len())
    }

    /// The call that completes the handler with its return type.
    pub(super) fn outcome(&self, place: Place) -> TokenStream {
        match self.model.children {
            Some(_) => {
                let children = self.calls.local("__children", place.start);
                self.calls.spread_with(place, "outcome_with_children", &quote!(, &#children))
            }
            None => self.calls.spread(place, "outcome"),
        }
    }
}
