//! Schedules of CronJobs: whether one is valid, and if not, why.

/// The fields of a schedule: their bounds and the names of their values.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The messages are those of the parser that Kubernetes uses.
pub(crate) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        rest = rest.split_once(' ').map_or("", |(_, rest)| rest).trim();
    }
    if rest.starts_with('@') {
        let known = DESCRIPTORS.contains(&rest) || rest.strip_prefix("@every ").is_some_and(is_duration);
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {rest}")) };
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(FIELDS) {
        for range in field.split(',') {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn is_duration(text: &str) -> bool {
    kooper_grammar::duration::parse(text).is_ok()
}

fn check_range(text: &str, (least, most, names): (u32, u32, &[&str])) -> Result<(), String> {
    let (range, step) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [range] => (*range, None),
        [range, step] => (*range, Some(*step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let bounds: Vec<&str> = range.split('-').collect();
    let value = |text: &str| -> Result<u32, String> {
        if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(u32::try_from(index).unwrap_or(0) + least);
        }
        number(text)
    };
    let (start, mut end) = if matches!(bounds[0], "*" | "?") {
        (least, most)
    } else {
        let start = value(bounds[0])?;
        match bounds.as_slice() {
            [_] => (start, start),
            [_, end] => (start, value(end)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let mut every = 1;
    if let Some(step) = step {
        every = number(step)?;
        // `N/step` means from N on.
        if bounds.len() == 1 {
            end = most;
        }
    }
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if every == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    let parsed: Result<i64, _> = text.parse();
    match parsed {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| format!("failed to parse number: {text}")),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_checked_field_by_field() {
        for valid in ["* * * * *", "*/5 0-6 1,15 jan-mar MON", "@daily", "@every 1h", "0 0 1 1 ?"] {
            assert_eq!(check(valid), Ok(()), "{valid}");
        }
        for (invalid, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(check(invalid), Err(why.to_owned()));
        }
    }
}
