//! The TLS configuration and the proxy of HTTP clients.

use std::sync::Arc;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Proxy};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use secrecy::ExposeSecret as _;
use url::Url;

use crate::upstream::Upstream;

/// Returns a builder of HTTP clients with the TLS settings and the proxy of this process; without one in program.toml, with
/// that of the environment. No proxy serves a client that `is_local`: for servers on this machine. Redirects are not
/// followed, and nothing is sent again. `secure` is as for [`tls`].
///
/// # Errors
/// The certificates cannot be used.
pub fn client(secure: bool, is_local: bool) -> Result<ClientBuilder, rustls::Error> {
    let builder = Client::builder().tls_backend_preconfigured(tls(secure)?);
    let builder = builder.redirect(Policy::none()).retry(reqwest::retry::never());
    Ok(match Upstream::chosen() {
        _ if is_local => builder.no_proxy(),
        Some(upstream) => builder.proxy(proxy(upstream)),
        None => builder,
    })
}

/// Returns whether a text in PEM has certificates, and nothing that cannot be read.
pub fn has_certificates(pem: &[u8]) -> bool {
    !certificates(pem).is_empty()
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap_or_default()
}

fn proxy(upstream: &'static Upstream) -> Proxy {
    let serves = |url: &Url| url.host_str().and_then(Upstream::of).map(|upstream| upstream.url().clone());
    let proxy = Proxy::custom(serves);
    let login = upstream.authorization().map(|login| HeaderValue::from_str(login.expose_secret()));
    match login {
        Some(Ok(mut login)) => {
            login.set_sensitive(true);
            proxy.custom_http_auth(login)
        }
        _ => proxy,
    }
}

/// Returns a configuration with the system's certificates and those of the proxy or, if only plain HTTP is used, with none:
/// a local server must work on a machine without certificates.
///
/// # Errors
/// The certificates cannot be used.
pub fn tls(secure: bool) -> Result<ClientConfig, rustls::Error> {
    // Passed in, not installed: the embedding program chooses a process-wide provider.
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring.clone()).with_safe_default_protocol_versions()?;
    let mut config = if secure {
        let further = Upstream::chosen().map(|upstream| certificates(&upstream.authorities));
        let verifier = Arc::new(Verifier::new_with_extra_roots(further.unwrap_or_default(), ring)?);
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else {
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
