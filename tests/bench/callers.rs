//! The cost of identifying a caller (`[[serve.callers]]`): a token among many, a JSON Web Token that was verified
//! just before, and a new one. Prints a table; no time fails the benchmark. `cargo bench --bench callers`.

#![expect(
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "rounds.rs"]
mod rounds;

use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::callers::{Callers, Proof, Rule};
use haft::manifest::{JwtAlgorithm, JwtTable, KeysAt};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use crate::rounds::rounds;

/// Rounds; each runs every measurement once.
const ROUNDS: usize = 20;

/// Checks in a round.
const CHECKS: usize = 1000;

/// Callers with a token: the limit of haft.
const CALLERS: usize = 64;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

#[expect(clippy::too_many_lines, reason = "one measurement")]
async fn measure() {
    let random = ring::rand::SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let part =
        |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&key.public_key().as_ref()[range]);
    let keys =
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": part(1..33), "y": part(33..65)}]});
    std::fs::write(&file, keys.to_string()).unwrap();
    let token = |subject: usize| {
        let encoded = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let claims =
            json!({"iss": "i", "aud": "a", "sub": format!("s{subject}"), "exp": u32::MAX, "scope": "x y z"});
        let message = format!("{}.{}", encoded(json!({"alg": "ES256", "kid": "k"})), encoded(claims));
        let signature = key.sign(&random, message.as_bytes()).unwrap();
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    };
    let rule = |name: String, proof| Rule {
        name,
        proof,
        calls_per_minute: Some(1_000_000),
        calls_at_once: Some(64),
    };
    let mut rules: Vec<Rule> = (0..CALLERS - 1)
        .map(|number| {
            rule(format!("c{number}"), Proof::Token(format!("a-token-of-the-bench-{number:04}").into()))
        })
        .collect();
    let jwt = JwtTable {
        issuer: "i".into(),
        audience: "a".into(),
        keys: KeysAt::File(file),
        algorithms: vec![JwtAlgorithm::ES256],
        subjects: Vec::new(),
        scopes: vec!["x".into()],
    };
    rules.push(rule("jwt".into(), Proof::Jwt(jwt)));
    let callers = Callers::default();
    callers.replace(rules).await.unwrap();
    let (mut tokens, mut known, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let mut subject = 0;
    for _ in 0..rounds(ROUNDS) {
        tokens
            .push(each(|| drop(callers.recall("a-token-of-the-bench-0062").unwrap().unwrap().begin_call())));
        let first = token(subject);
        callers.verify(&first).await.unwrap();
        known.push(each(|| drop(callers.recall(&first).unwrap().unwrap().begin_call())));
        let others: Vec<String> = (1..=100).map(|number| token(subject + number)).collect();
        let begun = Instant::now();
        for token in &others {
            callers.verify(token).await.unwrap();
        }
        new.push(begun.elapsed().as_secs_f64() * 1e6 / others.len() as f64);
        subject += 101;
    }
    row("a token, of 63 callers, us", tokens);
    row("a JSON Web Token that is known, us", known);
    row("one that is verified (ES256), us", new);
}

fn each(check: impl Fn()) -> f64 {
    let begun = Instant::now();
    (0..CHECKS).for_each(|_| check());
    begun.elapsed().as_secs_f64() * 1e6 / CHECKS as f64
}

fn row(what: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values[(values.len() - 1) * part / 10];
    println!("{what:<38} {:>8.2} ({:.2} to {:.2})", at(5), at(0), at(10));
}
