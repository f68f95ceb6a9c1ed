//! Signs requests to AWS and to S3 of others again (Signature Version 4), because a signature by a placeholder is worth
//! nothing. Signs heads alone: the client says in `x-amz-content-sha256` what the body is.

use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use ring::digest::{SHA256, digest};
use ring::hmac::{self, HMAC_SHA256};
use secrecy::{ExposeSecret, SecretString};

use haft_core::encoding::hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const PAYLOAD: &str = "x-amz-content-sha256";
const DATE: &str = "x-amz-date";
/// The beginning of the payload's name if each piece of the body has a signature of its own.
const SIGNED_PIECES: &str = "STREAMING-AWS4-";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsignable {
    /// The header cannot be understood.
    #[error("its header `Authorization` is not one of Signature Version 4")]
    Authorization,
    /// A header that is needed is missing or has several values.
    #[error(
        "the header `{0}` is missing, or not one text; only services that have it, such as S3, are supported"
    )]
    Header(&'static str),
    /// A signed header is missing.
    #[error("a header that it names as signed is missing")]
    Signed,
    /// Every piece of the body is signed.
    #[error(
        "each piece of its body is signed; turn off signed streams (`STREAMING-AWS4-HMAC-SHA256-PAYLOAD`) in the client"
    )]
    Pieces,
}

struct Signed<'h> {
    /// `DATE/REGION/SERVICE/aws4_request`.
    scope: &'h str,
    headers: &'h str,
}

/// Returns whether a request is signed by the access key `id`.
pub(super) fn is_by(headers: &HeaderMap, id: &str) -> bool {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(credential).is_some_and(|credential| credential.split('/').next() == Some(id))
}

/// Replaces the signature of a request by one of the access key `id` and `secret`.
pub(super) fn sign(parts: &mut Parts, id: &str, secret: &SecretString) -> Result<(), Unsignable> {
    let header = text(&parts.headers, AUTHORIZATION.as_str()).ok_or(Unsignable::Authorization)?;
    let signed = parsed(header).ok_or(Unsignable::Authorization)?;
    let date = text(&parts.headers, DATE).ok_or(Unsignable::Header(DATE))?;
    let canonical =
        canonical(&parts.method, parts.uri.path(), parts.uri.query(), (&parts.headers, signed.headers))?;
    let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let scope = signed.scope;
    let signature = signature(secret, scope, &format!("{ALGORITHM}\n{date}\n{scope}\n{hash}"));
    let headers = signed.headers;
    let header =
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={headers}, Signature={signature}");
    let mut value = HeaderValue::try_from(header).map_err(|_| Unsignable::Authorization)?;
    value.set_sensitive(true);
    parts.headers.insert(AUTHORIZATION, value);
    Ok(())
}

fn credential(header: &str) -> Option<&str> {
    field(header.strip_prefix(ALGORITHM)?, "Credential")
}

fn parsed(header: &str) -> Option<Signed<'_>> {
    let (_, scope) = credential(header)?.split_once('/')?;
    let is_scope = scope.split('/').count() == 4 && scope.ends_with("/aws4_request");
    let headers = field(header, "SignedHeaders")?;
    is_scope.then_some(Signed { scope, headers })
}

fn field<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let fields = header.trim_start_matches(ALGORITHM).split(',');
    fields
        .filter_map(|field| field.trim().split_once('='))
        .find(|(own, _)| *own == name)
        .map(|(_, value)| value)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    all.next()?.to_str().ok().filter(|_| all.next().is_none())
}

/// Returns the text that is signed, with the path as it is sent, which is the rule for S3.
fn canonical(
    method: &Method,
    path: &str,
    query: Option<&str>,
    (headers, signed): (&HeaderMap, &str),
) -> Result<String, Unsignable> {
    let payload = text(headers, PAYLOAD).ok_or(Unsignable::Header(PAYLOAD))?;
    if payload.starts_with(SIGNED_PIECES) {
        return Err(Unsignable::Pieces);
    }
    let mut pairs: Vec<(&str, &str)> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let query = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let line = |name: &str| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().ok());
        let values: Vec<&str> = values.collect::<Option<_>>()?;
        let values = values.iter().map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "));
        let values = values.collect::<Vec<_>>().join(",");
        headers.contains_key(name).then(|| format!("{name}:{values}\n"))
    };
    let lines: Option<String> = signed.split(';').map(line).collect();
    let lines = lines.ok_or(Unsignable::Signed)?;
    Ok(format!("{method}\n{path}\n{query}\n{lines}\n{signed}\n{payload}"))
}

fn signature(secret: &SecretString, scope: &str, text: &str) -> String {
    let first = format!("AWS4{}", secret.expose_secret()).into_bytes();
    let sign = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
    };
    let key = scope.split('/').fold(first, |key, part| sign(&key, part));
    hex(&sign(&key, text))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    /// The example "GET Object" of the documentation of S3.
    #[test]
    fn a_request_is_signed_as_the_documentation_does() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let old = "AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=00";
        let request = Request::get("https://examplebucket.s3.amazonaws.com/test.txt")
            .header("host", "examplebucket.s3.amazonaws.com")
            .header("range", "bytes=0-9")
            .header(PAYLOAD, empty)
            .header(DATE, "20130524T000000Z")
            .header(AUTHORIZATION, old);
        let mut parts = request.body(()).unwrap().into_parts().0;
        assert!(is_by(&parts.headers, "AKIAPLACEHOLDER") && !is_by(&parts.headers, "AKIAPLACE"));
        sign(&mut parts, "AKIAIOSFODNN7EXAMPLE", &"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into()).unwrap();
        let made = parts.headers[AUTHORIZATION].to_str().unwrap();
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(
            made.contains("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"),
            "{made}"
        );
        assert!(made.ends_with(&format!("Signature={signature}")), "{made}");
    }

    #[test]
    fn what_cannot_be_signed_is_refused() {
        let signed = |name: &str, value: &str| {
            let old = "AWS4-HMAC-SHA256 Credential=A/20130524/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
            let request = Request::get("https://a.test/")
                .header(AUTHORIZATION, old)
                .header(DATE, "x")
                .header("host", "a");
            let mut parts = request.header(name, value).body(()).unwrap().into_parts().0;
            sign(&mut parts, "B", &"s".into())
        };
        assert_eq!(signed(PAYLOAD, "UNSIGNED-PAYLOAD"), Ok(()));
        assert_eq!(signed(PAYLOAD, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Err(Unsignable::Pieces));
        assert_eq!(signed("x", "y"), Err(Unsignable::Header(PAYLOAD)));
    }
}
