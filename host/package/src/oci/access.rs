//! Credentials for registries, and the retries of requests.

use super::credentials::CredentialFiles;
use haft_core::lookup::HostPrograms;
use haft_core::net::Retry;
use haft_core::secret::Redactor;

/// Credentials for registries, and the retries of requests.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The files that hold credentials.
    pub credentials: CredentialFiles,
    /// Redacts every credential that is sent.
    pub redactor: Redactor,
    /// The retries of a failed request.
    pub retry: Retry,
    /// The search path of `git` and of credential helpers.
    pub programs: HostPrograms,
}
