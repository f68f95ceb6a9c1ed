//! JSON Web Tokens: valid ones of an authorization server, and forged ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::super::Stage;
use super::super::http::{Reply, Site};
use super::{bearer, call, get, journal_with, serve};
use crate::common::wait::until;

const ISSUER: &str = "https://login.example.org";
const AUDIENCE: &str = "https://tools.example.org/mcp";

/// The key of an authorization server.
struct Issuer(Ed25519KeyPair);

fn encoded(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The claims of a token that is valid for an hour, changed by `more`.
fn claims(more: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now() + 3600, "scope": "tools openid",
    });
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

impl Issuer {
    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn public(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.public_key())
    }

    fn keys(&self, id: &str) -> Value {
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": id, "x": self.public()}]})
    }

    fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A valid token, apart from the claims in `more`.
    fn token(&self, more: &Value) -> String {
        self.signed(&header("k1"), &claims(more))
    }
}

fn header(id: &str) -> Value {
    json!({"alg": "EdDSA", "typ": "at+jwt", "kid": id})
}

/// A program whose callers have tokens of an issuer.
fn stage(keys: &str, more: &str) -> Stage {
    Stage::new(&format!(
        "[[serve.callers]]\nname = \"team\"\ntools = [\"guest__echo\"]\n\n[serve.callers.jwt]\nissuer = \"{ISSUER}\"\n\
         audience = \"{AUDIENCE}\"\n{keys}\n{more}\n"
    ))
}

fn list(site: &Site, token: &str) -> Reply {
    site.modern(&[("authorization", &bearer(token))], "tools/list", json!({}))
}

/// A program that reads the keys of `issuer` from a file.
fn with_file(issuer: &Issuer, more: &str) -> (Stage, Site) {
    let stage = stage("jwks_file = \"keys.json\"", more);
    std::fs::write(stage.path("keys.json"), issuer.keys("k1").to_string()).unwrap();
    let site = serve(&stage);
    (stage, site)
}

#[test]
fn a_token_of_the_issuer_is_a_caller_s() {
    let issuer = Issuer::new(1);
    let (stage, site) = with_file(&issuer, "scopes = [\"tools\"]");
    for good in [
        json!({}),
        json!({"aud": ["other", AUDIENCE]}),
        json!({"scope": null, "scp": ["tools"]}),
        json!({"nbf": now() + 10, "exp": now() + 60}),
        json!({"exp": now() - 10}),
    ] {
        assert_eq!(list(&site, &issuer.token(&good)).status, 200, "{good}");
    }
    let token = issuer.token(&json!({}));
    for _ in 0..3 {
        let answer = call(&site, &token, "guest__echo", &json!({"text": "x"}));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    let wrong = call(&site, &token, "guest__env", &json!({}));
    assert!(wrong["error"]["message"].as_str().unwrap().starts_with("Unknown tool"), "{wrong}");
    assert!(journal_with(&stage, "team/ada", 3).iter().all(|line| line["caller"] == "team/ada"));
}

#[expect(clippy::too_many_lines, reason = "a list")]
/// haft refuses tokens with a wrong signature, issuer, audience or time, and tokens that it does not understand.
#[test]
fn hostile_tokens_are_nobody_s() {
    let (issuer, other) = (Issuer::new(1), Issuer::new(2));
    let (_stage, site) = with_file(&issuer, "subjects = [\"ada\"]");
    let good = issuer.token(&json!({}));
    assert_eq!(list(&site, &good).status, 200);
    let none = |alg: &str| {
        let message =
            format!("{}.{}", encoded(&json!({"alg": alg, "kid": "k1"})), encoded(&claims(&json!({}))));
        [format!("{message}."), message.clone(), format!("{message}.x")]
    };
    let shared = {
        let message =
            format!("{}.{}", encoded(&json!({"alg": "HS256", "kid": "k1"})), encoded(&claims(&json!({}))));
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.0.public_key().as_ref());
        let signature = hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    };
    let (head, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let changed = format!("{head}.{}.{signature}", encoded(&claims(&json!({"sub": "root"}))));
    let embedded = json!({"alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": other.public()}});
    let with = |more: Value| issuer.token(&more);
    let mut hostile = vec![
        ("a shared secret", shared),
        ("other claims", changed),
        ("another key", other.token(&json!({}))),
        ("another key in the header", other.signed(&embedded, &claims(&json!({})))),
        ("a key that is not there", issuer.signed(&header("k2"), &claims(&json!({})))),
        ("another audience", with(json!({"aud": "https://other.example.org"}))),
        ("no audience", with(json!({"aud": null}))),
        ("another issuer", with(json!({"iss": "https://evil.example.org"}))),
        ("no issuer", with(json!({"iss": null}))),
        ("expired", with(json!({"exp": now() - 60}))),
        ("never expires", with(json!({"exp": null}))),
        ("expires in words", with(json!({"exp": "tomorrow"}))),
        ("it is not valid yet", with(json!({"nbf": now() + 120}))),
        ("not good in words", with(json!({"nbf": "now"}))),
        ("another subject", with(json!({"sub": "bob"}))),
        ("no subject", with(json!({"sub": null}))),
        ("bound to a key", with(json!({"cnf": {"jkt": "x"}}))),
        (
            "not understood",
            issuer.signed(
                &json!({"alg": "EdDSA", "kid": "k1", "crit": ["b64"], "b64": true}),
                &claims(&json!({})),
            ),
        ),
        (
            "no access token",
            issuer.signed(&json!({"alg": "EdDSA", "kid": "k1", "typ": "logout+jwt"}), &claims(&json!({}))),
        ),
        (
            "an algorithm of another key",
            issuer.signed(&json!({"alg": "ES256", "kid": "k1"}), &claims(&json!({}))),
        ),
        ("too long", with(json!({"groups": "x".repeat(20_000)}))),
    ];
    hostile.extend(
        ["none", "None", "NONE", ""].iter().flat_map(|alg| none(alg)).map(|token| ("no algorithm", token)),
    );
    for (what, token) in hostile {
        let reply = list(&site, &token);
        assert_eq!(reply.status, 401, "{what}: {reply:?}");
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
        assert!(!reply.body.contains(&token), "{what}");
    }
    assert_eq!(list(&site, &good).status, 200);
}

/// RFC 9728 and RFC 6750: a client gets the metadata that it needs to obtain a token.
#[test]
fn clients_are_told_where_tokens_come_from() {
    let issuer = Issuer::new(1);
    let more = format!("scopes = [\"tools\", \"write\"]\n[serve]\nurl = \"{AUDIENCE}\"");
    let (_stage, site) = with_file(&issuer, &more);
    let own = [("host", "tools.example.org"), ("authorization", "")];
    let reply = site.modern(&own, "tools/list", json!({}));
    assert_eq!(reply.status, 401);
    assert_eq!(
        reply.header("www-authenticate").unwrap(),
        "Bearer realm=\"haft\", \
         resource_metadata=\"https://tools.example.org/.well-known/oauth-protected-resource/mcp\""
    );
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let reply = get(&site, path);
        let metadata: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((reply.status, &metadata["resource"]), (200, &json!(AUDIENCE)));
        assert_eq!(metadata["authorization_servers"], json!([ISSUER]));
        assert_eq!(metadata["scopes_supported"], json!(["tools", "write"]));
    }
    assert_eq!(get(&site, "/.well-known/oauth-protected-resource/other").status, 401);
    let reply = list(&site, &issuer.token(&json!({})));
    let challenge = reply.header("www-authenticate").unwrap();
    assert_eq!(reply.status, 403, "{reply:?}");
    assert!(challenge.contains("error=\"insufficient_scope\", scope=\"tools write\""), "{challenge}");
}

/// An authorization server's key endpoint, which can be unavailable.
struct KeyServer {
    url: String,
    asked: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl KeyServer {
    fn start(keys: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (asked, is_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (counted, away, body) = (asked.clone(), is_away.clone(), keys.to_string());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                answer(stream.unwrap(), (!away.load(Ordering::SeqCst)).then_some(body.as_str()));
            }
        });
        Self { url, asked, is_away }
    }
}

fn answer(mut stream: TcpStream, body: Option<&str>) {
    let mut head = [0; 4096];
    let _ = stream.read(&mut head);
    let status = if body.is_some() { "200 OK" } else { "503 Service Unavailable" };
    let body = body.unwrap_or_default();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// If keys are unavailable, haft answers at once, requests them rarely, and uses them once they are available.
#[test]
fn keys_that_are_away_are_no_reason_to_let_anybody_in() {
    let issuer = Issuer::new(1);
    let server = KeyServer::start(&issuer.keys("k1"));
    let stage = stage(&format!("jwks_url = \"{}\"", server.url), "");
    let site = serve(&stage);
    let good = issuer.token(&json!({}));
    let forged = (2..22).map(|seed| Issuer::new(seed).token(&json!({})));
    for token in std::iter::once(good.clone()).chain(forged) {
        let reply = list(&site, &token);
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("10")), "{reply:?}");
    }
    // A slow machine may need longer than the pause after a failed request.
    let asked = server.asked.load(Ordering::SeqCst);
    assert!(asked < 5, "every token has haft ask: {asked}");
    server.is_away.store(false, Ordering::SeqCst);
    until("the keys are there", || list(&site, &good).status == 200);
    let asked = server.asked.load(Ordering::SeqCst);
    server.is_away.store(true, Ordering::SeqCst);
    for number in 0..50 {
        let unknown = issuer.signed(&header(&format!("unknown-{number}")), &claims(&json!({})));
        assert_eq!(list(&site, &unknown).status, 401);
    }
    assert_eq!(list(&site, &issuer.token(&json!({"sub": "eve"}))).status, 200, "known keys go on");
    assert_eq!(server.asked.load(Ordering::SeqCst), asked, "nobody can have haft ask again and again");
}
