//! The login of a user: discovery, client registration, the authorization URL, and the browser's response. Each
//! response is bound to this login by its state, its issuer and the PKCE verifier; another response is ignored or
//! ends the login, and nothing is stored before a token is issued.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore, InMemoryCredentialStore,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::exchange::{Exchange, TOKEN, is_token};
use super::login::Client;
use super::{Account, Login, LoginError, misplaced, no_pkce};
use crate::client::calls::shortened;
use haft_core::tool::foreign;

/// haft's name in a client registration.
const NAME: &str = "haft";

/// The path that the browser is sent back to.
const PATH: &str = "/callback";
/// Maximum number of bytes of a request's head: codes of some servers have 2 KiB.
const MAX_HEAD: usize = 32 << 10;
/// Maximum number of concurrent connections. Browsers open some that they do not use.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time for a connection to send its request, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A login that waits for the user.
pub struct SignIn {
    account: Arc<Account>,
    manager: AuthorizationManager,
    /// The store in which rmcp saves the tokens.
    credentials: InMemoryCredentialStore,
    client: Client,
    revocation: Option<String>,
    issuer: Option<String>,
    callback: Callback,
    url: String,
    state: String,
}

/// The meaning of a redirect for a login.
#[derive(Debug)]
enum Step {
    /// The completed login.
    Done(Box<Login>),
    /// Ignored, for this reason: the login continues to wait.
    Passed(&'static str),
}

impl Account {
    /// Begins a login, for the existing or usual scopes and `more`.
    ///
    /// # Errors
    /// The server does not name its authorization server, or this does not meet MCP's requirements.
    pub async fn sign_in(self: &Arc<Self>, more: &[String]) -> Result<SignIn, LoginError> {
        if self.settings.is_unattended() {
            let why = "haft logs in without a person, when it uses the server (`client_credentials` or \
                       `identity_provider` of its entry)";
            return Err(LoginError::new(why));
        }
        let (exchange, mut manager, metadata) = self.discover().await?;
        check(&exchange, &metadata).await?;
        let (issuer, revocation) = (metadata.issuer.clone(), endpoint(&metadata, "revocation_endpoint"));
        let callback = Callback::open(self.settings.callback_port).await;
        let callback = callback.map_err(|error| {
            LoginError::new(format!("cannot open the port for the browser's redirect: {error}"))
        })?;
        let scopes = self.scopes(&manager, issuer.as_deref(), more).await?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = self.identify(&mut manager, &metadata, (&callback.address(), &scopes)).await?;
        let credentials = InMemoryCredentialStore::new();
        manager.set_credential_store(credentials.clone());
        let url = manager.get_authorization_url(&scopes).await?;
        let state = parameter(&url, "state").unwrap_or_default();
        let account = self.clone();
        Ok(SignIn { account, manager, credentials, client, revocation, issuer, callback, url, state })
    }

    /// Returns an HTTP client for a login, and the authorization server that the MCP server names, if that publishes its
    /// metadata.
    pub(super) async fn discover(
        &self,
    ) -> Result<(Arc<Exchange>, AuthorizationManager, AuthorizationMetadata), LoginError> {
        let exchange = Arc::new(self.exchange()?);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(self.url()?, exchange.clone()).await?;
        let challenge = self.challenge(&exchange).await?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        if !found.source.is_discovered() {
            return Err(LoginError::new("it has no OAuth metadata, so its login page is unknown")
                .with_hint("if the server needs a key, set `headers` in its entry"));
        }
        if !exchange.has_read(&found.metadata) {
            return Err(misplaced(&found.metadata));
        }
        manager.set_metadata(found.metadata.clone());
        Ok((exchange, manager, found.metadata))
    }

    /// Requests the server without a token and returns its challenge: the authorization server, and the scopes.
    async fn challenge(&self, exchange: &Exchange) -> Result<Option<String>, LoginError> {
        for method in ["initialize", "tools/list"] {
            let client = json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") });
            let parameters =
                json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
            let request = exchange.post(self.url()?).header(ACCEPT, "application/json, text/event-stream");
            let Ok(request) = request.json(&message).build() else { continue };
            let answer = exchange.send(request).await;
            let answer = answer.map_err(|error| LoginError::new(format!("the server gives {error}")))?;
            if answer.status() == reqwest::StatusCode::UNAUTHORIZED {
                return Ok(bearer(answer.headers()));
            }
        }
        Ok(None)
    }

    /// Returns the requested scopes: those of program.toml, or those that the server requires; with `more` and the
    /// current scopes.
    pub(super) async fn scopes(
        &self,
        manager: &AuthorizationManager,
        issuer: Option<&str>,
        more: &[String],
    ) -> Result<Vec<String>, LoginError> {
        let mut scopes = match self.settings.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            written => written.to_vec(),
        };
        if !more.is_empty() {
            let before = self.login().await?.filter(|login| login.issuer() == issuer);
            scopes.extend(before.iter().flat_map(Login::scopes).chain(more).cloned());
            let mut seen = std::collections::HashSet::new();
            scopes.retain(|scope| seen.insert(scope.clone()));
        }
        Ok(scopes)
    }

    /// Determines haft's client id: registered by hand, by its metadata document, or registered now.
    async fn identify(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        (redirect, scopes): (&str, &[&str]),
    ) -> Result<Client, LoginError> {
        let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        let document = self.settings.client_metadata_url.as_ref();
        let document = document.filter(|_| takes_documents == Some(&Value::Bool(true)));
        let (id, secret) = match (&self.settings.client_id, document) {
            (Some(id), _) => (id, self.secret("client_secret").await?),
            (None, Some(document)) => (document, None),
            (None, None) => {
                if metadata.registration_endpoint.is_none() {
                    return Err(AuthError::RegistrationFailed(
                        "it does not support dynamic client registration".to_owned(),
                    )
                    .into());
                }
                // Some know the scopes of a resource in a request for it alone.
                let registered = match manager.register_client(NAME, redirect, scopes).await {
                    Err(AuthError::RegistrationFailed(_)) if !scopes.is_empty() => {
                        manager.register_client(NAME, redirect, &[]).await?
                    }
                    registered => registered?,
                };
                if registered.client_secret.as_deref().is_some_and(|secret| !is_token(secret)) {
                    let why = format!("the authorization server sent an invalid secret: expected {TOKEN}");
                    return Err(LoginError::new(why));
                }
                return Ok(registered.into());
            }
        };
        let client = Client { id: id.clone(), secret, redirect: redirect.to_owned() };
        manager.configure_client(client.config())?;
        Ok(client)
    }
}

impl SignIn {
    /// Returns the URL that the user opens in a browser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the user: for the browser, or for the redirect URL from `pasted` if the browser is on another
    /// machine. `told` gets texts that are not such a URL.
    ///
    /// # Errors
    /// The user or the authorization server refused, or the response does not belong to this login.
    pub async fn finish(
        self,
        mut pasted: mpsc::Receiver<String>,
        told: impl Fn(&str),
    ) -> Result<Login, LoginError> {
        loop {
            let (address, browser) = tokio::select! {
                (address, browser) = self.callback.next() => (address, Some(browser)),
                Some(address) = pasted.recv() => (address, None),
            };
            let step = self.take(&address).await;
            if let Some(browser) = browser {
                let (status, line) = match &step {
                    Ok(Step::Done(_)) => ("200 OK", "You are logged in. You can close this window."),
                    Ok(Step::Passed(_)) => {
                        ("400 Bad Request", "This login does not belong to the current request.")
                    }
                    Err(_) => ("400 Bad Request", "The login failed; see haft's terminal for the reason."),
                };
                browser.answer(status, line).await;
            }
            match step? {
                Step::Done(login) => return Ok(*login),
                Step::Passed(why) => told(why),
            }
        }
    }

    /// Processes the address that the browser was redirected to.
    async fn take(&self, address: &str) -> Result<Step, LoginError> {
        let address = address.trim();
        if parameter(address, "state").as_deref() != Some(&self.state) {
            return Ok(Step::Passed("that is not the redirect address of this login"));
        }
        let issuer = parameter(address, "iss");
        if let Some(error) = parameter(address, "error") {
            let more = parameter(address, "error_description").unwrap_or_default();
            let said = shortened(format!("{error} {more}"));
            return Err(LoginError::new(format!(
                "the authorization server refuses: {}",
                foreign(said.trim_end())
            )));
        }
        let Some(code) = parameter(address, "code") else {
            return Ok(Step::Passed("the address has no code"));
        };
        if is_token(&code) {
            self.account.redactor.add(&[SecretString::from(code.clone())]);
        }
        let exchange =
            self.manager.exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref());
        exchange.await?;
        let credentials = self.credentials.load().await?.ok_or(AuthError::AuthorizationRequired)?;
        let login = Login { client: self.client.clone(), credentials, revocation: self.revocation.clone() };
        debug_assert_eq!(login.issuer(), self.issuer.as_deref(), "it belongs to another login");
        let _held = self.account.hold().await?;
        self.account.keep(&login).await?;
        Ok(Step::Done(Box::new(login)))
    }
}

/// Checks that the metadata meet MCP's requirements for a login of a person.
async fn check(exchange: &Exchange, metadata: &AuthorizationMetadata) -> Result<(), LoginError> {
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(no_pkce());
    }
    let address = Url::parse(&metadata.authorization_endpoint);
    let address = address
        .map_err(|error| LoginError::new(format!("the address for the browser is invalid: {error}")))?;
    exchange.judge(&address).await
}

pub(super) fn endpoint(metadata: &AuthorizationMetadata, name: &str) -> Option<String> {
    metadata.additional_fields.get(name)?.as_str().map(str::to_owned)
}

/// Returns the most informative challenge: of several the one that names metadata.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<&str> = all.filter(|value| value.to_ascii_lowercase().contains("bearer")).collect();
    let best = all.iter().find(|value| value.contains("resource_metadata")).or(all.first());
    best.map(|value| (*value).to_owned())
}

/// Returns a parameter of a URL's query; `None` if it occurs twice, because two parsers would read different
/// values.
fn parameter(address: &str, name: &str) -> Option<String> {
    let address = Url::parse(address).ok()?;
    let mut values =
        address.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    values.next().filter(|_| values.next().is_none())
}

/// The redirect URI of a login: a port of 127.0.0.1 that is open while a user logs in (RFC 8252, section 7.3). Returns the
/// browser's query and does not check it.
struct Callback {
    port: u16,
    found: Mutex<mpsc::Receiver<(String, Browser)>>,
    accepting: AbortHandle,
}

impl Callback {
    /// Opens `port`, or any free port.
    async fn open(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        let (send, found) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, port, send)).abort_handle();
        Ok(Self { port, found: Mutex::new(found), accepting })
    }

    /// Returns the redirect URI for the authorization server.
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Returns the next requested address, and the connection to the browser.
    async fn next(&self) -> (String, Browser) {
        match self.found.lock().await.recv().await {
            Some(found) => found,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, port: u16, found: mpsc::Sender<(String, Browser)>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { return };
        let found = found.clone();
        tokio::spawn(async move {
            let mut stream = stream;
            let target = timeout(PATIENCE, target(&mut stream)).await.ok().flatten();
            let browser = Browser(stream);
            match target {
                Some(target) if target.split('?').next() == Some(PATH) => {
                    // A send without a receiver fails.
                    let _ = found.send((format!("http://127.0.0.1:{port}{target}"), browser)).await;
                }
                Some(_) => browser.answer("404 Not Found", "Not found.").await,
                None => {}
            }
            drop(place);
        });
    }
}

/// Returns the target of the request, if it is a GET.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(piece.get(..count)?);
        if head.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    Some(target.to_owned())
}

/// A browser that waits for an answer.
struct Browser(TcpStream);

impl Browser {
    /// Shows the user a line.
    async fn answer(mut self, status: &str, line: &str) {
        let page = format!("<!doctype html><title>haft</title><p>{line}</p>");
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
             connection: close\r\n\r\n",
            page.len()
        );
        // The login does not depend on the browser, which may have disconnected.
        let _ = timeout(PATIENCE, self.0.write_all((head + &page).as_bytes())).await;
        let _ = timeout(PATIENCE, self.0.shutdown()).await;
    }
}
