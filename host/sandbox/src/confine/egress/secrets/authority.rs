//! The certificate authority of one child, which no other process trusts. Its keys are in haft's memory alone.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use haft_core::sync::Lock;

/// The variables with which programs find their certificate authorities: OpenSSL, Go, Ruby and Rust; Node.js and Bun;
/// Python's requests, pip and httplib2; curl; git; Cargo; AWS; Deno; gcloud; Perl; gRPC; Nix.
pub(super) const CA_VARIABLES: &[&str] = &[
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "HTTPLIB2_CA_CERTS",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "PERL_LWP_SSL_CA_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
];
/// Limit on the certificates of one child: each name of a pattern has one.
const MAX_NAMES: usize = 256;
/// Limit on a file of certificates, in bytes: those of systems have 300 KB.
const MAX_FILE: u64 = 4 << 20;
/// Characters of a line of PEM.
const PEM_LINE: usize = 64;

pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The key of all names.
    key: KeyPair,
    configs: Lock<HashMap<String, Arc<ServerConfig>>>,
}

impl Authority {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let mut params = params(Vec::new(), "haft: certificate authority of one process")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer, key: KeyPair::generate()?, configs: Lock::default() })
    }

    /// Returns the certificates that the child trusts: those of this system, and this authority.
    pub(super) fn bundle(&self) -> String {
        static SYSTEM: OnceLock<String> = OnceLock::new();
        format!("{}{}", SYSTEM.get_or_init(of_system), self.issuer.pem())
    }

    /// Returns the configuration of the server `name`, a host name or an address without brackets.
    pub(super) fn config(&self, name: &str) -> anyhow::Result<Arc<ServerConfig>> {
        if let Some(known) = self.configs.lock().get(name) {
            return Ok(known.clone());
        }
        let mut params = params(vec![name.to_owned()], name)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(anyhow::Error::msg)?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let mut configs = self.configs.lock();
        if configs.len() < MAX_NAMES {
            configs.insert(name.to_owned(), config.clone());
        }
        Ok(config)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(names: Vec<String>, title: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, title);
    // The authority is gone with its child; the dates only have to be around every clock's.
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2049, 12, 31));
    Ok(params)
}

/// Returns the certificates of the system, and of the files that haft's environment names for some programs.
fn of_system() -> String {
    let found = rustls_native_certs::load_native_certs();
    let mut all: String = found.certs.iter().map(pem).collect();
    for file in CA_VARIABLES.iter().skip(1).filter_map(env::var_os) {
        let is_small = std::fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE);
        let text = is_small.then(|| std::fs::read_to_string(&file).ok()).flatten();
        all.extend(text.into_iter().flat_map(|text| [text, "\n".to_owned()]));
    }
    all
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for (at, character) in BASE64_STANDARD.encode(certificate).chars().enumerate() {
        if at > 0 && at.is_multiple_of(PEM_LINE) {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem + "\n-----END CERTIFICATE-----\n"
}
