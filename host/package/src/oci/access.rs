//! As whom registries are asked, and how often.

use super::credentials::CredentialFiles;
use haft_core::net::Retry;
use haft_core::secret::Redactor;

/// As whom registries are asked, and how often.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Where credentials are kept.
    pub credentials: CredentialFiles,
    /// What learns every credential before it is sent.
    pub redactor: Redactor,
    /// When a request that failed is sent again.
    pub retry: Retry,
}
