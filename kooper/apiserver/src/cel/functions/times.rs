//! The parts of times and durations.

use super::{Evaluated, no_overload};
use crate::cel::time::zone;
use crate::cel::value::Value;

/// The answer of a getter of a time or a duration. Months, and days of a month by one of two getters, count from 0.
pub(super) fn part(getter: &str, args: &[Value]) -> Evaluated {
    let (time, offset) = match args {
        [Value::Duration(nanos)] => {
            let unit = match getter {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return no_overload(),
            };
            return Ok(Value::Int(nanos / unit));
        }
        [Value::Timestamp(time)] => (time, 0),
        [Value::Timestamp(time), Value::String(name)] => (time, zone(name)?),
        _ => return no_overload(),
    };
    let civil = time.civil(offset);
    Ok(Value::Int(match getter {
        "getFullYear" => civil.year,
        "getMonth" => civil.month - 1,
        "getDayOfYear" => civil.day_of_year(),
        "getDayOfMonth" => civil.day - 1,
        "getDate" => civil.day,
        "getDayOfWeek" => civil.weekday(),
        "getHours" => civil.hour,
        "getMinutes" => civil.minute,
        "getSeconds" => civil.second,
        "getMilliseconds" => civil.nanos / 1_000_000,
        _ => return no_overload(),
    }))
}
