//! Authentication of pulls: credentials as `docker login` stores them, sent to their own registry alone.

use haft::package::oci::{Access, COMPONENT, CredentialFiles};
use haft::package::signature::Trust;
use serde_json::json;

use super::fake::{Fake, Kept, Reply, Request, redirect, reply};
use super::{EMPTY, Place, access};

const PASSWORD: &str = "password-4711";
/// `u:password-4711`.
const BASIC: &str = "Basic dTpwYXNzd29yZC00NzEx";

/// An access with credentials for this registry.
fn known(fake: &Fake, files: &Place) -> Access {
    let text = json!({ "auths": { fake.address.to_string(): { "username": "u", "password": PASSWORD } } });
    let file = files.file("config.json", text.to_string().as_bytes());
    Access { credentials: CredentialFiles::at([file]), ..access() }
}

fn unauthorized(challenge: String) -> Reply {
    Reply::Full(401, vec![("www-authenticate", challenge)], Vec::new())
}

/// A fault of a fake registry.
type Lie = Box<dyn Fn(&Request, &Kept) -> Option<Reply> + Send + Sync>;

/// Requires a name and a password with every request.
fn basic(asked: &Request, _: &Kept) -> Option<Reply> {
    if asked.header("authorization") == Some(BASIC) {
        None
    } else {
        Some(unauthorized("Basic realm=\"r\"".to_owned()))
    }
}

/// Gives a token for the password, or without one if `open`, and requires the token with other requests.
fn bearer(open: bool) -> impl Fn(&Request, &Kept) -> Option<Reply> + Send + Sync {
    move |asked, _| {
        if asked.path.starts_with("/token") {
            assert!(
                asked.path.contains("service=s") && asked.path.contains("scope=repository%3Aa%2Fb%3Apull")
            );
            let allowed = open || asked.header("authorization") == Some(BASIC);
            return Some(if allowed { reply(200, r#"{ "token": "token-4711" }"#) } else { reply(401, "") });
        }
        match asked.header("authorization") {
            Some("Bearer token-4711") => None,
            _ => Some(unauthorized(format!(
                "Bearer realm=\"http://{}/token\",service=\"s\"",
                asked.header("host").unwrap()
            ))),
        }
    }
}

#[tokio::test]
async fn a_name_and_a_password_are_shown_once_they_are_wanted() {
    for lie in [true, false] {
        let fake = if lie { Fake::lying(basic) } else { Fake::lying(bearer(false)) };
        fake.thing("1", COMPONENT, EMPTY);
        let (place, files) = (Place::new(), Place::new());
        let access = known(&fake, &files);
        place.pull(&fake.reference("a/b:1"), &access, &Trust::Nobody).await.unwrap();
        assert!(fake.seen()[0].header("authorization").is_none());
        // The redactor knows every secret of the login.
        for secret in [PASSWORD, &BASIC[6..]] {
            assert_eq!(access.redactor.redact(secret), "***");
        }
    }
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_without_a_name_where_nobody_is_known() {
    let fake = Fake::lying(bearer(true));
    fake.thing("1", COMPONENT, EMPTY);
    let access = access();
    Place::new().pull(&fake.reference("a/b:1"), &access, &Trust::Nobody).await.unwrap();
    let tokens = fake.seen().iter().filter(|asked| asked.path.starts_with("/token")).count();
    assert_eq!(tokens, 1);
    assert_eq!(access.redactor.redact("token-4711"), "***");
}

#[tokio::test]
async fn without_credentials_the_way_out_is_named() {
    let fake = Fake::lying(basic);
    fake.thing("1", COMPONENT, EMPTY);
    let error = Place::new().pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap_err();
    assert!(error.to_string().contains("the registry requires a login, and no credentials for `"), "{error}");
    let fake = Fake::lying(bearer(false));
    let error = Place::new().pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap_err();
    assert!(error.to_string().contains("does not accept a request without a login"), "{error}");
}

/// CL04: haft does not send the registry's credentials to storage behind a redirect.
#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    for lie in [true, false] {
        let storage = Fake::lying(|_, _| Some(reply(200, EMPTY)));
        let target = format!("http://{}/storage", storage.address);
        let truth: Lie = if lie { Box::new(basic) } else { Box::new(bearer(false)) };
        let fake = Fake::lying(move |asked, kept| {
            truth(asked, kept).or_else(|| asked.is("GET", "/blobs/").then(|| redirect(&target)))
        });
        fake.thing("1", COMPONENT, EMPTY);
        let (place, files) = (Place::new(), Place::new());
        place.pull(&fake.reference("a/b:1"), &known(&fake, &files), &Trust::Nobody).await.unwrap();
        let [asked] = &storage.seen()[..] else { panic!("asked {} times", storage.seen().len()) };
        assert!(asked.header("authorization").is_none(), "{asked:?}");
    }
}

/// CL04: storage that asks for a password gets none.
#[tokio::test]
async fn storage_that_asks_who_one_is_gets_no_answer() {
    let storage = Fake::lying(|_, _| Some(unauthorized("Basic realm=\"r\"".to_owned())));
    let target = format!("http://{}/storage", storage.address);
    let fake = Fake::lying(move |asked, _| asked.is("GET", "/blobs/").then(|| redirect(&target)));
    fake.thing("1", COMPONENT, EMPTY);
    let (place, files) = (Place::new(), Place::new());
    let error =
        place.pull(&fake.reference("a/b:1"), &known(&fake, &files), &Trust::Nobody).await.unwrap_err();
    assert!(error.to_string().contains("does not accept a request without a login"), "{error}");
    assert!(storage.seen().iter().all(|asked| asked.header("authorization").is_none()));
    assert_eq!(place.left(), 0);
}

/// CL04: haft sends the password only to a token service on the registry's own site.
#[tokio::test]
async fn a_realm_on_a_foreign_host_gets_no_password() {
    for realm in ["https://evil.test/token", "http://10.0.0.1/token", "ftp://127.0.0.1/", "x"] {
        let fake = Fake::lying(move |_, _| Some(unauthorized(format!("Bearer realm=\"{realm}\""))));
        let (place, files) = (Place::new(), Place::new());
        let error =
            place.pull(&fake.reference("a/b:1"), &known(&fake, &files), &Trust::Nobody).await.unwrap_err();
        assert!(error.to_string().contains("the registry's token service is `"), "{realm}: {error}");
        assert_eq!(fake.seen().len(), 1);
    }
}

/// haft refuses a token that could end the header, an endless answer, an invalid answer and an error.
#[tokio::test]
async fn hostile_answers_with_tokens_are_refused() {
    type Answer = fn() -> Reply;
    let answers: [(Answer, &str); 4] = [
        (|| reply(200, r#"{ "token": "a\r\nx: y" }"#), "has an invalid token"),
        (|| Reply::Endless(String::new()), "the answer with the token is larger than 65536 bytes"),
        (|| reply(200, "<html>"), "the answer with the token has an unexpected form"),
        (|| reply(500, ""), "the registry answered 500 (tried 4 times)"),
    ];
    for (answer, expected) in answers {
        let fake = Fake::lying(move |asked, _| {
            if asked.path.starts_with("/token") {
                return Some(answer());
            }
            Some(unauthorized(format!("Bearer realm=\"http://{}/token\"", asked.header("host").unwrap())))
        });
        let error = Place::new().pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
