//! The variables and headers of an MCP server, read when the server starts.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;

use haft_core::secret::Redactor;
use haft_manifest::{Manifest, Secrets, TextOrSecret};
use haft_mcp::client::Values;

/// Variables or headers, as program.toml has them.
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
        // Secrets are represented by their sources.
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
