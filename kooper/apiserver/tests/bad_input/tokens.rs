//! Tokens with something changed in them: those of users, and those of lists in pages.

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;
use kooper_apiserver::{ApiServer, User};
use kooper_fuzz::fuzz;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{JSON, MAPS, answer, check, read, runtime, send};

fn start(runtime: &Runtime) -> ApiServer {
    runtime.block_on(ApiServer::start()).expect("loopback can be listened on")
}

/// Creates an object, and returns the response.
fn create(runtime: &Runtime, server: &ApiServer, path: &str, object: &Value) -> Value {
    let (status, text) = runtime.block_on(answer(server, "POST", path, JSON, object.to_string().as_bytes()));
    assert_eq!(status, StatusCode::CREATED, "{text}");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn mutated_tokens_stand_for_no_user() {
    const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    let runtime = runtime();
    let server = start(&runtime);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(&runtime, &server, accounts, &json!({"metadata": {"name": "robot"}}));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let granted = create(&runtime, &server, &format!("{accounts}/robot/token"), &request);
    let account = granted["status"]["token"].as_str().expect("it has a token").to_owned();
    let known = [server.token().to_owned(), server.token_of(User::new("jane", &["developers"])), account];
    let review = |kind: &str, spec: Value| {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": kind, "spec": spec}).to_string()
    };
    let asks = Bytes::from(review("SelfSubjectReview", Value::Null));

    let schemes = ["", "Bearer ", "bearer  ", "Basic "];
    let seeds = known.iter().flat_map(|token| schemes.map(|scheme| format!("{scheme}{token}").into_bytes()));
    let words = &["Bearer ", "bearer", "Basic ", ".", "eyJ", "=", "-", "_", "\t", "system:masters", "\"}}"];
    let (mut accepted, mut refused) = (0, 0);
    fuzz("tokens", seeds.collect::<Vec<_>>(), words, |input| {
        if let Ok(value) = HeaderValue::from_bytes(input) {
            let request = Request::post(SELF).header("content-type", JSON).header("authorization", value);
            let request = request.body(Full::new(asks.clone())).expect("it is a request");
            let (status, text) = runtime.block_on(async { read(send(&server, request).await).await });
            check(status, &text);
            if status.is_success() {
                let has = |token: &String| input.windows(token.len()).any(|part| part == token.as_bytes());
                assert!(known.iter().any(has), "{text}");
            } else {
                assert!([StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status), "{status}: {text}");
            }
        }
        let token = String::from_utf8_lossy(input);
        let body = review("TokenReview", json!({"token": token}));
        let (status, text) = runtime.block_on(answer(&server, "POST", REVIEWS, JSON, body.as_bytes()));
        check(status, &text);
        let is_known = known.iter().any(|known| *known == token);
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(found["status"]["authenticated"] == true, is_known, "{status}: {text}");
        if is_known { accepted += 1 } else { refused += 1 }
    });
    assert!(accepted > 0 || refused < 2_000, "of {refused} tokens none was known");
}

#[test]
fn mutated_continue_tokens_lead_to_a_page_or_are_refused() {
    const ALL: &str = "/api/v1/configmaps";
    const LIMIT: usize = 3;
    let runtime = runtime();
    let server = start(&runtime);
    create(&runtime, &server, "/api/v1/namespaces", &json!({"metadata": {"name": "other"}}));
    for number in 0..10 {
        for folder in [MAPS, "/api/v1/namespaces/other/configmaps"] {
            create(&runtime, &server, folder, &json!({"metadata": {"name": format!("map-{number}")}}));
        }
    }
    let page = |path: &str, token: &str| {
        let path = format!("{path}?limit={LIMIT}&continue={token}");
        let (status, text) = runtime.block_on(answer(&server, "GET", &path, JSON, b""));
        (status, serde_json::from_str::<Value>(&text).unwrap_or_default(), text)
    };
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for path in [MAPS, ALL] {
        let mut token = String::new();
        loop {
            let (status, list, text) = page(path, &token);
            assert_eq!(status, StatusCode::OK, "{text}");
            let Some(next) = list["metadata"]["continue"].as_str().filter(|next| !next.is_empty()) else { break };
            token = next.to_owned();
            seeds.extend(decoded(&token));
            seeds.push(token.clone().into_bytes());
        }
    }
    assert!(seeds.len() > 12, "each page but the last has a token, whose content is known");
    let words = &["2f", "00", "ff", "default", "other", "kube-system", "map-3", "0/", "-1/", "18446744073709551615/"];
    let mut pages = 0;
    fuzz("continue tokens", seeds, words, |input| {
        // A mutated token, and the token of a mutated content.
        for token in [escaped(input), encoded(input)] {
            for path in [MAPS, ALL] {
                let (status, list, text) = page(path, &token);
                check(status, &text);
                if status != StatusCode::OK {
                    continue;
                }
                pages += 1;
                let items = list["items"].as_array().expect("a list has items");
                let key = |item: &Value| {
                    let part = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
                    (part("namespace"), part("name"))
                };
                let keys: Vec<_> = items.iter().map(key).collect();
                assert!(keys.len() <= LIMIT && keys.is_sorted(), "{text}");
                assert!(path == ALL || keys.iter().all(|(namespace, _)| namespace == "default"), "{text}");
            }
        }
    });
    assert!(pages > 0, "no token led to a page");
}

/// The content of a token: its digits are bytes.
fn decoded(token: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = token.chars().map(|digit| digit.to_digit(16)).collect();
    digits?.chunks(2).map(|pair| u8::try_from(pair.iter().fold(0, |byte, digit| byte * 16 + digit)).ok()).collect()
}

fn encoded(content: &[u8]) -> String {
    content.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As the value of a query.
fn escaped(token: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    token.iter().map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
