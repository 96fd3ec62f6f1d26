//! Child functions: what they take and return is read from their signatures.
//!
//! The types of the arguments are inferred from the function alone ([`Signature`]), and checked one by one afterwards
//! ([`ChildArg`], [`ChildOutput`]). An argument is inferred as a reference for `'static`, and lent for the call alone.

mod arguments;
mod output;

use kooper_access::extract::Context;
use kooper_access::plan::Plan;
use kooper_runtime::{BoxError, Kind};
use serde::Serialize;

pub use arguments::{AnyObject, AsInput, AsReader, AsSettings, AsState, ChildArg, Inputs, TakeArg};
pub use output::{AsExternal, AsList, AsOption, Awaited, ChildOutput, External, Form, Made, Many, Maybe, One, Plain};

/// A kind that children can have. Implemented for every [`Kind`] that can be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the kind of a child",
    label = "not a kind of child",
    note = "name a type of `k8s_openapi`, or one that derives `kube::CustomResource`"
)]
pub trait ChildKind: Kind + Serialize + Clone {}

#[diagnostic::do_not_recommend]
impl<T: Kind + Serialize + Clone> ChildKind for T {}

/// A function with an owner `P` and the arguments `Args`.
pub trait Signature<P, Args>: Copy + Send + Sync + 'static {
    /// Its return type.
    type Output;
}

/// A function that returns the children of an owner `P`: `fn(&P, &A, Option<&B>, &[C], &Reader<D>) -> T`. It takes the
/// children of other slots, and `&Reader<T>`, `&State<S>` and `&Settings<T>`, in any order. It returns `T`,
/// `Option<T>`, `Vec<T>` or [`External<T>`], each also in `Result`. `M` is inferred.
///
/// The same owner and inputs should give the same children: the function is called in each pass.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a child function of `{P}`",
    label = "not a child function",
    note = "write `fn name(owner: &{P}, …) -> T`, or with `Option<T>`, `Vec<T>` or `External<T>`, each also in `Result`; it is not async",
    note = "beside the owner it can take children as `&T`, `Option<&T>` and `&[T]`, and `&Reader<T>`, `&State<S>` and `&Settings<T>`"
)]
pub trait ChildFn<P, M>: Copy + Send + Sync + 'static {
    /// The number and kind of its children.
    type Form: Form;
    /// The forms of the children that it takes, as a list `(One<A>, (Maybe<B>, ()))`.
    type Inputs;
    /// `true` if its children are awaited and never written.
    const EXTERNAL: bool;
    /// `true` if it takes more than its owner and children.
    const READS_MORE: bool;
}

/// A child function of a controller with the state `S`.
pub trait CallFn<P, S, M>: ChildFn<P, M> {
    /// Adds to the plan what the arguments need.
    fn plan(plan: &mut Plan);

    /// Calls the function with the children of its inputs.
    ///
    /// # Errors
    /// The error of the function.
    fn call(
        &self,
        owner: &P,
        context: &Context<P, S>,
        inputs: &[Vec<AnyObject>],
    ) -> Result<Made<<Self::Form as Form>::Kind>, BoxError>;
}

macro_rules! functions {
    ($($argument:ident $marker:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<F, P: 'static, R, $($argument),*> Signature<P, ($($argument,)*)> for F
        where
            // For one lifetime, as the arguments: they may share that of the owner.
            F: Fn(&'static P $(, $argument)*) -> R + Copy + Send + Sync + 'static,
        {
            type Output = R;
        }

        #[diagnostic::do_not_recommend]
        impl<F, P: 'static, R, N, $($argument, $marker),*> ChildFn<P, (($($argument,)*), ($($marker,)*), R, N)> for F
        where
            F: Signature<P, ($($argument,)*), Output = R>,
            $($argument: ChildArg<$marker>,)*
            R: ChildOutput<N>,
        {
            type Form = R::Form;
            type Inputs = functions!(@inputs $($argument $marker)*);
            const EXTERNAL: bool = R::EXTERNAL;
            const READS_MORE: bool = false $(|| !$argument::IS_INPUT)*;
        }

        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case, unused_variables, unused_mut, reason = "the names of the types stand for the variables")]
        impl<F, P: 'static, S, R, N, $($argument, $marker),*> CallFn<P, S, (($($argument,)*), ($($marker,)*), R, N)> for F
        where
            F: Signature<P, ($($argument,)*), Output = R>,
            $($argument: TakeArg<P, S, $marker>,)*
            F: for<'a> Fn(&'a P $(, <$argument as ChildArg<$marker>>::Lent<'a>)*) -> R,
            R: ChildOutput<N>,
        {
            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $($argument::plan(plan);)*
            }

            fn call(
                &self,
                owner: &P,
                context: &Context<P, S>,
                inputs: &[Vec<AnyObject>],
            ) -> Result<Made<<R::Form as Form>::Kind>, BoxError> {
                let mut inputs = Inputs::new(inputs);
                $(let $argument = <$argument as TakeArg<P, S, $marker>>::take(context, &mut inputs)?;)*
                self(owner $(, <$argument as ChildArg<$marker>>::lend(&$argument))*).made()
            }
        }
    };
    (@inputs) => { () };
    (@inputs $argument:ident $marker:ident $($rest:tt)*) => {
        <$argument as ChildArg<$marker>>::Before<functions!(@inputs $($rest)*)>
    };
}

functions!();
functions!(A1 M1);
functions!(A1 M1 A2 M2);
functions!(A1 M1 A2 M2 A3 M3);
functions!(A1 M1 A2 M2 A3 M3 A4 M4);
functions!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5);
functions!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6);
functions!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7);
functions!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8);
