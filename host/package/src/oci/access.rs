//! Credentials for registries, and how often a request is tried.

use super::credentials::CredentialFiles;
use haft_core::lookup::HostPrograms;
use haft_core::net::Retry;
use haft_core::secret::Redactor;

/// Credentials for registries, and how often a request is tried.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Where credentials are kept.
    pub credentials: CredentialFiles,
    /// What learns every credential before it is sent.
    pub redactor: Redactor,
    /// When a request that failed is sent again.
    pub retry: Retry,
    /// Where `git` and helpers for credentials are found.
    pub programs: HostPrograms,
}
