//! The variables and headers of an MCP server, read when the server starts.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;

use haft_core::secret::Redactor;
use haft_manifest::{Manifest, OAuth, SecretSource, Secrets, TextOrSecret};
use haft_mcp::client::Values;
use haft_mcp::client::oauth::OAuthSettings;

/// Variables or headers of program.toml.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) pairs: Vec<(String, TextOrSecret)>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) home: PathBuf,
    pub(super) redactor: Redactor,
}

#[async_trait]
impl Values for Written {
    fn identity(&self) -> String {
        // The text names the sources of secrets, not their values.
        format!("{:?}", self.pairs)
    }

    async fn read(&self) -> Result<Vec<(String, SecretString)>, String> {
        let secrets = Secrets::new(&self.manifest, &self.home, &self.redactor);
        let mut values = Vec::with_capacity(self.pairs.len());
        for (name, value) in &self.pairs {
            let value = match value {
                TextOrSecret::Text(text) => SecretString::from(text.clone()),
                TextOrSecret::Secret(source) => secrets.read(source).await.map_err(|error| {
                    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                    format!("`{name}` is not available: {error}{hint}")
                })?,
            };
            values.push((name.clone(), value));
        }
        Ok(values)
    }
}

/// Returns the login settings of a server.
pub(super) fn settings(
    oauth: &OAuth,
    values: impl Fn(&[(String, TextOrSecret)]) -> Arc<dyn Values>,
) -> OAuthSettings {
    let [secret, key] = secrets(oauth);
    let value = |secret: Vec<_>| (!secret.is_empty()).then(|| values(&secret));
    OAuthSettings {
        client_id: oauth.client_id.clone(),
        client_secret: value(secret),
        private_key: value(key),
        client_credentials: oauth.client_credentials,
        scopes: oauth.scopes.clone(),
        client_metadata_url: oauth.client_metadata_url.clone(),
        callback_port: oauth.callback_port.and_then(|port| port.try_into().ok()),
    }
}

/// Returns the client secret and the private key, each as a named value.
pub(super) fn secrets(oauth: &OAuth) -> [Vec<(String, TextOrSecret)>; 2] {
    let named = |name: &str, source: &Option<SecretSource>| {
        let secret = source.iter().cloned().map(TextOrSecret::Secret);
        secret.map(|secret| (name.to_owned(), secret)).collect()
    };
    [named("client_secret", &oauth.client_secret), named("private_key", &oauth.private_key)]
}
