use super::*;

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, value.parse().unwrap());
    }
    headers
}

#[test]
fn a_token_is_shown_once_and_as_a_bearer_token() {
    assert_eq!(bearer(&headers(&["bearer  x"])), Some("x"));
    for wrong in [&[][..], &["x"], &["Basic x"], &["Bearer "], &["Bearer x", "Bearer y"]] {
        assert_eq!(bearer(&headers(wrong)), None, "{wrong:?}");
    }
}

#[test]
fn a_challenge_stays_one_header() {
    assert_eq!(quoted("a \"b\\\n`ü"), "a 'b''`'");
}

fn token(text: &str) -> Result<Token, TokenError> {
    Token::new(SecretString::from(text))
}

#[test]
fn only_the_whole_token_is_it() {
    let own = token("0123456789abcdef").unwrap();
    let shown = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        bearer(&headers).is_some_and(|shown| own.matches(shown))
    };
    assert!(shown(&["Bearer 0123456789abcdef"]) && shown(&["bearer  0123456789abcdef"]));
    for wrong in
        ["", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcde"]
    {
        assert!(!shown(&[wrong]), "{wrong:?}");
    }
    assert!(!shown(&[]) && !shown(&["Bearer 0123456789abcdef", "Bearer x"]));
}

#[test]
fn a_token_can_be_neither_guessed_nor_broken() {
    assert_eq!(token("short").unwrap_err(), TokenError::TooShort);
    assert_eq!(token("0123456789 abcdef").unwrap_err(), TokenError::NotAToken);
    assert_eq!(token("0123456789abcdéf").unwrap_err(), TokenError::NotAToken);
    let generated = Token::generate().unwrap();
    assert!(token(generated.secret().expose_secret()).is_ok());
}

fn taken(host: &str, origin: Option<&str>) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
    let local = "192.0.2.7:8080".parse().ok();
    check_source(&headers, local, &["tools.test".to_owned()]).is_ok()
}

#[test]
fn only_own_names_are_served() {
    for own in ["localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080", "192.0.2.7:8080", "tools.test"] {
        assert!(taken(own, None), "{own}");
    }
    for foreign in
        ["evil.test:8080", "localhost.evil.test", "127.0.0.1.evil.test", "192.0.2.8", "0.0.0.0:8080"]
    {
        assert!(!taken(foreign, None), "{foreign}");
    }
    let without = check_source(&HeaderMap::new(), None, &[]).unwrap_err().into_response();
    assert_eq!(without.status(), StatusCode::BAD_REQUEST, "no host at all");
}

#[test]
fn only_own_pages_are_served() {
    for own in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:6274"] {
        assert!(taken("localhost", Some(own)), "{own}");
    }
    for foreign in [
        "https://evil.test",
        "http://localhost.evil.test",
        "null",
        "localhost",
        "file://",
        "http://a@localhost.evil",
    ] {
        assert!(!taken("localhost", Some(foreign)), "{foreign}");
    }
}
