//! URLs, addresses, networks, quantities, versions and formats.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Evaluated, no_overload};
use crate::cel::address::{Cidr, is_global_unicast, is_link_local_multicast, is_link_local_unicast, parse_ip};
use crate::cel::format::Format;
use crate::cel::semver::Semver;
use crate::cel::url;
use crate::cel::value::{Amount, Key, Value};
use crate::quantity::Quantity;

/// Calls a function that reads a text, if there is one of this name.
pub(super) fn of_text(name: &str, text: &str, args: &[Value]) -> Option<Evaluated> {
    let parsed = || match args {
        [Value::Bool(true)] => Semver::parse_loosely(text),
        _ => Semver::parse(text),
    };
    Some(match (name, args) {
        ("url", []) => {
            let url = url::parse_request(text).and_then(|_| url::parse(text));
            url.map(|url| Value::Url(Arc::new(url)))
                .map_err(|why| format!("URL parse error during conversion from string: {why}"))
        }
        ("isURL", []) => Ok(Value::Bool(url::parse_request(text).is_ok())),
        ("ip", []) => parse_ip(text).map(Value::Ip),
        ("isIP", []) => Ok(Value::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", []) => parse_ip(text).map(|address| Value::Bool(address.to_string() == text)),
        ("cidr", []) => Cidr::parse(text).map(Value::Cidr),
        ("isCIDR", []) => Ok(Value::Bool(Cidr::parse(text).is_ok())),
        ("quantity", []) => quantity(text).map(Value::Quantity),
        ("isQuantity", []) => Ok(Value::Bool(quantity(text).is_ok())),
        ("semver", [] | [Value::Bool(_)]) => parsed().map(|version| Value::Semver(Arc::new(version))),
        ("isSemver", [] | [Value::Bool(_)]) => Ok(Value::Bool(parsed().is_ok())),
        ("format.named", []) => {
            Ok(Format::named(text).map_or(Value::NONE, |format| Value::some(Value::Format(format))))
        }
        _ => return None,
    })
}

/// Reads a quantity in the words of the API.
fn quantity(text: &str) -> Result<Amount, String> {
    const WHY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    // A sign alone is zero.
    let amount = if matches!(text, "+" | "-") { Some(Quantity::ZERO) } else { Quantity::parse(text) };
    Ok(Amount { amount: amount.ok_or_else(|| WHY.to_owned())?, is_fine: is_fine(text) })
}

/// Go keeps a quantity as a decimal if its digits reach below one or are too many for 64 bits.
fn is_fine(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']).trim_start_matches('0');
    let end = unsigned.find(|char: char| !(char.is_ascii_digit() || char == '.')).unwrap_or(unsigned.len());
    let (digits, suffix) = unsigned.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent = match suffix {
        "" => 0,
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ if suffix.ends_with('i') => {
            let power = "KMGTPE".find(&suffix[..1]).map_or(0, |index| 3 * (index as i32 + 1));
            return !fraction.is_empty() || 14 - whole.len() as i32 - power < 0;
        }
        _ => suffix[1..].parse().unwrap_or(0),
    };
    exponent < fraction.len() as i32 || whole.len() + fraction.len() > 18
}

/// Calls a function of one of these types.
pub(super) fn call(name: &str, args: &[Value]) -> Evaluated {
    match args {
        [] => {
            let format = name.strip_prefix("format.").and_then(Format::named);
            format.map_or_else(no_overload, |format| Ok(Value::Format(format)))
        }
        [Value::Url(url)] => match name {
            "getScheme" => Ok(url.scheme.as_str().into()),
            "getHost" => Ok(url.host.as_str().into()),
            "getHostname" => Ok(url.hostname().into()),
            "getPort" => Ok(url.port().into()),
            "getEscapedPath" => Ok(url.path.as_str().into()),
            "getQuery" => {
                let entry = |(key, values): (String, Vec<String>)| {
                    let values: Vec<_> = values.into_iter().map(Value::from).collect();
                    (Key::String(key.into()), Value::from(values))
                };
                Ok(Value::map(url.query().into_iter().map(entry).collect()))
            }
            _ => no_overload(),
        },
        [Value::Ip(address)] => of_ip(name, *address),
        [Value::Cidr(network), rest @ ..] => of_cidr(name, *network, rest),
        [Value::Quantity(one), rest @ ..] => of_quantity(name, *one, rest),
        [Value::Semver(one), Value::Semver(other)] => compared(name, one.compare(other)),
        [Value::Semver(version)] => {
            let number = match name {
                "major" => version.major,
                "minor" => version.minor,
                "patch" => version.patch,
                _ => return no_overload(),
            };
            Ok(Value::Int(number as i64))
        }
        [Value::Format(format), Value::String(text)] if name == "validate" => {
            let violations = format.violations(text);
            let violations: Vec<_> = violations.into_iter().map(Value::from).collect();
            Ok(if violations.is_empty() { Value::NONE } else { Value::some(violations.into()) })
        }
        _ => no_overload(),
    }
}

fn compared(name: &str, order: Ordering) -> Evaluated {
    match name {
        "isGreaterThan" => Ok(Value::Bool(order.is_gt())),
        "isLessThan" => Ok(Value::Bool(order.is_lt())),
        "compareTo" => Ok(Value::Int(order as i64)),
        _ => no_overload(),
    }
}

fn of_ip(name: &str, address: IpAddr) -> Evaluated {
    Ok(match name {
        "family" => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        "string" => address.to_string().into(),
        "isUnspecified" => Value::Bool(address.is_unspecified()),
        "isLoopback" => Value::Bool(address.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(is_link_local_multicast(address)),
        "isLinkLocalUnicast" => Value::Bool(is_link_local_unicast(address)),
        "isGlobalUnicast" => Value::Bool(is_global_unicast(address)),
        _ => return no_overload(),
    })
}

fn of_cidr(name: &str, network: Cidr, args: &[Value]) -> Evaluated {
    Ok(match (name, args) {
        ("ip", []) => Value::Ip(network.address),
        ("prefixLength", []) => Value::Int(network.bits.into()),
        ("masked", []) => Value::Cidr(network.masked()),
        ("string", []) => network.written().into(),
        ("containsIP", [Value::Ip(address)]) => Value::Bool(network.contains(*address)),
        ("containsIP", [Value::String(text)]) => Value::Bool(network.contains(parse_ip(text)?)),
        ("containsCIDR", [Value::Cidr(other)]) => Value::Bool(network.contains_network(*other)),
        ("containsCIDR", [Value::String(text)]) => Value::Bool(network.contains_network(Cidr::parse(text)?)),
        _ => return no_overload(),
    })
}

fn of_quantity(name: &str, one: Amount, args: &[Value]) -> Evaluated {
    let whole = |number: i64| {
        let amount = Quantity::whole(number.unsigned_abs());
        let amount = if number < 0 { Quantity::ZERO.minus(amount) } else { amount };
        Amount { amount, is_fine: false }
    };
    let sum = |other: Amount, calculate: fn(Quantity, Quantity) -> Quantity| {
        let amount = calculate(one.amount, other.amount);
        Ok(Value::Quantity(Amount { amount, is_fine: one.is_fine || other.is_fine }))
    };
    let integer = one.amount.integer().filter(|_| !one.is_fine);
    match (name, args) {
        ("sign", []) => Ok(Value::Int(i64::from(one.amount.is_positive()) - i64::from(one.amount.is_negative()))),
        ("asApproximateFloat", []) => Ok(Value::Double(one.amount.float())),
        ("isInteger", []) => Ok(Value::Bool(integer.is_some())),
        ("asInteger", []) => integer.map(Value::Int).ok_or_else(|| "cannot convert value to integer".to_owned()),
        ("add", [Value::Quantity(other)]) => sum(*other, Quantity::plus),
        ("add", [Value::Int(other)]) => sum(whole(*other), Quantity::plus),
        ("sub", [Value::Quantity(other)]) => sum(*other, Quantity::minus),
        ("sub", [Value::Int(other)]) => sum(whole(*other), Quantity::minus),
        (_, [Value::Quantity(Amount { amount: other, .. })]) => {
            let order = if one.amount.exceeds(*other) {
                Ordering::Greater
            } else if other.exceeds(one.amount) {
                Ordering::Less
            } else {
                Ordering::Equal
            };
            compared(name, order)
        }
        _ => no_overload(),
    }
}
