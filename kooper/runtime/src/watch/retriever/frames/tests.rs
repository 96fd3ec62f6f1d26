use http::header::{CONTENT_TYPE, HeaderMap};
use kooper_fuzz::fuzz;
use kooper_protobuf::watch::{Event as WatchEvent, write_frame};
use kooper_protobuf::{Kind, List};
use proptest::prelude::*;

use super::*;
use crate::watch::retriever::Page;

/// A page that arrives in one piece.
fn page(body: &[u8]) -> Result<Page, RetrieveError> {
    let mut reader = JsonPage::default();
    reader.push(body)?;
    reader.end()
}

fn lines(chunks: &[&[u8]]) -> Vec<String> {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for chunk in chunks {
        lines.push(Bytes::copy_from_slice(chunk)).unwrap();
        while let Some(line) = lines.next() {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
    }
    found
}

#[test]
fn an_object_without_items_is_not_an_empty_list() {
    for body in [r#"{}"#, r#"{"message":"session expired"}"#, r#"{"kind":"Status","metadata":{},"code":200}"#] {
        let error = page(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("it is not a list"), "{body}: {error}");
    }
    for body in [r#"{"items":[]}"#, r#"{"metadata":{"resourceVersion":"7","continue":""},"items":null}"#] {
        let page = page(body.as_bytes()).unwrap();
        assert!(page.objects.is_empty() && page.continue_token.is_none(), "{body}");
    }
}

#[test]
fn the_members_of_an_event_may_be_in_any_order() {
    let object = r#"{"kind":"Pod","metadata":{"name":"a","namespace":"b","resourceVersion":"7"}}"#;
    for line in [
        format!(r#"{{"type":"MODIFIED","object":{object}}}"#),
        format!(r#" {{ "object" : {object} , "type" : "MODIFIED" }} "#),
    ] {
        match event(line.as_bytes()) {
            Ok(Event::Modified(object)) => {
                assert_eq!((object.key().as_str(), object.version()), ("b/a", "7"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_value_of_the_annotation_marks_the_end_of_a_streaming_list() {
    let bookmark = |annotations: &str| {
        let line = format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"9","annotations":{annotations}}}}}}}"#
        );
        match event(line.as_bytes()) {
            Ok(Event::Bookmark { version, initial_events_end }) => {
                assert_eq!(version, "9");
                initial_events_end
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(bookmark(r#"{"k8s.io/initial-events-end":"true"}"#));
    assert!(!bookmark(r#"{"k8s.io/initial-events-end":"false"}"#));
    assert!(!bookmark("{}"));
    assert!(!bookmark("null"));
}

#[test]
fn an_object_without_a_name_is_a_malformed_event() {
    let line = br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{}}}"#;
    assert!(matches!(event(line), Ok(Event::Malformed(_))));
    let line = String::from_utf8_lossy(line).replace("ADDED", "DELETED");
    assert!(matches!(event(line.as_bytes()), Ok(Event::MalformedDeletion(_))));
}

#[test]
fn a_410_in_the_stream_is_distinguished_from_other_errors() {
    let error = |status: &str| event(format!(r#"{{"type":"ERROR","object":{status}}}"#).as_bytes()).unwrap_err();
    assert!(matches!(
        error(r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#),
        RetrieveError::Expired(_)
    ));
    assert!(matches!(
        error(
            r#"{"kind":"Status","code":504,"reason":"Timeout","message":"m","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}"#
        ),
        RetrieveError::TooLargeVersion(_)
    ));
    assert!(matches!(
        error(r#"{"kind":"Status","code":500,"message":"boom"}"#),
        RetrieveError::Status { code: 500, .. }
    ));
}

#[test]
fn a_page_keeps_its_valid_objects_when_others_are_malformed() {
    let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"12","continue":"next"},"items":[{"metadata":{"name":"a"}},7,{"metadata":{}},{"metadata":{"name":"b"}}]}"#;
    let page = page(body).unwrap();
    let names: Vec<_> =
        page.objects.iter().map(|object| object.as_ref().map(|object| object.key().to_string()).ok()).collect();
    assert_eq!(names, [Some("a".to_owned()), None, None, Some("b".to_owned())]);
    assert_eq!((page.version.as_str(), page.continue_token.as_deref()), ("12", Some("next")));
}

#[test]
fn a_response_that_is_not_json_is_reported_with_its_first_character() {
    let error = page(b"<html>502 Bad Gateway</html>").unwrap_err().to_string();
    assert!(error.ends_with("28 bytes and begins with '<'"), "{error}");
}

#[test]
fn at_most_one_item_of_a_page_is_buffered() {
    let mut reader = JsonPage::default();
    reader.push(br#"{"kind":"PodList","items":["#).unwrap();
    for name in 0..1000 {
        let item = format!(r#"{{"metadata":{{"name":"{name}","managedFields":[{{"items":[1]}}]}}}} ,"#);
        reader.push(item.as_bytes()).unwrap();
        assert!(reader.held() < 100, "{} bytes", reader.held());
    }
    reader.push(br#"{"metadata":{"name":"last"}}],"metadata":{"resourceVersion":"7"}}"#).unwrap();
    let page = reader.end().unwrap();
    assert_eq!((page.objects.len(), page.version.as_str()), (1001, "7"));
}

#[test]
fn a_truncated_page_is_an_error() {
    let body =
        br#"{"metadata":{"resourceVersion":"12"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    assert!(page(body).is_ok());
    for end in 0..body.len() {
        assert!(page(&body[..end]).is_err(), "{end}");
    }
}

#[test]
fn mutated_responses_are_read_or_refused() {
    let config = serde_json::json!({
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "5", "managedFields": [{"manager": "m"}]},
        "data": {"k": "v\"\\é"},
    });
    let item = config.to_string();
    let lines = format!(
        "{{\"type\":\"ADDED\",\"object\":{item}}}\n{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"metadata\":\
         {{\"resourceVersion\":\"9\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n\
         {{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}}}\n"
    );
    let page = format!("{{\"metadata\":{{\"resourceVersion\":\"7\",\"continue\":\"x\"}},\"items\":[{item},{item}]}}");
    let kind = Kind::of("v1", "ConfigMap").unwrap();
    let object = kind.encode(&config).unwrap();
    let mut events = Vec::new();
    for name in ["ADDED", "DELETED", "BOOKMARK", "ERROR"] {
        WatchEvent { kind: name.into(), object: &object }.write(&mut events);
    }
    write_frame(&mut events, b"");
    let mut list = List::new(Kind::of("v1", "ConfigMapList").unwrap());
    list.push(&config).unwrap();
    let list = list.finish(&serde_json::json!({"resourceVersion": "9"})).unwrap().flatten().collect();
    let words = &[
        "\"type\":",
        "\"object\":",
        "\"items\":[",
        "\"metadata\":{",
        "MODIFIED",
        "\"managedFields\":[",
        "k8s\0",
        "}",
        "]",
    ];
    let protobuf: HeaderMap =
        [(CONTENT_TYPE, "application/vnd.kubernetes.protobuf".parse().unwrap())].into_iter().collect();
    fuzz("responses", [lines.into_bytes(), page.into_bytes(), events, list], words, |input| {
        for headers in [&HeaderMap::new(), &protobuf] {
            for chunk in [5, 4096] {
                let mut reader = EventReader::of(headers);
                for chunk in input.chunks(chunk) {
                    if reader.push(Bytes::copy_from_slice(chunk)).is_err() {
                        break;
                    }
                    while let Some(event) = reader.next() {
                        drop(event);
                    }
                }
                let mut reader = PageReader::of(headers);
                if input.chunks(chunk).try_for_each(|chunk| reader.push(chunk)).is_ok() {
                    drop(reader.end());
                }
            }
        }
    });
}

proptest! {
    #[test]
    fn a_page_is_the_same_however_it_is_chunked(cuts in prop::collection::vec(0usize..200, 0..8), spaced in any::<bool>()) {
        let body = r#"{"items":[{"metadata":{"name":"a\"]}","x":["\\"]}},null,{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"12","continue":"next","items":["x"]}}"#;
        let body = if spaced { body.replace(':', " : ").replace(',', " ,\n") } else { body.to_owned() };
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
        cuts.sort_unstable();
        let mut reader = JsonPage::default();
        let mut from = 0;
        for cut in cuts.into_iter().chain([body.len()]) {
            reader.push(&body.as_bytes()[from..cut]).unwrap();
            from = cut;
        }
        let page = reader.end().unwrap();
        let names: Vec<_> = page.objects.iter().map(|object| object.as_ref().map(|object| object.key().to_string()).ok()).collect();
        prop_assert_eq!(names, [None, None, Some("b".to_owned())]);
        prop_assert_eq!((page.version.as_str(), page.continue_token.as_deref()), ("12", Some("next")));
    }

    #[test]
    fn lines_are_the_same_however_they_are_chunked(text in "[a-z\n]{0,80}", cuts in prop::collection::vec(0usize..80, 0..6)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut chunks: Vec<&[u8]> = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&text.as_bytes()[from..cut]);
            from = cut;
        }
        chunks.push(&text.as_bytes()[from..]);
        let whole: Vec<String> = match text.rfind('\n') {
            Some(end) => text[..end].split('\n').filter(|line| !line.is_empty()).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        prop_assert_eq!(lines(&chunks), whole);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = event(&bytes);
        let _ = page(&bytes);
        let mut inside = br#"{"type":"ADDED","object":{"metadata":{"name":"#.to_vec();
        inside.extend(&bytes);
        let _ = event(&inside);
    }
}
