//! All arguments of a function.

use std::sync::Arc;

use super::{Argument, Context, ControllerContext, DeletedArgument, InitArgument, Removed};
use crate::plan::Plan;

/// Invokes a macro for each number of arguments, with their types and markers.
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

/// A tuple of [`Argument`]s.
pub trait Arguments<O, S, M> {
    /// Adds to the plan what the arguments need.
    fn plan(plan: &mut Plan);

    /// Extracts the arguments from the context of a call.
    fn extract(context: &Context<O, S>) -> Self;
}

/// A tuple of [`DeletedArgument`]s.
pub trait DeletedArguments<O, S, M>: Arguments<Removed<O>, S, M> {}

/// A tuple of [`InitArgument`]s.
pub trait InitArguments<M> {
    /// Adds to the plan what the arguments need.
    fn plan(plan: &mut Plan);

    /// Extracts the arguments from what the runtime has for the controller.
    fn take(controller: &Arc<ControllerContext>) -> Self;
}

macro_rules! tuples {
    ($($argument:ident $marker:ident)*) => {
        impl<O, S, $($argument: Argument<O, S, $marker>, $marker,)*> Arguments<O, S, ($($marker,)*)> for ($($argument,)*) {
            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $($argument::plan(plan);)*
            }

            #[allow(clippy::unused_unit, reason = "a function without arguments has the unit tuple")]
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

            #[allow(clippy::unused_unit, reason = "a function without arguments has the unit tuple")]
            fn take(controller: &Arc<ControllerContext>) -> Self {
                let _ = controller;
                ($($argument::take(controller),)*)
            }
        }
    };
}

arities!(tuples);
