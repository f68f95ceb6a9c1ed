//! The variables and headers of an MCP server, read when the server starts.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;

use haft_core::secret::Redactor;
use haft_manifest::{Manifest, OAuth, SecretError, Secrets, TextOrSecret};
use haft_mcp::client::Values;
use haft_mcp::client::oauth::{IdentityProvider, OAuthSettings};

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
            let value = secrets.value(value).await;
            let unavailable =
                |error: SecretError| format!("`{name}` is not available: {}", error.with_hint());
            values.push((name.clone(), value.map_err(unavailable)?));
        }
        Ok(values)
    }
}

/// Returns the login settings of a server.
pub(super) fn settings(
    oauth: &OAuth,
    values: impl Fn(&[(String, TextOrSecret)]) -> Arc<dyn Values>,
) -> OAuthSettings {
    let secrets = secrets(oauth);
    OAuthSettings {
        client_id: oauth.client_id.clone(),
        secrets: (!secrets.is_empty()).then(|| values(&secrets)),
        identity_provider: oauth.identity_provider.as_ref().map(|provider| IdentityProvider {
            issuer: provider.issuer.clone(),
            client_id: provider.client_id.clone(),
        }),
        client_credentials: oauth.client_credentials,
        scopes: oauth.scopes.clone(),
        client_metadata_url: oauth.client_metadata_url.clone(),
        callback_port: oauth.callback_port.and_then(|port| port.try_into().ok()),
    }
}

/// Returns the secrets of the login as named values.
pub(super) fn secrets(oauth: &OAuth) -> Vec<(String, TextOrSecret)> {
    let secrets = oauth.secrets();
    secrets.map(|(name, source)| (name.to_owned(), TextOrSecret::Secret(source.clone()))).collect()
}
