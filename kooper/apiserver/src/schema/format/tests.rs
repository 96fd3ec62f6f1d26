use serde_json::json;

use super::{has, holds, of};

/// Of each format, texts that kube-apiserver accepts, and texts that it refuses, with a bar between them.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "duration",
        "1h|1 h|5 days|2d|1w|x 3 min y|7 secs|10us|10µs|1.5h|1.5 days|1hour30|3nanox|1hr|0|-1s|+5m|2 Weeks|1D",
        "soon|3 wks|99999999999999999999s||5|5 x|nano 3|3 hrs",
    ),
    ("uri", "/a|http://a|mailto:x|http://[::1]:80/|//a/b", "not a uri|a|http://a b||http://a:x/|#x|http://%zz/"),
    ("byte", "YQ==|YR==|YWJj", "%%%|YQ|YQ==\n||YQ=|a-_b"),
    (
        "uuid",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|123e4567-e89b-12d3-a456-426614174000|123e4567e89b12d3a456426614174000|\
         123E4567-e89b12d3-a456426614174000",
        "------------------------------------|123e4567-e89b-12d3-a456-42661417400|zz",
    ),
    ("uuid3", "123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"),
    ("uuid5", "123e4567-e89b-52d3-B456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
    (
        "hostname",
        "a|a-b|ab|a-|a.bc|a-b.bc|1.com|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com|ü.de|☃.com|\
         a.üx|my-host.example.com|a.b-c.com|x-yz",
        "-a|a.b|a-.bc|a_b.com|a.c1|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|\
         aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab.com||a.|a..com|a.ü|my-host|a b.com|٣.com|\
         ab-c|e\u{301}x.com",
    ),
    ("email", "a@b|A B <a@b.c>", "a|a@|@b|"),
    (
        "cidr",
        "1.2.3.0/24|01.2.3.0/24|::/0|::ffff:1.2.3.4/100|1.2.3.0/08|::01.2.3.4/100",
        "1.2.3.4|1.2.3.4/33|::1/129|1.2.3/24|1.2.3.0/|a/1|1.2.3.0/+1|fe80::1%e/64|1.2.3.0/24/1",
    ),
    (
        "mac",
        "00:11:22:33:44:55|00-11-22-33-44-55|0011.2233.4455|001122334455|00:11:22:33:44:55:66:77|0011.2233.4455.6677",
        "00:11:22:33:44|00:11:22-33:44:55|0:11:22:33:44:55|gg:11:22:33:44:55||00:11:22:33:44:55:",
    ),
    ("ipv4", "1.2.3.4|01.2.3.4|::ffff:1.2.3.4|001.2.3.0004", "1.2.3|::1|1.2.3.256|1.2.3.4 "),
    ("ipv6", "::1|::ffff:1.2.3.4", "1.2.3.4|fe80::1%eth0|1:2|::ffff:01.2.3.4"),
    ("date", "2026-01-02|0000-01-01", "2026-1-2|2026-02-30|x"),
    (
        "date-time",
        "2026-01-02T03:04:05Z|2026-01-02t03:04:05z|2026-01-02T03:04:05.5Z|2026-01-02T03:04:05x5Z|\
         2026-01-02T03:04:05+99:99|2026-01-02T03:04:05,5-01:00|2026-01-02T03:04:05ZT",
        "2026-01-02T23:59:60Z|2026-01-02T24:00:00Z|2026-01-02T03:04:05|2026-01-02T03:04Z|2026-02-30T00:00:00Z|\
         2026-01-02 03:04:05Z|2026-01-02T03:04:05.Z",
    ),
    ("hexcolor", "#fff|fff|#FFFFFF", "#ffff|#12345G"),
    ("k8s-short-name", "a-b", "A|a.b|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|-a|"),
    ("k8s-long-name", "a.b|a|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b", "A.b|a..b|.a|a-.b"),
];

#[test]
fn strings_have_the_formats_that_the_real_server_finds() {
    for (format, accepted, refused) in TEXTS {
        for text in accepted.split('|') {
            assert!(has(text, format), "{text:?} is a {format}");
        }
        for text in refused.split('|') {
            assert!(!has(text, format), "{text:?} is no {format}");
        }
    }
    assert!(has("x", "password"));
}

#[test]
fn numbers_are_in_the_range_of_their_format() {
    for (number, of, format, expected) in [
        (json!(2_147_483_647), "integer", Some("int32"), true),
        (json!(2_147_483_648_u32), "integer", Some("int32"), false),
        (json!(3e9), "integer", Some("int32"), false),
        (json!(3e9), "integer", None, true),
        (json!(1.5), "integer", None, false),
        (json!(u64::MAX), "integer", Some("int64"), false),
        (json!(1e39), "number", Some("float"), false),
        (json!(1e39), "number", Some("double"), true),
        (json!(1e39), "", None, true),
    ] {
        assert_eq!(holds(&number, of, format), expected, "{number} is a {of} {format:?}");
    }
}

#[test]
fn formats_that_a_type_cannot_have_are_without_effect() {
    for (schema, format) in [
        (json!({"type": "string", "format": "date-time"}), Some("date-time")),
        (json!({"format": "uuid"}), Some("uuid")),
        (json!({"type": "string", "format": "int32"}), None),
        (json!({"type": "string", "format": "other"}), None),
        (json!({"type": "integer", "format": "int32"}), Some("int32")),
        (json!({"type": "integer", "format": "uint32"}), None),
        (json!({"type": "number", "format": "float"}), Some("float")),
        (json!({"type": "boolean", "format": "date"}), None),
    ] {
        assert_eq!(of(&schema), format, "{schema}");
    }
}
