//! The way into what reads a cloud's answers, for the fuzzer alone (`cfg(fuzzing)`).

use super::http::{HttpAnswer, ahead_in, failed, retry_after, words as words_of};
use super::known_secrets::KnownSecrets;
use super::{keystone, wire, words};
use crate::model::cloud::access::Written;
use crate::model::secret::Secret;
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// All that is done with an answer before anything is decided.
///
/// # Panics
///
/// Where an answer breaks what is promised of it.
pub fn answer(text: &str) {
    let (header, text) = text.split_once('\n').unwrap_or(("", text));
    headers(header);
    wire::garbage(text);
    let _ = words::server_state(header);
    let Ok(mut body) = serde_json::from_str(text) else { return };
    let (secrets, token) = (KnownSecrets::default(), Secret::from("a token!".to_owned()));
    secrets.add(&token);
    let words = words_of(&body, &secrets);
    assert!(!words.contains(token.reveal()), "{words}");
    secrets.strip(&mut body);
    let answer = HttpAnswer { status: 201, body, subject_token: Some(token), words };
    let written = Written {
        auth_url: Some("http://127.0.0.1/v3".to_owned()),
        user_id: Some("u".to_owned()),
        password: Some("p".to_owned().into()),
        project_id: Some("p".to_owned()),
        region: (header.len() % 2 == 0).then(|| header.to_owned()),
        ..Written::default()
    };
    let Ok(access) = written.resolve("a test") else { return };
    if let Ok(session) = keystone::settle(&access, &answer) {
        assert!(!session.places.is_empty(), "a session without a place");
    }
    let answer = HttpAnswer { status: 401, ..answer };
    assert!(keystone::settle(&access, &answer).is_err());
    let told = failed("Cinder", &answer).cause;
    assert!(told.len() < 2000 && !told.contains('\n'), "{told}");
}

fn headers(text: &str) {
    let Ok(value) = HeaderValue::from_str(text) else { return };
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, value.clone());
    headers.insert(DATE, value);
    let _ = ahead_in(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    // However long: it is compared with a bound before anything waits.
    let _ = retry_after(&headers);
}
