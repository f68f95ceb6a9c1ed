//! Checks the issuer of a metadata document. A document names its own issuer, so it counts only at the location
//! that this issuer publishes (RFC 8414, section 3.3): otherwise any server could name another issuer and receive
//! codes and tokens for it.

use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;

/// The path of the metadata of authorization servers (RFC 8414, section 3).
const OAUTH: &str = "/.well-known/oauth-authorization-server";
/// The path of the metadata of OIDC providers.
const OPENID: &str = "/.well-known/openid-configuration";

/// Returns the metadata in `body`, read at `url`; `None` if `body` is not metadata, or if the issuer publishes its
/// metadata elsewhere.
pub(super) fn own(url: &Url, body: &[u8]) -> Option<AuthorizationMetadata> {
    let metadata: AuthorizationMetadata = serde_json::from_slice(body).ok()?;
    let issuer = Url::parse(metadata.issuer.as_deref()?).ok()?;
    is_place(&issuer, url).then_some(metadata)
}

/// Returns whether `issuer` has its metadata at `url`. The root of a host is valid for each of its paths; a path is
/// valid only for itself.
fn is_place(issuer: &Url, url: &Url) -> bool {
    let (path, read) = (issuer.path().trim_matches('/'), url.path().trim_end_matches('/'));
    let has_place = match path {
        "" => read == OAUTH || read == OPENID,
        path => {
            read == OAUTH
                || [format!("{OAUTH}/{path}"), format!("{OPENID}/{path}"), format!("/{path}{OPENID}")]
                    .iter()
                    .any(|place| place == read)
        }
    };
    has_place && issuer.origin() == url.origin() && issuer.query().is_none() && issuer.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_own(issuer: &str, url: &str) -> bool {
        let document = json!({
            "issuer": issuer, "authorization_endpoint": "https://a.test/a", "token_endpoint": "https://a.test/t",
        });
        own(&Url::parse(url).unwrap(), document.to_string().as_bytes()).is_some()
    }

    #[test]
    fn metadata_counts_where_its_issuer_has_it() {
        for (issuer, url) in [
            ("https://a.test", "https://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test/", "https://a.test/.well-known/openid-configuration"),
            ("https://a.test/x/", "https://a.test/.well-known/oauth-authorization-server/x"),
            ("https://a.test/x", "https://a.test/.well-known/openid-configuration/x/"),
            ("https://a.test/x/y", "https://a.test/x/y/.well-known/openid-configuration"),
            ("https://a.test/x", "https://a.test/.well-known/oauth-authorization-server"),
        ] {
            assert!(is_own(issuer, url), "{issuer} {url}");
        }
        for (issuer, url) in [
            ("https://a.test", "https://evil.test/.well-known/oauth-authorization-server"),
            ("https://a.test", "https://a.test:444/.well-known/oauth-authorization-server"),
            ("https://a.test", "http://a.test/.well-known/oauth-authorization-server"),
            ("https://a.test", "https://a.test/evil/.well-known/openid-configuration"),
            ("https://a.test", "https://a.test//.well-known/openid-configuration"),
            ("https://a.test", "https://a.test/.well-known/oauth-authorization-server/evil"),
            ("https://a.test/x", "https://a.test/evil/.well-known/openid-configuration"),
            ("https://a.test", "https://a.test/.well-known/planted"),
            ("https://a.test?x", "https://a.test/.well-known/oauth-authorization-server"),
            ("a.test", "https://a.test/.well-known/oauth-authorization-server"),
        ] {
            assert!(!is_own(issuer, url), "{issuer} {url}");
        }
        let nobody =
            json!({ "authorization_endpoint": "https://a.test/a", "token_endpoint": "https://a.test/t" });
        let url = Url::parse("https://a.test/.well-known/oauth-authorization-server").unwrap();
        assert!(own(&url, nobody.to_string().as_bytes()).is_none());
    }
}
