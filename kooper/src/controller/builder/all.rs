use std::fmt;
use std::marker::PhantomData;

/// All objects of the kind `T`; [`KindExt::all`](super::KindExt::all) makes it.
pub struct All<T>(PhantomData<fn() -> T>);

impl<T> All<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for All<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("All")
    }
}
