//! The arguments of child functions, beside the owner.

use std::any::Any;
use std::sync::Arc;

use kooper_access::extract::{Argument, Context};
use kooper_access::plan::Plan;
use kooper_access::{Reader, Settings, State};
use kooper_runtime::BoxError;

use super::ChildKind;
use super::output::{Many, Maybe, One};

/// A child of any kind.
pub type AnyObject = Arc<dyn Any + Send + Sync>;

/// The marker of arguments that are children of other slots.
#[derive(Debug)]
pub enum AsInput {}

/// The marker of readers.
#[derive(Debug)]
pub enum AsReader {}

/// The marker of the state.
#[derive(Debug)]
pub enum AsState {}

/// The marker of settings.
#[derive(Debug)]
pub enum AsSettings {}

/// A type that a child function can take beside the owner. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "a child function cannot take `{Self}`",
    label = "not an argument of a child function",
    note = "take children of other slots as `&T`, `Option<&T>` or `&[T]`, and `&Reader<T>`, `&State<S>` or `&Settings<T>`"
)]
pub trait ChildArg<M>: 'static {
    /// The argument, for the time of the call.
    type Lent<'a>;
    /// The owned value behind the argument.
    type Value;
    /// The list of inputs that begins with this argument, if it is an input.
    type Before<Rest>;
    /// `true` if it is the children of another slot.
    const IS_INPUT: bool;

    /// Lends the value.
    fn lend(value: &Self::Value) -> Self::Lent<'_>;
}

/// An argument that exists in a controller with the state `S`.
pub trait TakeArg<P, S, M>: ChildArg<M> {
    /// Adds to the plan what the argument needs.
    fn plan(_plan: &mut Plan) {}

    /// Takes the value from the context of a call, or from the inputs.
    ///
    /// # Errors
    /// If an input has another kind, or another number of children.
    fn take(context: &Context<P, S>, inputs: &mut Inputs<'_>) -> Result<Self::Value, BoxError>;
}

/// The inputs of a function, of which each argument takes the next.
#[derive(Debug)]
pub struct Inputs<'a>(std::slice::Iter<'a, Vec<AnyObject>>);

impl<'a> Inputs<'a> {
    pub(super) fn new(inputs: &'a [Vec<AnyObject>]) -> Self {
        Self(inputs.iter())
    }

    fn next<T: ChildKind>(&mut self) -> Result<Vec<Arc<T>>, BoxError> {
        let next = self.0.next().ok_or("a child function takes more children than it has inputs")?;
        let typed = next.iter().map(|object| object.clone().downcast().map_err(|_| "an input is of another kind"));
        Ok(typed.collect::<Result<_, _>>()?)
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildArg<AsInput> for &'static T {
    type Lent<'a> = &'a T;
    type Value = Arc<T>;
    type Before<Rest> = (One<T>, Rest);
    const IS_INPUT: bool = true;

    fn lend(value: &Arc<T>) -> &T {
        value
    }
}

#[diagnostic::do_not_recommend]
impl<P, S, T: ChildKind> TakeArg<P, S, AsInput> for &'static T {
    fn take(_: &Context<P, S>, inputs: &mut Inputs<'_>) -> Result<Arc<T>, BoxError> {
        Ok(inputs.next()?.pop().ok_or("the child of an input does not exist")?)
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildArg<AsInput> for Option<&'static T> {
    type Lent<'a> = Option<&'a T>;
    type Value = Option<Arc<T>>;
    type Before<Rest> = (Maybe<T>, Rest);
    const IS_INPUT: bool = true;

    fn lend(value: &Option<Arc<T>>) -> Option<&T> {
        value.as_deref()
    }
}

#[diagnostic::do_not_recommend]
impl<P, S, T: ChildKind> TakeArg<P, S, AsInput> for Option<&'static T> {
    fn take(_: &Context<P, S>, inputs: &mut Inputs<'_>) -> Result<Option<Arc<T>>, BoxError> {
        Ok(inputs.next()?.pop())
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> ChildArg<AsInput> for &'static [T] {
    type Lent<'a> = &'a [T];
    type Value = Vec<T>;
    type Before<Rest> = (Many<T>, Rest);
    const IS_INPUT: bool = true;

    fn lend(value: &Vec<T>) -> &[T] {
        value
    }
}

#[diagnostic::do_not_recommend]
impl<P, S, T: ChildKind> TakeArg<P, S, AsInput> for &'static [T] {
    fn take(_: &Context<P, S>, inputs: &mut Inputs<'_>) -> Result<Vec<T>, BoxError> {
        Ok(inputs.next()?.into_iter().map(Arc::unwrap_or_clone).collect())
    }
}

macro_rules! extras {
    ($($marker:ident: $extra:ty, $argument:ty, <$($parameter:ident),*>;)*) => {
        $(
            #[diagnostic::do_not_recommend]
            impl<$($parameter: 'static),*> ChildArg<$marker> for &'static $extra {
                type Lent<'a> = &'a $extra;
                type Value = $extra;
                type Before<Rest> = Rest;
                const IS_INPUT: bool = false;

                fn lend(value: &$extra) -> &$extra {
                    value
                }
            }

            // Recommended, so that the compiler names a state or settings that the controller does not have.
            impl<P, S, $($parameter: 'static),*> TakeArg<P, S, $marker> for &'static $extra
            where
                $extra: Argument<P, S, $argument>,
            {
                fn plan(plan: &mut Plan) {
                    <$extra as Argument<P, S, $argument>>::plan(plan);
                }

                fn take(context: &Context<P, S>, _: &mut Inputs<'_>) -> Result<$extra, BoxError> {
                    Ok(<$extra as Argument<P, S, $argument>>::extract(context))
                }
            }
        )*
    };
}

extras! {
    AsReader: Reader<T, U>, (T, ()), <T, U>;
    AsState: State<T>, (), <T>;
    AsSettings: Settings<T>, (), <T>;
}
