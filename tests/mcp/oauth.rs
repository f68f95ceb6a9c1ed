//! Logins at servers over HTTP, against a strict authorization server and one with each fault.

use std::any::Any;
use std::collections::BTreeSet;

use tokio::sync::mpsc;

use super::oauth_fake::{Fault, Like, OAuthFake, get, sent_on};
use super::*;
use haft::mcp::client::Account;
use haft::mcp::client::oauth::{Login, LoginError, LoginStore, OAuthSettings, Revoked};

/// A store that several processes share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    login: std::sync::Mutex<Option<Login>>,
    held: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait]
impl LoginStore for Shared {
    async fn read(&self) -> Result<Option<Login>, String> {
        Ok(self.login.lock().unwrap().clone())
    }

    fn place(&self) -> Option<String> {
        self.login.lock().unwrap().as_ref().map(|_| "memory".to_owned())
    }

    async fn write(&self, login: &Login) -> Result<(), String> {
        *self.login.lock().unwrap() = Some(login.clone());
        Ok(())
    }

    async fn remove(&self) -> Result<(), String> {
        *self.login.lock().unwrap() = None;
        Ok(())
    }

    async fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        Ok(Box::new(self.held.clone().lock_owned().await))
    }
}

pub(super) fn account_with(fake: &OAuthFake, store: &Arc<Shared>, settings: OAuthSettings) -> Arc<Account> {
    Account::new("fake", &fake.url(), settings, store.clone(), Redactor::default())
}

fn account_of(fake: &OAuthFake, store: &Arc<Shared>) -> Arc<Account> {
    account_with(fake, store, OAuthSettings::default())
}

/// Logs in, with a user who agrees.
async fn log_in(account: &Arc<Account>, scopes: &[&str]) -> Result<Login, LoginError> {
    let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let begun = account.sign_in(&scopes).await?;
    let url = begun.url().to_owned();
    let browser = tokio::spawn(async move { get(&sent_on(&url).await).await });
    let login = begun.finish(mpsc::channel(1).1, |_| {}).await;
    let shown = browser.await.unwrap();
    assert_eq!(login.is_ok(), shown.starts_with("HTTP/1.1 200"), "{shown}");
    login
}

pub(super) fn used(fake: &OAuthFake, account: &Arc<Account>) -> Fixture {
    let endpoint = Endpoint::Http { url: fake.url(), headers: values(&[]), account: Some(account.clone()) };
    Fixture::of(endpoint, HANG, |host| host)
}

async fn logged_in(like: Like) -> (Arc<OAuthFake>, Arc<Shared>, Arc<Account>) {
    let fake = OAuthFake::start(like).await;
    let store = Arc::new(Shared::default());
    let account = account_of(&fake, &store);
    log_in(&account, &[]).await.unwrap();
    (fake, store, account)
}

/// Without a login the error has the command to log in; haft uses a login, also one of another process.
#[tokio::test]
async fn a_server_that_wants_a_login_is_used_with_one() {
    let fake = OAuthFake::start(Like::default()).await;
    let store = Arc::new(Shared::default());
    let fixture = used(&fake, &account_of(&fake, &store));
    let error = fixture.error("read", json!({})).await;
    assert!(
        error.contains("needs a login: 401, ") && error.contains("\nhint: `haft mcp login fake` logs in"),
        "{error}"
    );
    let login = log_in(&account_of(&fake, &store), &[]).await.unwrap();
    assert_eq!((login.issuer(), login.client_id()), (Some(&*fake.issuer()), "registered"));
    assert_eq!(login.scopes(), ["read"]);
    assert_eq!(fixture.text("read", json!({})).await, "done: read");
    assert!(!format!("{login:?}").contains("-4711-"));
}

/// haft checks the metadata of a server and of its authorization server before it opens a browser.
#[tokio::test]
async fn no_browser_is_opened_for_documents_that_are_wrong() {
    for (fault, expected) in [
        (Fault::Issuer, "the answer is from the authorization server https://other.test"),
        (Fault::Planted, "the authorization server https://other.test, whose metadata has another URL"),
        (Fault::Resource, "resource mismatch"),
        (
            Fault::NoPkce,
            "its authorization server does not announce PKCE with S256; without PKCE an \
            intercepted code would be enough to log in",
        ),
        (
            Fault::PlainPkce,
            "its authorization server does not announce PKCE with S256; without PKCE an \
            intercepted code would be enough to log in",
        ),
        (Fault::Inside, "169.254.169.254"),
    ] {
        let fake = OAuthFake::start(Like { fault, ..Like::default() }).await;
        let store = Arc::new(Shared::default());
        let error = account_of(&fake, &store).sign_in(&[]).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{fault:?}: {error}");
        assert_eq!((fake.count("register"), fake.tokens().len(), store.place()), (0, 0, None), "{fault:?}");
    }
}

/// An answer with a wrong or missing issuer, or a refusal, ends the login; haft sends the code nowhere.
#[tokio::test]
async fn an_answer_of_another_issuer_is_no_login() {
    for (fault, expected) in [
        (Fault::MixUp, "the answer is from the authorization server https://other.test"),
        (Fault::NoIssuer, "the answer does not name its issuer, expected http://127.0.0.1:"),
        (Fault::Refusing, "the authorization server refuses: access_denied not you"),
        (Fault::Redirecting, "token"),
    ] {
        let fake = OAuthFake::start(Like { fault, ..Like::default() }).await;
        let store = Arc::new(Shared::default());
        let error = log_in(&account_of(&fake, &store), &[]).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{fault:?}: {error}");
        assert_eq!((fake.count("code"), store.place()), (0, None), "{fault:?}");
        assert!(fake.seen().is_empty());
        // The probe is one request without a token, for the challenge.
        assert_eq!(fake.count("probe"), 1, "{fault:?}: {:?}", fake.log());
    }
}

/// A token that is a plain word ends the login, and haft does not redact the word.
#[tokio::test]
async fn a_word_is_no_token() {
    let fake = OAuthFake::start(Like { fault: Fault::Word, ..Like::default() }).await;
    let (store, redactor) = (Arc::new(Shared::default()), Redactor::default());
    let settings = OAuthSettings::default();
    let account = Account::new("fake", &fake.url(), settings, store.clone(), redactor.clone());
    let error = log_in(&account, &[]).await.unwrap_err();
    assert!(
        error.to_string().contains("the authorization server sent an invalid token: expected"),
        "{error}"
    );
    assert_eq!((&*redactor.redact("https://a.test"), store.place()), ("https://a.test", None));
}

/// Requests and pasted lines that do not belong to this login do not end it.
#[tokio::test]
async fn what_is_not_of_this_login_does_not_end_it() {
    let fake = OAuthFake::start(Like::default()).await;
    let store = Arc::new(Shared::default());
    let begun = account_of(&fake, &store).sign_in(&[]).await.unwrap();
    let own = sent_on(begun.url()).await;
    let (callback, query) = own.split_once('?').unwrap();
    let forged = [
        format!("{callback}?code=forged&state=forged"),
        format!("{callback}?code=forged"),
        format!("{callback}?error=access_denied"),
        format!("{callback}?{query}&state=twice"),
    ];
    let (paste, pasted) = mpsc::channel(1);
    let other = callback.replace("/callback", "/other");
    let own_line = format!("  {own}\n");
    let person = async {
        for address in forged {
            assert!(get(&address).await.starts_with("HTTP/1.1 400"), "{address}");
            paste.send(address).await.unwrap();
        }
        assert!(get(&other).await.starts_with("HTTP/1.1 404"));
        paste.send("https://elsewhere.test/?state=".to_owned()).await.unwrap();
        paste.send(own_line).await.unwrap();
    };
    let count = std::sync::Mutex::new(0);
    let (login, ()) = tokio::join!(begun.finish(pasted, |_| *count.lock().unwrap() += 1), person);
    login.unwrap();
    assert_eq!((fake.count("code"), *count.lock().unwrap()), (1, 9));
}

/// haft renews an expired token itself. With concurrent renewals, no refresh token is used twice.
#[tokio::test]
async fn renewing_loses_nothing_whoever_renews_at_the_same_time() {
    let (fake, store, _) = logged_in(Like { expires: Some(0), ..Like::default() }).await;
    let mut processes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let process = used(&fake, &account_of(&fake, &store));
        processes.spawn(async move {
            for _ in 0..5 {
                assert_eq!(process.text("read", json!({})).await, "done: read");
            }
        });
    }
    processes.join_all().await;
    assert_eq!(fake.count("reuse"), 0, "{:?}", fake.log());
    assert!(fake.count("refresh") >= 4, "{:?}", fake.log());
    assert!(fake.has_login());
}

/// An outage of the server and its authorization server during a renewal ends no login, whatever their proxy answers.
#[tokio::test]
async fn an_outage_ends_no_login() {
    let (fake, _store, account) = logged_in(Like { expires: Some(0), ..Like::default() }).await;
    let fixture = used(&fake, &account);
    for status in ["503 Service Unavailable", "404 Not Found", "200 OK"] {
        fake.set_outage(Some(status));
        let error = fixture.error("read", json!({})).await;
        assert!(error.contains("its login cannot be used"), "{status}: {error}");
        fake.set_outage(None);
        assert_eq!(fixture.text("read", json!({})).await, "done: read", "{status}");
    }
    assert_eq!((fake.count("reuse"), fake.has_login()), (0, true), "{:?}", fake.log());
}

/// After a login was revoked, the error has the command to log in, and haft does not retry.
#[tokio::test]
async fn a_revoked_login_is_told() {
    let (fake, store, account) = logged_in(Like::default()).await;
    let fixture = used(&fake, &account);
    assert_eq!(fixture.text("read", json!({})).await, "done: read");
    fake.end_all();
    for _ in 0..3 {
        let error = fixture.error("read", json!({})).await;
        assert!(error.contains("`haft mcp login fake` logs in"), "{error}");
    }
    assert_eq!((fake.count("refresh"), fake.count("reuse")), (0, 0), "{:?}", fake.log());
    log_in(&account_of(&fake, &store), &[]).await.unwrap();
    assert_eq!(fixture.text("read", json!({})).await, "done: read");
}

/// If a server accepts no token, the error has the command to log in, and the number of retries is bounded.
#[tokio::test]
async fn a_token_for_another_audience_is_told() {
    let (fake, _store, account) = logged_in(Like { fault: Fault::Audience, ..Like::default() }).await;
    let error = used(&fake, &account).error("read", json!({})).await;
    assert!(error.contains("`haft mcp login fake` logs in"), "{error}");
    assert!(fake.count("refresh") <= 2 && fake.seen().len() <= 6, "{:?} {:?}", fake.log(), fake.seen());
}

/// An error for missing rights has the command with the scope; the next login has the old and the new scopes.
#[tokio::test]
async fn a_login_is_stepped_up() {
    let (fake, store, account) = logged_in(Like::default()).await;
    let fixture = used(&fake, &account);
    let error = fixture.error("write", json!({})).await;
    assert!(error.contains("`haft mcp login fake --scope 'write'` logs in"), "{error}");
    assert_eq!(fake.count("refresh"), 0, "{:?}", fake.log());
    log_in(&account_of(&fake, &store), &["write"]).await.unwrap();
    assert_eq!(fake.count("authorize registered read write"), 1, "{:?}", fake.log());
    // The earlier connection uses the new login too.
    for after in [fixture, used(&fake, &account_of(&fake, &store))] {
        assert_eq!(after.text("write", json!({})).await, "done: write");
        assert_eq!(after.text("read", json!({})).await, "done: read");
    }
}

/// Each of two servers gets only its own tokens.
#[tokio::test]
async fn no_server_is_sent_the_token_of_another_one() {
    let (one, _store, first) = logged_in(Like::default()).await;
    let (two, _other, second) = logged_in(Like::default()).await;
    for (fake, account) in [(&one, &first), (&two, &second)] {
        assert_eq!(used(fake, account).text("read", json!({})).await, "done: read");
    }
    for fake in [&one, &two] {
        let (seen, own): (BTreeSet<_>, BTreeSet<_>) =
            (fake.seen().into_iter().collect(), fake.tokens().into_iter().collect());
        assert!(!seen.is_empty() && seen.is_subset(&own), "{seen:?} {own:?}");
    }
}

/// haft uses a configured client id, else its metadata document, else it registers.
#[tokio::test]
async fn haft_is_known_by_what_comes_first() {
    let document = Some("https://haft.test/client.json".to_owned());
    let by_hand = |client_id: Option<&str>| OAuthSettings {
        client_id: client_id.map(str::to_owned),
        client_metadata_url: document.clone(),
        ..OAuthSettings::default()
    };
    let like = |takes_documents| Like { takes_documents, ..Like::default() };
    for (like, settings, expected) in [
        (like(true), by_hand(Some("by-hand")), "authorize by-hand read"),
        (like(true), by_hand(None), "authorize https://haft.test/client.json read"),
        (like(false), by_hand(None), "authorize registered read"),
    ] {
        let fake = OAuthFake::start(like).await;
        let store = Arc::new(Shared::default());
        log_in(&account_with(&fake, &store, settings), &[]).await.unwrap();
        assert_eq!(fake.count(expected), 1, "{:?}", fake.log());
        assert_eq!(fake.count("register"), usize::from(expected.contains("registered")));
    }
    let fake = OAuthFake::start(Like { registers_nobody: true, ..Like::default() }).await;
    let error = account_of(&fake, &Arc::default()).sign_in(&[]).await.map(|_| ()).unwrap_err();
    assert!(error.hint().unwrap().contains("`client_id`"), "{error}");
}

/// A logout revokes the tokens and removes the login.
#[tokio::test]
async fn logging_out_revokes() {
    let (fake, store, account) = logged_in(Like::default()).await;
    assert!(fake.has_login());
    assert_eq!(account.log_out().await.unwrap(), Some(Revoked::Yes));
    assert_eq!((fake.has_login(), store.place(), fake.count("revoke")), (false, None, 2));
    assert_eq!(account.log_out().await.unwrap(), None);
}
