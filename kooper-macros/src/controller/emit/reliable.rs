//! The calls of the builder for related kinds, finalizers, leader election and CRDs.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use super::Steps;
use crate::controller::election::Election;
use crate::controller::model::Model;
use crate::support::duration;
use crate::support::place::Place;

impl Steps<'_> {
    /// One call for each key that was given.
    pub(super) fn reliable_setters(&self) -> TokenStream {
        let Model { args, .. } = self.model;
        let mut setters = TokenStream::new();
        let mut set = |key: Span, place: Place, method: &str, types: TokenStream, value: TokenStream| {
            setters.extend(self.step_with(key, place, method, &types, &value));
        };
        let none = TokenStream::new;
        if let Some(optional) = args.optional {
            set(optional, optional.into(), "optional", none(), none());
        }
        if let Some(owns) = &args.owns {
            for kind in &owns.value {
                let place = Place::of(kind);
                set(owns.key, place, "owns", quote_spanned!(place.start=> ::<#kind>), none());
            }
        }
        if let Some(watches) = &args.watches {
            for (kind, map) in &watches.value {
                // What the fn lacks is told where the fn stands.
                let place = Place::of(map);
                let inferred = quote_spanned!(place.start=> _, _);
                let types = quote_spanned!(Place::of(kind).start=> ::<#kind, #inferred>);
                set(watches.key, place, "watches", types, map.to_token_stream());
            }
        }
        if let Some(sources) = &args.sources {
            for path in &sources.value {
                set(sources.key, Place::of(path), "source_from", none(), path.to_token_stream());
            }
        }
        if let (Some(path), Some(finalizer)) = (&args.cleanup, &args.finalizer) {
            let (name, function) = (&finalizer.value, &path.value);
            set(path.key, path.place, "cleanup", none(), quote!(#name, #function));
        }
        if let Some(leave) = &args.on_leave {
            set(leave.key, leave.place, "cleanup_on_leave", none(), none());
        }
        if let Some(former) = &args.former_names {
            let names = &former.value;
            set(former.key, former.place, "former_names", none(), quote!([#(#names),*]));
        }
        if let Some(former) = &args.former_finalizers {
            let names = &former.value;
            set(former.key, former.place, "former_finalizers", none(), quote!([#(#names),*]));
        }
        if let Some(program) = &args.former_program {
            let name = &program.value;
            set(program.key, program.place, "former_program", none(), quote!(#name));
        }
        if let Some(path) = &args.deleted {
            set(path.key, path.place, "deleted", none(), path.value.to_token_stream());
        }
        if let Some(election) = &args.leader_election {
            set(election.key, election.key.into(), "leader_election", none(), self.election(&election.value));
        }
        if let Some(key) = &args.install_crd {
            set(key.key, key.place, "install_crd", none(), none());
        }
        setters
    }

    fn election(&self, election: &Election) -> TokenStream {
        let runtime = &self.model.runtime;
        let mut value = quote!(#runtime::LeaderElection::new());
        if let Some(lease) = &election.lease {
            value.extend(quote!(.lease(#lease)));
        }
        if let Some(namespace) = &election.namespace {
            value.extend(quote!(.namespace(#namespace)));
        }
        if let Some((timing, _)) = election.lease_duration {
            let timing = duration::tokens(runtime, timing);
            value.extend(quote!(.lease_duration(#timing)));
        }
        if let Some((timing, _)) = election.renew_deadline {
            let timing = duration::tokens(runtime, timing);
            value.extend(quote!(.renew_deadline(#timing)));
        }
        if let Some((timing, _)) = election.retry_period {
            let timing = duration::tokens(runtime, timing);
            value.extend(quote!(.retry_period(#timing)));
        }
        value
    }
}
