//! Values that are numbers and durations.

use std::time::Duration;

use kooper_grammar::duration::{self, DurationError};
use syn::parse::ParseStream;
use syn::{LitInt, LitStr, token};

use super::{Value, checked, constants};
use crate::controller::setting::LiteralOrConstant;
use crate::support::errors::message;
use crate::support::place::Place;
use crate::support::spanned::Spanned;

pub(crate) fn workers(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<u32>>> {
    number_from_one(value, "usize")
}

/// A number, or a constant of this type.
pub(crate) fn number_from_one(value: &Value<'_>, ty: &'static str) -> syn::Result<Spanned<LiteralOrConstant<u32>>> {
    let (number, place) = next_number(value, value.input, ty)?;
    if number.literal() == Some(&0) { Err(value.wrong(place)) } else { Ok(value.spanned(number, place)) }
}

pub(crate) fn number_or_unlimited(value: &Value<'_>) -> syn::Result<Spanned<Option<LiteralOrConstant<u32>>>> {
    if let Some(span) = value.word("unlimited")? {
        return Ok(value.spanned(None, span));
    }
    let (number, place) = next_number(value, value.input, "u32")?;
    Ok(value.spanned(Some(number), place))
}

pub(crate) fn rate(value: &Value<'_>) -> syn::Result<Spanned<(LiteralOrConstant<u32>, LiteralOrConstant<u32>)>> {
    let next = |input: ParseStream<'_>| next_number(value, input, "u32");
    let (rate, place) = if value.input.peek(token::Paren) {
        let (both, span) = value.pair(next)?;
        (both, span.into())
    } else {
        let (rate, place) = next(value.input)?;
        (((rate.clone(), place), (rate, place)), place)
    };
    let ((rate, rate_place), (burst, burst_place)) = rate;
    match (rate.literal(), burst.literal()) {
        (Some(0), _) => Err(value.wrong(rate_place)),
        (_, Some(0)) => Err(value.wrong(burst_place)),
        _ => Ok(value.spanned((rate, burst), place)),
    }
}

pub(crate) fn duration_or_off(value: &Value<'_>) -> syn::Result<Spanned<Option<LiteralOrConstant<Duration>>>> {
    if let Some(span) = value.word("off")? {
        return Ok(value.spanned(None, span));
    }
    // Zero is off in other tools.
    if let Ok(text) = value.input.fork().parse::<LitStr>()
        && let Err(DurationError::Zero(zero)) = duration::parse(&text.value())
    {
        let advice = message!("the duration \"{zero}\" is zero: write a longer one, or `off` without quotes");
        return Err(syn::Error::new(text.span(), advice));
    }
    Ok(duration_or_constant(value)?.map(Some))
}

pub(crate) fn duration_or_constant(value: &Value<'_>) -> syn::Result<Spanned<LiteralOrConstant<Duration>>> {
    let (duration, place) = next_duration(value, value.input)?;
    Ok(value.spanned(duration, place))
}

pub(crate) fn duration(value: &Value<'_>) -> syn::Result<Spanned<Duration>> {
    let text: LitStr = value.next()?;
    let duration = checked(&text, duration::parse)?;
    Ok(value.spanned(duration, text.span()))
}

/// The initial delay and the maximum.
pub(crate) fn two_durations(
    value: &Value<'_>,
) -> syn::Result<Spanned<(LiteralOrConstant<Duration>, LiteralOrConstant<Duration>)>> {
    let (((initial, _), (max, _)), span) = value.pair(|input| next_duration(value, input))?;
    if let (Some(first), Some(last)) = (initial.literal(), max.literal())
        && first > last
    {
        let (first, longest) = (duration::format(*first), duration::format(*last));
        let text = message!(
            "the initial delay, {first}, is longer than the maximum, {longest}: write `(\"{longest}\", \"{first}\")`"
        );
        value.note(span, text);
    }
    Ok(value.spanned((initial, max), span))
}

fn next_duration(value: &Value<'_>, input: ParseStream<'_>) -> syn::Result<(LiteralOrConstant<Duration>, Place)> {
    constants::given(value, input, "Duration", |input| {
        let text: LitStr = value.next_in(input)?;
        Ok((checked(&text, duration::parse)?, text.span()))
    })
}

fn next_number(
    value: &Value<'_>,
    input: ParseStream<'_>,
    ty: &'static str,
) -> syn::Result<(LiteralOrConstant<u32>, Place)> {
    constants::given(value, input, ty, |input| {
        let number: LitInt = value.next_in(input)?;
        let has_unit = !["", ty].contains(&number.suffix());
        match number.base10_parse() {
            Ok(parsed) if !has_unit => Ok((parsed, number.span())),
            // Those of a smaller type name their limit in their form.
            Err(_) if !has_unit && ["u32", "usize"].contains(&ty) && !number.base10_digits().starts_with('-') => {
                let most = u32::MAX;
                Err(syn::Error::new(number.span(), message!("the number is too large: write at most {most}")))
            }
            _ => Err(value.wrong(number.span())),
        }
    })
}
