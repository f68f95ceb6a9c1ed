//! A login by a company's identity provider: the person's token becomes an assertion there, and an access token at the
//! server's authorization server. The provider is a fake on loopback, as strict as RFC 8693 and the ID-JAG draft.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use haft::mcp::client::oauth::{IdentityProvider, OAuthSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::http_fake::{json_response, read, response};
use super::oauth::{Shared, account_with, used};
use super::oauth_fake::{Like, OAuthFake, pairs};
use super::*;

/// The person's ID token, until it is revoked.
const ID_TOKEN: &str = "header.the-person-of-the-company.signature";

/// Starts the provider, and returns its issuer. It accepts `token` for the server of `fake`.
async fn start_provider(fake: Arc<OAuthFake>, token: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let own = issuer.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (fake, own) = (fake.clone(), own.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some((first, headers, body)) = read(&mut stream).await {
                    let answer = match &*first {
                        "GET /.well-known/openid-configuration" => json_response(
                            "",
                            &json!({
                                "issuer": own, "authorization_endpoint": format!("{own}/authorize"),
                                "token_endpoint": format!("{own}/token"),
                            }),
                        ),
                        "POST /token" => {
                            let basic = BASE64_STANDARD.encode("haft-at-idp:the-secret-at-the-provider");
                            assert_eq!(headers["authorization"], format!("Basic {basic}"));
                            exchanged(&pairs(&body), &fake, &own, token)
                        }
                        _ => response("404 Not Found", "", ""),
                    };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    issuer
}

/// Returns an assertion for the person's token.
fn exchanged(
    form: &std::collections::BTreeMap<String, String>,
    fake: &OAuthFake,
    issuer: &str,
    token: &str,
) -> String {
    let kind = |name: &str| form[name].rsplit_once(':').unwrap().1.to_owned();
    assert_eq!(
        (kind("grant_type"), kind("requested_token_type"), kind("subject_token_type")),
        ("token-exchange".into(), "id-jag".into(), "id_token".into())
    );
    assert_eq!((&form["audience"], &form["resource"]), (&fake.issuer(), &fake.url()));
    if form["subject_token"] != token {
        let refused = json!({ "error": "invalid_grant" }).to_string();
        return response("400 Bad Request", "content-type: application/json\r\n", &refused);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let header = json!({ "alg": "ES256", "typ": "oauth-id-jag+jwt" });
    let claims = json!({
        "iss": issuer, "sub": "person", "aud": form["audience"], "client_id": "haft-at-server", "jti": "1",
        "exp": now + 300, "iat": now, "resource": form["resource"], "scope": form["scope"],
    });
    let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let assertion = format!("{}.{}.c2lnbmF0dXJl", encoded(&header), encoded(&claims));
    let kind = "urn:ietf:params:oauth:token-type:id-jag";
    json_response("", &json!({ "access_token": assertion, "issued_token_type": kind, "token_type": "N_A" }))
}

fn settings(issuer: String) -> OAuthSettings {
    OAuthSettings {
        client_id: Some("haft-at-server".to_owned()),
        secrets: Some(values(&[
            ("client_secret", "the-secret-at-the-server"),
            ("identity_provider.client_secret", "the-secret-at-the-provider"),
            ("id_token", ID_TOKEN),
        ])),
        identity_provider: Some(IdentityProvider { issuer, client_id: "haft-at-idp".to_owned() }),
        ..OAuthSettings::default()
    }
}

/// The server's tools work without a login of the person; a refused token names the person's way out.
#[tokio::test]
async fn an_identity_provider_logs_in() {
    let fake = OAuthFake::start(Like::default()).await;
    let issuer = start_provider(fake.clone(), ID_TOKEN).await;
    let account = account_with(&fake, &Arc::new(Shared::default()), settings(issuer.clone()));
    let fixture = used(&fake, &account);
    assert_eq!(fixture.call("read", json!({})).await.unwrap().content, "done: read");
    assert_eq!((fake.count("assertion"), fake.count("code")), (1, 0), "{:?}", fake.log());
    // A new token for a refused one, from the same source.
    fake.end_all();
    assert_eq!(fixture.call("read", json!({})).await.unwrap().content, "done: read");
    assert_eq!(fake.count("assertion"), 2, "{:?}", fake.log());

    let issuer = start_provider(fake.clone(), "another token").await;
    let account = account_with(&fake, &Arc::new(Shared::default()), settings(issuer));
    let error = used(&fake, &account).call("read", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("has expired or was revoked") && error.contains("`id_token`"), "{error}");
}
