//! The arguments of a function together.

use std::sync::Arc;

use super::{Argument, Backing, Context, DeletedArgument, InitArgument, Removed};
use crate::call::plan::Plan;

/// Calls a macro with the arguments of every arity, and what marks their types.
macro_rules! arities {
    ($implement:ident) => {
        $implement!();
        $implement!(A1 M1);
        $implement!(A1 M1 A2 M2);
        $implement!(A1 M1 A2 M2 A3 M3);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13 A14 M14);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13 A14 M14 A15 M15);
        $implement!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13 A14 M14 A15 M15 A16 M16);
    };
}
pub(crate) use arities;

/// A tuple whose elements are each an [`Argument`].
pub trait Arguments<O, S, M> {
    /// Notes what the arguments need.
    fn plan(plan: &mut Plan);

    /// Takes the arguments out of what the runtime has for the call.
    fn extract(context: &Context<O, S>) -> Self;
}

/// A tuple whose elements are each a [`DeletedArgument`].
pub trait DeletedArguments<O, S, M>: Arguments<Removed<O>, S, M> {}

/// A tuple whose elements are each an [`InitArgument`].
pub trait InitArguments<M> {
    /// Notes what the arguments need.
    fn plan(plan: &mut Plan);

    /// Takes the arguments out of what the runtime has for the controller.
    fn take(backing: &Arc<Backing>) -> Self;
}

macro_rules! tuples {
    ($($argument:ident $marker:ident)*) => {
        impl<O, S, $($argument: Argument<O, S, $marker>, $marker,)*> Arguments<O, S, ($($marker,)*)> for ($($argument,)*) {
            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $($argument::plan(plan);)*
            }

            #[allow(clippy::unused_unit, reason = "no arguments are a tuple too")]
            fn extract(context: &Context<O, S>) -> Self {
                let _ = context;
                ($($argument::extract(context),)*)
            }
        }

        impl<O, S, $($argument: DeletedArgument<O, S, $marker>, $marker,)*> DeletedArguments<O, S, ($($marker,)*)>
            for ($($argument,)*)
        {
        }

        impl<$($argument: InitArgument<$marker>, $marker,)*> InitArguments<($($marker,)*)> for ($($argument,)*) {
            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $($argument::plan(plan);)*
            }

            #[allow(clippy::unused_unit, reason = "no arguments are a tuple too")]
            fn take(backing: &Arc<Backing>) -> Self {
                let _ = backing;
                ($($argument::take(backing),)*)
            }
        }
    };
}

arities!(tuples);
