//! The login at one server, as its requests use it: the current token, and a renewed one if it is refused. A token
//! is renewed once for all calls and all processes: the store is locked meanwhile, and a token that another process
//! renewed is used.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Url;
use rmcp::transport::auth::{AuthError, AuthorizationManager, CredentialStore, InMemoryCredentialStore};
use secrecy::{ExposeSecret, SecretString};

use super::exchange::{Exchange, TOKEN};
use super::login::revoke;
use super::{Login, LoginError, LoginStore, OAuthSettings, Revoked, misplaced};
use crate::client::ServerError;
use crate::client::address::parse_url;
use haft_core::secret::Redactor;

/// Maximum number of bytes of the tokens of one account that one process learns: the redactor stores all of them, and
/// an authorization server may return a new token with each request.
const MAX_LEARNED: usize = 8 << 20;

/// The login at one server.
pub struct Account {
    /// The server's name in program.toml.
    server: String,
    url: String,
    pub(super) settings: OAuthSettings,
    store: Arc<dyn LoginStore>,
    pub(super) redactor: Redactor,
    /// The total size in bytes of the tokens that the redactor has learned.
    learned: Arc<AtomicUsize>,
    current: tokio::sync::Mutex<Current>,
}

/// The state of the login in this process.
#[derive(Default)]
struct Current {
    is_read: bool,
    login: Option<Login>,
    /// The token of a login that can no longer be renewed.
    dead: Option<SecretString>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("server", &self.server)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Account {
    /// Returns the login at the server `server`, which answers at `url`. Reads nothing yet.
    pub fn new(
        server: &str,
        url: &str,
        settings: OAuthSettings,
        store: Arc<dyn LoginStore>,
        redactor: Redactor,
    ) -> Arc<Self> {
        let (server, url) = (server.to_owned(), url.to_owned());
        let (learned, current) = (Arc::default(), tokio::sync::Mutex::default());
        Arc::new(Self { server, url, settings, store, redactor, learned, current })
    }

    /// Returns the server's name in program.toml.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the stored login; `None` without a login.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn login(&self) -> Result<Option<Login>, LoginError> {
        let login = self.store.read().await.map_err(LoginError::new)?;
        self.redactor.add(&login.as_ref().map(Login::secrets).unwrap_or_default());
        Ok(login)
    }

    /// Returns the location of the stored login, as text.
    pub fn place(&self) -> Option<String> {
        self.store.place()
    }

    /// Replaces the stored login by `login`. Refuses invalid tokens.
    pub(super) async fn keep(&self, login: &Login) -> Result<(), LoginError> {
        if !login.has_tokens() {
            let why = format!("the authorization server sent an invalid token: expected {TOKEN}");
            return Err(LoginError::new(why));
        }
        self.redactor.add(&login.secrets());
        self.store.write(login).await.map_err(LoginError::new)
    }

    /// Revokes the stored login, if the authorization server supports that (RFC 7009), and removes it in any case;
    /// `None` if none is stored.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn log_out(&self) -> Result<Option<Revoked>, LoginError> {
        let _held = self.store.hold().await.map_err(LoginError::new)?;
        let Some(login) = self.login().await? else { return Ok(None) };
        let revoked = match self.exchange() {
            Ok(exchange) => revoke(&exchange, &login).await,
            Err(error) => Revoked::No(error.to_string()),
        };
        self.store.remove().await.map_err(LoginError::new)?;
        Ok(Some(revoked))
    }

    /// Locks the store, so that no other process changes it.
    pub(super) async fn hold(&self) -> Result<impl Send, LoginError> {
        self.store.hold().await.map_err(LoginError::new)
    }

    pub(super) fn url(&self) -> Result<Url, LoginError> {
        parse_url(&self.url).map_err(|error| LoginError::new(error.to_string()))
    }

    pub(super) fn exchange(&self) -> Result<Exchange, LoginError> {
        self.exchange_with(&self.url()?)
    }

    /// Returns an HTTP client for requests that lead to addresses of the kind of `server`.
    pub(super) fn exchange_with(&self, server: &Url) -> Result<Exchange, LoginError> {
        if self.learned.load(Ordering::Relaxed) > MAX_LEARNED {
            let why = format!(
                "the authorization server has sent {} MiB of tokens since the start of haft",
                MAX_LEARNED >> 20
            );
            return Err(LoginError::new(why).with_hint("restart haft"));
        }
        Exchange::new(server, self.redactor.clone(), self.learned.clone())
    }

    /// Returns the token to send; `None` without a login. A token that expires soon is renewed.
    pub(in crate::client) async fn token(self: &Arc<Self>) -> Result<Option<SecretString>, ServerError> {
        let mut current = self.current.lock().await;
        if !current.is_read {
            current.login = self.login().await.map_err(|error| lost(&error))?;
            current.is_read = true;
        }
        let old = match &current.login {
            None if self.settings.is_unattended() => None,
            None => return Ok(None),
            Some(login) if login.lasts() || !self.renews(login) => return Ok(login.token()),
            Some(login) => login.token(),
        };
        drop(current);
        self.another(old).await
    }

    /// Returns a token that replaces `old`, which the server refuses: a token that another process stored, or a renewed
    /// one; `None` if the user has to log in. The new token is stored even if the caller stops waiting, because `old`
    /// is void.
    pub(in crate::client) async fn another(
        self: &Arc<Self>,
        old: Option<SecretString>,
    ) -> Result<Option<SecretString>, ServerError> {
        let own = self.clone();
        let renewing = tokio::spawn(async move { own.renewed(old.as_ref()).await });
        renewing.await.unwrap_or(Err(ServerError::Closed))
    }

    /// Returns the token of a login that the user made since `old`, from the store alone.
    pub(in crate::client) async fn newer(
        &self,
        old: Option<&SecretString>,
    ) -> Result<Option<SecretString>, ServerError> {
        let mut current = self.current.lock().await;
        let read = self.login().await.map_err(|error| lost(&error))?.filter(|login| !login.has(old));
        Ok(read.and_then(|login| current.login.insert(login).token()))
    }

    async fn renewed(&self, old: Option<&SecretString>) -> Result<Option<SecretString>, ServerError> {
        let mut current = self.current.lock().await;
        if let Some(other) = current.login.as_ref().filter(|login| !login.has(old)) {
            return Ok(other.token());
        }
        let _held = self.hold().await.map_err(|error| lost(&error))?;
        current.login = self.login().await.map_err(|error| lost(&error))?;
        current.is_read = true;
        let dead = current.dead.clone();
        let read = current.login.take().filter(|login| dead.is_none() || !login.has(dead.as_ref()));
        let Some(login) = read else {
            if !self.settings.is_unattended() {
                return Ok(None);
            }
            let login = self.service_login().await.map_err(|error| lost(&error))?;
            return Ok(current.login.insert(login).token());
        };
        if !login.has(old) {
            return Ok(current.login.insert(login).token());
        }
        if !self.renews(&login) {
            current.dead = login.token();
            return Ok(None);
        }
        let renewed =
            if login.is_renewable() { self.refreshed(&login).await } else { self.service_login().await };
        match renewed {
            Ok(new) => Ok(current.login.insert(new).token()),
            Err(error) if error.is_refusal() => {
                tracing::info!(server = self.server, %error, "the login has expired");
                current.dead = login.token();
                Ok(None)
            }
            Err(error) => {
                current.login = Some(login);
                Err(lost(&error))
            }
        }
    }

    fn renews(&self, login: &Login) -> bool {
        self.settings.is_unattended() || login.is_renewable()
    }

    /// Renews `login` (RFC 6749, section 6) at its own authorization server.
    async fn refreshed(&self, login: &Login) -> Result<Login, LoginError> {
        let url = self.url()?;
        let exchange = Arc::new(self.exchange()?);
        let mut manager = AuthorizationManager::new_with_oauth_http_client(url, exchange.clone()).await?;
        let found = manager.resolve_metadata().await?;
        // The page of a proxy during an outage is no metadata either, so the login may be valid.
        if !found.source.is_discovered() {
            let why = "its authorization server cannot be found now: the server has no OAuth metadata";
            return Err(LoginError::new(why));
        }
        let metadata = found.metadata;
        if metadata.issuer.as_deref() != login.issuer() {
            return Err(AuthError::AuthorizationServerMismatch {
                expected_issuer: login.issuer().unwrap_or_default().to_owned(),
                received_issuer: metadata.issuer.unwrap_or_default(),
            }
            .into());
        }
        if !exchange.has_read(&metadata) {
            return Err(misplaced(&metadata));
        }
        manager.set_metadata(metadata);
        manager.configure_client(login.client.config())?;
        let credentials = InMemoryCredentialStore::new();
        credentials.save(login.credentials.clone()).await?;
        manager.set_credential_store(credentials.clone());
        manager.refresh_token().await?;
        let credentials = credentials.load().await?.ok_or(AuthError::AuthorizationRequired)?;
        let new = Login { credentials, ..login.clone() };
        self.keep(&new).await?;
        Ok(new)
    }

    /// Returns the reason why the server refuses the sent token; `scopes` are those that it names.
    pub(in crate::client) fn refusal(&self, said: String, scopes: Option<String>) -> ServerError {
        ServerError::Login { server: self.server.clone(), said, scopes }
    }

    /// Returns an identity, equal for equal settings, without a secret. `None` without settings.
    pub(in crate::client) fn identity(&self) -> Option<String> {
        let own = self.settings.identity();
        (own != OAuthSettings::default().identity()).then_some(own)
    }

    pub(super) async fn secret(&self, name: &str) -> Result<Option<String>, LoginError> {
        let Some(values) = &self.settings.secrets else { return Ok(None) };
        let values = values.read().await.map_err(LoginError::new)?;
        let secret = values.iter().find(|(own, _)| own == name);
        Ok(secret.map(|(_, secret)| secret.expose_secret().to_owned()))
    }
}

fn lost(error: &LoginError) -> ServerError {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    ServerError::Unreachable(format!("its login cannot be used: {error}{hint}"))
}
