//! Values that are numbers and durations.

use std::time::Duration;

use kooper_grammar::duration;
use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{LitInt, LitStr, token};

use super::{Value, checked};
use crate::support::errors::message;
use crate::support::spanned::Spanned;

pub(crate) fn number_from_one(value: &Value<'_>) -> syn::Result<Spanned<u32>> {
    let (number, span) = next_number(value, value.input)?;
    if number == 0 { Err(value.wrong(span)) } else { Ok(value.spanned(number, span)) }
}

pub(crate) fn number_or_unlimited(value: &Value<'_>) -> syn::Result<Spanned<Option<u32>>> {
    if let Some(span) = value.word("unlimited")? {
        return Ok(value.spanned(None, span));
    }
    let (number, span) = next_number(value, value.input)?;
    Ok(value.spanned(Some(number), span))
}

pub(crate) fn rate(value: &Value<'_>) -> syn::Result<Spanned<(u32, u32)>> {
    let (rate, span) = if value.input.peek(token::Paren) {
        value.pair(|input| next_number(value, input))?
    } else {
        let (rate, span) = next_number(value, value.input)?;
        (((rate, span), (rate, span)), span)
    };
    let ((rate, rate_span), (burst, burst_span)) = rate;
    match (rate, burst) {
        (0, _) => Err(value.wrong(rate_span)),
        (_, 0) => Err(value.wrong(burst_span)),
        both => Ok(value.spanned(both, span)),
    }
}

pub(crate) fn duration_or_off(value: &Value<'_>) -> syn::Result<Spanned<Option<Duration>>> {
    if let Some(span) = value.word("off")? {
        return Ok(value.spanned(None, span));
    }
    Ok(duration(value)?.map(Some))
}

pub(crate) fn duration(value: &Value<'_>) -> syn::Result<Spanned<Duration>> {
    let text: LitStr = value.next()?;
    let duration = checked(&text, duration::parse)?;
    Ok(value.spanned(duration, text.span()))
}

/// The initial delay and the maximum.
pub(crate) fn two_durations(value: &Value<'_>) -> syn::Result<Spanned<(Duration, Duration)>> {
    let (both, span) = value.pair(|input| checked(&value.next_in(input)?, duration::parse))?;
    if both.0 > both.1 {
        let (first, longest) = (duration::format(both.0), duration::format(both.1));
        let text = message!(
            "the initial delay, {first}, is longer than the maximum, {longest}: write `(\"{longest}\", \"{first}\")`"
        );
        value.note(span, text);
    }
    Ok(value.spanned(both, span))
}

fn next_number(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<(u32, Span)> {
    let number: LitInt = value.next_in(input)?;
    let value = number.base10_parse().map_err(|_| value.wrong(number.span()))?;
    Ok((value, number.span()))
}
