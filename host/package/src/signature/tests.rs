use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The key and the signature of `test` from minisign's documentation, made by minisign itself.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
    RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
    trusted comment: timestamp:1633700835\tfile:test\tprehashed\n\
    wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn judged(text: &str, content: &[u8], trust: &Trust) -> Result<Verdict, SignatureError> {
    let file = file(content);
    judge(&[Statement::Minisign(text.to_owned())], Subject::File(file.path()), trust, &TrustRoot::default())
}

fn trust_named(key: &str) -> Trust {
    Trust::Named(Signer::Key(PublicKey::parse(key).unwrap()))
}

#[test]
fn a_file_is_judged_by_the_signature_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tool.wasm");
    let judged = || judge_beside(&path, &trust_named(KEY), &TrustRoot::default());
    std::fs::write(&path, "test").unwrap();
    let unsigned = judged().unwrap_err();
    assert!(matches!(unsigned, SignatureError::Unsigned(_)), "{unsigned}");
    std::fs::write(folder.path().join("tool.wasm.minisig"), SIGNATURE).unwrap();
    assert!(judged().unwrap().signer().is_some());
    std::fs::write(&path, "test, changed").unwrap();
    let changed = judged().unwrap_err();
    assert!(matches!(changed, SignatureError::Other { .. }), "{changed}");
}

/// A key pair for legacy signatures over the complete file.
struct Pair(Ed25519KeyPair);

impl Pair {
    fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn word(&self) -> String {
        STANDARD.encode([b"Ed12345678", self.0.public_key().as_ref()].concat())
    }

    fn sign(&self, content: &[u8]) -> String {
        let signature = self.0.sign(content);
        let both = self.0.sign(&[signature.as_ref(), b"t"].concat());
        let line = STANDARD.encode([b"Ed12345678", signature.as_ref()].concat());
        format!("untrusted comment: x\n{line}\ntrusted comment: t\n{}\n", STANDARD.encode(both.as_ref()))
    }
}

#[test]
fn a_file_is_verified_with_the_key_that_was_given() {
    let verdict = judged(SIGNATURE, b"test", &trust_named(KEY)).unwrap();
    assert_eq!(verdict.signer().unwrap().to_string(), format!("minisign:{KEY}"));
    assert!(verdict.describe().starts_with("signed with the minisign key E7620F1842B4E81F (sha256:"));
    let error = judged(SIGNATURE, b"Test", &trust_named(KEY)).unwrap_err();
    assert!(error.to_string().contains("it is not a signature of this file"), "{error}");
}

#[test]
fn signatures_over_the_whole_file_are_verified_too() {
    let pair = Pair::new();
    let text = pair.sign(b"content");
    assert!(matches!(judged(&text, b"content", &trust_named(&pair.word())), Ok(Verdict::Signed(_))));
    assert!(judged(&text, b"Content", &trust_named(&pair.word())).is_err());
    // The key's owner chooses the identifier: an equal identifier does not mean an equal key.
    let error = judged(&text, b"content", &trust_named(&Pair::new().word())).unwrap_err();
    assert!(error.to_string().contains("it is not a signature of this file"), "{error}");
}

#[test]
fn without_a_key_the_signature_is_told_and_nothing_is_pinned() {
    let verdict = judged(SIGNATURE, b"anything", &Trust::Nobody).unwrap();
    assert_eq!(
        verdict,
        Verdict::Unchecked(vec![
            "with the minisign key E7620F1842B4E81F, which is not checked without the key: `--key`"
                .to_owned()
        ])
    );
    assert_eq!(
        judge(&[], Subject::File(Path::new("/")), &Trust::Nobody, &TrustRoot::default()),
        Ok(Verdict::Unsigned)
    );
}

#[test]
fn a_pin_is_read_back_and_wants_the_same_key() {
    let signer = judged(SIGNATURE, b"test", &trust_named(KEY)).unwrap().signer().unwrap().clone();
    let pinned: Signer = signer.to_string().parse().unwrap();
    assert_eq!(pinned, signer);
    let trust = Trust::Pinned(pinned);
    assert!(judged(SIGNATURE, b"test", &trust).is_ok());
    let other = Pair::new();
    let error = judged(&other.sign(b"test"), b"test", &trust).unwrap_err().to_string();
    assert!(
        error.contains("the installed content is signed with the minisign key E7620F1842B4E81F"),
        "{error}"
    );
    assert!(
        error.contains("found one with the minisign key 3837363534333231: it was made with another key"),
        "{error}"
    );
    let error =
        judge(&[], Subject::File(Path::new("/")), &trust, &TrustRoot::default()).unwrap_err().to_string();
    assert!(error.starts_with("it is not signed; the installed content is signed with"), "{error}");
}

/// A statement that is invalid, about another subject, or of another scheme does not count as signed by the
/// key.
#[test]
fn odd_statements_are_named_and_refused() {
    let long = "x\n".repeat(9);
    for text in
        ["", "x", &long, "a\nb\ntrusted comment: \nc\n", &SIGNATURE.replace("trusted comment: t", "t")]
    {
        assert!(judged(text, b"test", &trust_named(KEY)).is_err(), "{text}");
        assert!(matches!(judged(text, b"test", &Trust::Nobody), Ok(Verdict::Unchecked(_))));
    }
    let digest = Digest::hash(b"x");
    let statement = [Statement::Minisign(SIGNATURE.to_owned())];
    let error =
        judge(&statement, Subject::Manifest(&digest), &trust_named(KEY), &TrustRoot::default()).unwrap_err();
    assert!(error.to_string().contains("it signs other content"), "{error}");
    for bytes in [
        &b""[..],
        b"{}",
        b"[]",
        br#"{"dsseEnvelope":{}}"#,
        br#"{"dsseEnvelope":{"payload":"","payloadType":"","signatures":[]}}"#,
    ] {
        let statement = [Statement::Bundle(bytes.to_vec())];
        assert!(
            judge(&statement, Subject::Manifest(&digest), &trust_named(KEY), &TrustRoot::default()).is_err()
        );
        assert!(judge(&statement, Subject::Manifest(&digest), &Trust::Nobody, &TrustRoot::default()).is_ok());
    }
    let none = Statement::Cosign {
        payload: Vec::new(),
        signature: "!".into(),
        certificate: Some("-----\n".into()),
        entry: None,
    };
    assert!(judge(&[none], Subject::Manifest(&digest), &trust_named(KEY), &TrustRoot::default()).is_err());
}

#[test]
fn only_so_many_statements_are_looked_at() {
    let pair = Pair::new();
    let file = file(b"a");
    let mut statements = vec![Statement::Minisign(String::new()); MAX_STATEMENTS];
    statements.push(Statement::Minisign(pair.sign(b"a")));
    assert!(
        judge(&statements, Subject::File(file.path()), &trust_named(&pair.word()), &TrustRoot::default())
            .is_err()
    );
    statements.swap_remove(0);
    assert!(
        judge(&statements, Subject::File(file.path()), &trust_named(&pair.word()), &TrustRoot::default())
            .is_ok()
    );
}
