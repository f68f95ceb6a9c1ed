//! `signer` of an entry of program.toml: content without this signature is neither installed, nor installed again, nor
//! used.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::package::Digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::foreign::archive;
use super::place::{Place, program, saying};

/// A key pair of minisign.
struct Pair(Ed25519KeyPair);

impl Pair {
    fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    /// The line of an entry that requires this key.
    fn signer(&self) -> String {
        let key = STANDARD.encode([b"Ed12345678", self.0.public_key().as_ref()].concat());
        format!("signer = \"minisign:{key}\"\n")
    }

    /// The content of a `.minisig` file.
    fn sign(&self, content: &[u8]) -> String {
        let signature = self.0.sign(content);
        let both = self.0.sign(&[signature.as_ref(), b"t"].concat());
        let line = STANDARD.encode([b"Ed12345678", signature.as_ref()].concat());
        format!("untrusted comment: x\n{line}\ntrusted comment: t\n{}\n", STANDARD.encode(both.as_ref()))
    }
}

const UNSIGNED: &str = "it is not signed; you require one with the minisign key 3837363534333231";

fn fails_to_verify(place: &Place, said: &str) {
    let verified = place.haft(&["verify"]);
    assert!(verified.code == 8 && verified.stdout.contains(said), "{}", verified.stdout);
}

/// A program.lock proves no signature: the signature is checked with the content that haft fetches again.
#[test]
fn a_lock_does_not_replace_the_required_signature() {
    let (place, pair) = (Place::new(), Pair::new());
    let tool = "[[tools]]\nname = \"say\"\ndescription = \"d\"\ncommand = \"echo\"\n";
    let bytes = archive("text", &[("program.toml", &program("text", "1.0.0", tool))]);
    place.write("text.tar.gz", &bytes);
    place.haft(&["add", "./text.tar.gz", "--yes"]).good();
    let has_tool = || place.tools().contains(&"program__text__say".to_owned());
    assert!(has_tool());
    let entry = place.read("program.toml").replace("source =", &format!("{}source =", pair.signer()));
    place.write("program.toml", entry);
    let other = "program.toml requires `text` signed with the minisign key 3837363534333231";
    place.haft(&["add", "--yes"]).ends(5, other);
    fails_to_verify(&place, other);
    assert!(!has_tool(), "the content in the store is not signed");
    // A foreign program.lock names the required signer.
    fs::remove_dir_all(place.store()).unwrap();
    place.haft(&["add", "--yes"]).ends(5, other);
    let lock = place.read("program.lock").replacen("digest =", &format!("{}digest =", pair.signer()), 1);
    place.write("program.lock", lock);
    place.haft(&["add", "--yes"]).ends(5, UNSIGNED);
    assert!(place.kept().is_empty() && !has_tool());
    place.write("text.tar.gz.minisig", pair.sign(&bytes));
    place.haft(&["add", "--yes"]).ends(0, "fetched `text`");
    place.haft(&["verify"]).good();
    assert!(has_tool());
}

/// A local component with `signer` is used once its signature was checked, and is pinned then.
#[test]
fn a_component_with_a_required_signer_is_not_used_without_its_signature() {
    let (place, pair) = (Place::new(), Pair::new());
    let (one, two) = (saying("one"), saying("two"));
    place.write("w.wasm", &one);
    let plugin = format!("[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"\n{}", pair.signer());
    place.write("program.toml", program("work", "1.0.0", &plugin));
    fails_to_verify(&place, "w: it is not installed");
    place.haft(&["add", "--yes"]).ends(5, UNSIGNED);
    let tools = place.haft(&["tools"]);
    assert!(!tools.stdout.contains("w__tiny"), "{}", tools.stdout);
    let problem = "`w` is not installed with the signature that program.toml requires";
    assert!(tools.stderr.contains(problem) && tools.stderr.contains("`haft add` checks"), "{}", tools.stderr);
    place.write("w.wasm.minisig", pair.sign(&one));
    place.haft(&["add", "--yes"]).ends(0, "installed `w`");
    place.haft(&["verify"]).good();
    assert_eq!(place.haft(&["call", "w__tiny"]).good().stdout.trim(), "one");
    // A foreign commit changes the component and its digest.
    place.write("w.wasm", &two);
    let digest = |bytes: &[u8]| Digest::hash(bytes).to_string();
    place.write("program.lock", place.read("program.lock").replace(&digest(&one), &digest(&two)));
    let forged = "it is not a signature of this file";
    place.haft(&["add", "--yes"]).ends(5, forged);
    fails_to_verify(&place, forged);
}
