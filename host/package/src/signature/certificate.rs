//! The claims of a certificate about its subject. They are shown as claims only: the issuer is not checked, so
//! anyone could have made the certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The DER object identifier of the extension with the subject's names (RFC 5280, 4.2.1.6).
const SUBJECT: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
/// The DER object identifier of Fulcio's extension with the identity provider (1.3.6.1.4.1.57264.1.1).
const ISSUER: &[u8] = &[0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xbf, 0x30, 0x01, 0x01];

/// DER tags: an octet string, a sequence, and two kinds of names: an e-mail address and a URI.
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const EMAIL: u8 = 0x81;
const URI: u8 = 0x86;
/// `critical: true`, which may precede an extension's value.
const CRITICAL: &[u8] = &[0x01, 0x01, 0xff];

/// Limit on the characters of a name that are shown.
const MAX_NAME: usize = 200;

/// Returns the claims of a certificate in PEM.
pub(super) fn claim_of_pem(pem: &str) -> String {
    let body = pem.split("-----").nth(2).unwrap_or_default();
    let body: String = body.split_ascii_whitespace().collect();
    claim(&STANDARD.decode(body).unwrap_or_default())
}

/// Returns the claims of a certificate in DER.
pub(super) fn claim(der: &[u8]) -> String {
    let issuer = extension(der, ISSUER).and_then(name);
    let issuer = issuer.map(|issuer| format!(" (known to `{issuer}`)")).unwrap_or_default();
    match extension(der, SUBJECT).and_then(subject) {
        Some(subject) => format!("keylessly by `{subject}`{issuer}, which haft cannot verify"),
        None => "keylessly by somebody, which haft cannot verify".to_owned(),
    }
}

/// Returns the value of the first extension with this identifier, at any position.
fn extension<'a>(der: &'a [u8], identifier: &[u8]) -> Option<&'a [u8]> {
    let at = der.windows(identifier.len()).position(|window| window == identifier)?;
    let rest = der.get(at + identifier.len()..)?;
    value(rest.strip_prefix(CRITICAL).unwrap_or(rest), OCTETS)
}

/// Returns the first name in a list of names.
fn subject(list: &[u8]) -> Option<String> {
    let names = value(list, SEQUENCE)?;
    value(names, EMAIL).or_else(|| value(names, URI)).and_then(name)
}

/// Returns the value with the tag `tag` at the start of `der`.
fn value(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, rest) = der.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    rest.get(..length)
}

/// Returns a name that is safe to show.
fn name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = !text.is_empty() && !text.contains(|c: char| c.is_control() || c == '`');
    is_plain.then(|| text.chars().take(MAX_NAME).collect())
}
