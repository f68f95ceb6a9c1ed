//! The TLS configuration of every HTTP client of haft: rustls, `ring` and the certificates of the system.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// Returns a configuration with the system's certificates or, if only plain HTTP is used, with none: a local server
/// must work on a machine without certificates.
pub fn tls(secure: bool) -> Result<ClientConfig, rustls::Error> {
    // Passed in, not installed: the embedding program chooses a process-wide provider.
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    let builder = if secure {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
