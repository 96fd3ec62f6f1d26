//! Schedules.

use kooper_grammar::cron::{CronError, Minute, Schedule};

/// A minute such as `2026-03-01 10:07`.
fn minute(text: &str) -> Minute {
    let numbers: Vec<i16> = text.split(['-', ' ', ':']).map(|number| number.parse().expect(text)).collect();
    let small = |at: usize| i8::try_from(numbers[at]).expect(text);
    Minute { year: numbers[0], month: small(1), day: small(2), hour: small(3), minute: small(4) }
}

fn next(schedule: &str, after: &str) -> String {
    let schedule = Schedule::parse(schedule).expect(schedule);
    let Minute { year, month, day, hour, minute } = schedule.after(minute(after)).expect("a date");
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

#[test]
fn the_next_minute_is_found() {
    assert_eq!(next("*/15 * * * *", "2026-03-01 10:07"), "2026-03-01 10:15");
    assert_eq!(next("* * * * *", "2026-03-01 10:07"), "2026-03-01 10:08");
    assert_eq!(next("30 2 * * *", "2026-03-01 10:07"), "2026-03-02 02:30");
    assert_eq!(next("0 0 29 2 *", "2026-03-01 00:00"), "2028-02-29 00:00");
    assert_eq!(next("0 0 29 2 *", "2096-02-29 00:00"), "2104-02-29 00:00", "1900 and 2100 are no leap years");
    assert_eq!(next("0 9 * * mon-fri", "2026-03-06 10:00"), "2026-03-09 09:00");
    assert_eq!(next("@monthly", "2026-12-31 23:59"), "2027-01-01 00:00");
    assert_eq!(next("0 0 13 * 5", "2026-03-01 00:00"), "2026-03-06 00:00", "either day is enough");
    assert_eq!(next("? * ? * ?", "2026-03-01 10:07"), "2026-03-01 10:08");
    assert_eq!(next("5/20 4,6 * jan,jul 7", "2026-03-01 00:00"), "2026-07-05 04:05");
}

/// The expected times are those of robfig/cron v3.0.1.
#[test]
fn days_are_limited_as_by_kubernetes() {
    assert_eq!(next("0 0 */2 * 1", "2026-03-01 00:00"), "2026-03-02 00:00", "a Monday, or an odd day");
    assert_eq!(next("0 0 */2 * 1", "2026-03-02 00:00"), "2026-03-03 00:00", "a Monday, or an odd day");
    assert_eq!(next("0 0 */1 * 1", "2026-03-02 00:00"), "2026-03-09 00:00", "a step of one limits no day");
    assert_eq!(next("0 0 13,* * 1", "2026-03-02 00:00"), "2026-03-09 00:00", "a star in a list limits no day");
    assert_eq!(next("0 0 * * 1/3", "2026-03-05 00:00"), "2026-03-09 00:00", "a week ends with Saturday");
    assert_eq!(next("0 0 * * 1/3", "2026-03-02 00:00"), "2026-03-05 00:00");
}

#[test]
fn a_week_has_seven_days_in_each_century() {
    for (day, weekday) in
        [("1999-12-31", 5), ("2000-02-29", 2), ("2000-03-01", 3), ("2026-11-26", 4), ("2100-03-01", 1)]
    {
        let schedule = format!("0 12 * * {weekday}");
        assert_eq!(next(&schedule, &format!("{day} 00:00")), format!("{day} 12:00"));
    }
}

#[test]
fn errors_name_the_field_and_what_to_write() {
    for (text, message) in [
        (
            "* * * *",
            "the schedule \"* * * *\" does not have five fields: write minute, hour, day of the month, month and day of the \
             week, such as \"0 3 * * *\", or `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`",
        ),
        (
            "* 24 * * *",
            "the schedule \"* 24 * * *\" has the hour `24`: write numbers from 0 to 23 such as `1,3-5`, `*` for all, or a \
             step such as `*/2`",
        ),
        ("0 0 30 feb *", "the schedule \"0 0 30 feb *\" has no date: no such month has such a day"),
    ] {
        assert_eq!(Schedule::parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
    for text in ["60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "+ * * * *", "** * * * *", "1,,2 * * * *"] {
        let error = Schedule::parse(text).expect_err(text);
        assert!(matches!(error, CronError::Field { .. }), "{error}");
    }
    for text in ["", "@reboot", "0 3 * * * *", "TZ=Asia/Tokyo 0 3 * * *"] {
        assert_eq!(Schedule::parse(text), Err(CronError::NotFiveFields(text.to_owned())));
    }
}
