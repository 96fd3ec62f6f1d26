//! Durations as tokens.

use std::time::Duration;

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::support::crate_path::CratePath;

/// The expression for a duration.
pub(crate) fn tokens(runtime: &CratePath, duration: Duration) -> TokenStream {
    let seconds = Literal::u64_unsuffixed(duration.as_secs());
    let nanos = Literal::u32_unsuffixed(duration.subsec_nanos());
    quote!(#runtime::Duration::new(#seconds, #nanos))
}

/// The expression for a duration that may be `off`.
pub(crate) fn optional(runtime: &CratePath, duration: Option<Duration>) -> TokenStream {
    match duration {
        Some(duration) => {
            let duration = tokens(runtime, duration);
            quote!(#runtime::Option::Some(#duration))
        }
        None => quote!(#runtime::Option::None),
    }
}
