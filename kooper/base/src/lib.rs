//! The base of [Kooper](https://github.com/kooper-rs/kooper): what the runtime and
//! everything above it stand on. Depend on the crate `kooper`, which re-exports the public
//! items.
//!
//! No module knows of objects, queues or handlers.

pub mod backoff;
pub mod client;
pub mod clock;
pub mod error;
#[doc(hidden)]
pub mod executor;
pub mod leader;
pub mod metrics;

/// Implements `Debug` for a type that shows only some of its fields, without bounds on its parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ($type:ident $(<$($parameter:ident),+>)? { $($field:ident),* }) => {
        impl$(<$($parameter),+>)? ::std::fmt::Debug for $type$(<$($parameter),+>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut shown = f.debug_struct(::std::stringify!($type));
                $(shown.field(::std::stringify!($field), &self.$field);)*
                shown.finish_non_exhaustive()
            }
        }
    };
}
