//! Values that are numbers and durations.

use std::time::Duration;

use kooper_grammar::duration;
use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{LitInt, LitStr, token};

use super::{Value, checked};
use crate::support::errors::message;
use crate::support::spanned::Spanned;

impl Value<'_> {
    pub(crate) fn number_from_one(&self) -> syn::Result<Spanned<u32>> {
        let (number, span) = self.next_number(self.input)?;
        if number == 0 { Err(self.wrong(span)) } else { Ok(self.spanned(number, span)) }
    }

    pub(crate) fn number_or_unlimited(&self) -> syn::Result<Spanned<Option<u32>>> {
        if let Some(span) = self.word("unlimited")? {
            return Ok(self.spanned(None, span));
        }
        let (number, span) = self.next_number(self.input)?;
        Ok(self.spanned(Some(number), span))
    }

    pub(crate) fn rate(&self) -> syn::Result<Spanned<(u32, u32)>> {
        let (rate, span) = if self.input.peek(token::Paren) {
            self.pair(|input| self.next_number(input))?
        } else {
            let (rate, span) = self.next_number(self.input)?;
            (((rate, span), (rate, span)), span)
        };
        let ((rate, rate_span), (burst, burst_span)) = rate;
        match (rate, burst) {
            (0, _) => Err(self.wrong(rate_span)),
            (_, 0) => Err(self.wrong(burst_span)),
            both => Ok(self.spanned(both, span)),
        }
    }

    pub(crate) fn duration_or_off(&self) -> syn::Result<Spanned<Option<Duration>>> {
        if let Some(span) = self.word("off")? {
            return Ok(self.spanned(None, span));
        }
        Ok(self.duration()?.map(Some))
    }

    pub(crate) fn duration(&self) -> syn::Result<Spanned<Duration>> {
        let text: LitStr = self.next()?;
        let duration = checked(&text, duration::parse)?;
        Ok(self.spanned(duration, text.span()))
    }

    /// The first delay and the longest.
    pub(crate) fn two_durations(&self) -> syn::Result<Spanned<(Duration, Duration)>> {
        let (both, span) = self.pair(|input| checked(&self.next_in(input)?, duration::parse))?;
        if both.0 > both.1 {
            let (first, longest) = (duration::format(both.0), duration::format(both.1));
            let text = message!(
                "the first delay, {first}, is longer than the longest, {longest}: write `(\"{longest}\", \"{first}\")`"
            );
            self.note(span, text);
        }
        Ok(self.spanned(both, span))
    }

    fn next_number(&self, input: ParseStream<'_>) -> syn::Result<(u32, Span)> {
        let number: LitInt = self.next_in(input)?;
        let value = number.base10_parse().map_err(|_| self.wrong(number.span()))?;
        Ok((value, number.span()))
    }
}
