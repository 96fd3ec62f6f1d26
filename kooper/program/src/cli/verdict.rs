//! The result of one of the checks of `check`.

#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Ok,
    Missing,
    Note,
}
