//! Packages from OCI registries and to them. Trusts no registry for what was fetched from it, and
//! shows a credential to none but the one it was stored for.
//!
//! - [`Reference`]: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`. Only this machine is spoken to
//!   without TLS.
//! - [`pull()`], [`describe`], [`resolve`]: a manifest, its one layer ([`Content`]), who signed it.
//! - [`push()`]: a component or an archive, so that other clients can read it.
//!
//! The protocol is the distribution specification's, a handful of requests, spoken here and not by
//! another's client: every answer has a bound, redirects and places for tokens are judged before
//! anything is sent there, and nothing is asked for ever.

mod challenge;
mod content;
mod credentials;
mod error;
mod exchange;
mod helper;
mod manifest;
mod pull;
mod push;
mod reference;
mod registry;
mod signatures;
mod token;

use std::path::PathBuf;

pub use self::content::{COMPONENT, Content, PACKAGE};
pub use self::credentials::CredentialFiles;
pub use self::error::{Failure, OciError};
pub use self::pull::{Described, describe, resolve};
pub use self::push::{Publication, Pushed, push};
pub use self::reference::{DEFAULT_TAG, NotAReference, Reference, SCHEME};
use super::signature::{Subject, Verdict, judge};
use super::{Digest, FetchError, Fetching};
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

/// What a registry gave.
#[derive(Debug)]
pub struct Pulled {
    /// The file, in [`Fetching::directory`].
    pub file: PathBuf,
    /// What the registry says it is. The bytes themselves decide.
    pub content: Content,
    /// Of the manifest or the index that the reference stands for: what is signed, and what to pin.
    pub digest: Digest,
    /// Of the file.
    pub layer: Digest,
    /// Bytes of the file.
    pub size: u64,
    /// Who signed it, as far as that could be checked.
    pub verdict: Verdict,
}

/// What a fetched layer is called in [`Fetching::directory`].
const FILE: &str = "layer";

/// Fetches the one layer of `reference` to a file of at most [`MAX_SIZE`](super::MAX_SIZE) bytes in
/// [`Fetching::directory`]: counted, compared with the manifest's digest, and signed as
/// [`Fetching::trust`] has it.
pub async fn pull(reference: &Reference, fetching: &Fetching<'_>) -> Result<Pulled, FetchError> {
    let file = fetching.directory.join(FILE);
    let described = pull::fetch(reference, &file, fetching.access, &fetching.progress).await?;
    let judged = judge(&described.statements, Subject::Manifest(&described.digest), fetching.trust);
    let verdict = judged.map_err(|error| {
        // What is not signed as it has to be is not to be found by anybody.
        let _ = std::fs::remove_file(&file);
        FetchError::Signature { what: reference.to_string(), error }
    })?;
    let Described { content, digest, layer, size, .. } = described;
    Ok(Pulled { file, content, digest, layer, size, verdict })
}
