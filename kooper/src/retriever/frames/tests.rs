use proptest::prelude::*;

use super::*;

fn lines(chunks: &[&[u8]]) -> Vec<String> {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for chunk in chunks {
        lines.push(&Bytes::copy_from_slice(chunk)).unwrap();
        while let Some(line) = lines.next() {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
    }
    found
}

#[test]
fn an_event_is_read_in_any_order_of_its_members() {
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
fn the_end_of_a_streaming_list_is_told_by_the_annotations_value() {
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
fn an_object_without_a_name_is_passed_over_and_told() {
    let line = br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{}}}"#;
    assert!(matches!(event(line), Ok(Event::Malformed(_))));
}

#[test]
fn a_410_in_the_stream_is_told_from_other_errors() {
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
fn a_page_keeps_its_good_objects_beside_bad_ones() {
    let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"12","continue":"next"},"items":[{"metadata":{"name":"a"}},7,{"metadata":{}},{"metadata":{"name":"b"}}]}"#;
    let page = page(body).unwrap();
    let names: Vec<_> =
        page.objects.iter().map(|object| object.as_ref().map(|object| object.key().to_string()).ok()).collect();
    assert_eq!(names, [Some("a".to_owned()), None, None, Some("b".to_owned())]);
    assert_eq!((page.version.as_str(), page.continue_token.as_deref()), ("12", Some("next")));
}

#[test]
fn an_empty_list_has_null_for_its_items() {
    let page = page(br#"{"metadata":{"resourceVersion":"1","continue":""},"items":null}"#).unwrap();
    assert!(page.objects.is_empty() && page.continue_token.is_none());
}

#[test]
fn what_is_no_json_is_told_with_its_beginning() {
    let error = page(b"<html>502 Bad Gateway</html>").unwrap_err().to_string();
    assert!(error.contains("<html>502"), "{error}");
}

proptest! {
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
