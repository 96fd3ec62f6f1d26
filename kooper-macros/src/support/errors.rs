//! Collects all errors of one expansion, so that one compile shows them together.

use crate::support::place::Place;

/// Formats the message of an error.
///
/// Every message that the macro shows goes through here, or is an error of the shared grammars: a
/// test of `ui-tests` reads these calls and those errors, and requires a case for each of them.
macro_rules! message {
    ($($text:tt)*) => { ::std::format!($($text)*) };
}
pub(crate) use message;

/// The errors found so far. Dropping them without [`check`](Errors::check) is a bug.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
    checked: bool,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Notes an error at a place in the user's code.
    pub(crate) fn add(&mut self, place: impl Into<Place>, text: String) {
        self.found.push(place.into().error(text));
    }

    /// Notes an error of the parser.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.found.push(error);
    }

    /// All errors as one, if there are any.
    pub(crate) fn check(mut self) -> syn::Result<()> {
        self.checked = true;
        let all = std::mem::take(&mut self.found).into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        });
        all.map_or(Ok(()), Err)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        if !self.checked && !std::thread::panicking() {
            panic!("the errors of an expansion were never checked");
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    #[test]
    fn all_errors_are_reported_together() {
        let mut errors = Errors::new();
        errors.add(Span::call_site(), "one".to_owned());
        errors.push(syn::Error::new(Span::call_site(), "two"));
        let error = errors.check().expect_err("two errors");
        let texts: Vec<_> = error.into_iter().map(|error| error.to_string()).collect();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn no_error_is_fine() {
        assert!(Errors::new().check().is_ok());
    }

    #[test]
    #[should_panic(expected = "never checked")]
    fn forgetting_to_check_is_a_bug() {
        Errors::new().add(Span::call_site(), "lost".to_owned());
    }
}
