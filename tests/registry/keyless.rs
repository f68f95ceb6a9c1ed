//! Keyless signatures in a registry: valid by the trust root that the user gives, and by no other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::package::Digest;
use haft::package::oci::COMPONENT;
use haft::package::signature::{Trust, TrustRoot, Verdict};
use serde_json::{Value, json};

use super::fake::Fake;
use super::signed::{attach, tag};
use super::{EMPTY, Place, access};
use crate::common::sigstore::{ISSUER, Instance, SLSA};

const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const REPOSITORY: &str = "https://git.example.com/ada/words";
const WORKFLOW: &str = "https://git.example.com/ada/words/.github/workflows/release.yml";

/// A registry with one component, and a Sigstore instance that the user trusts.
struct Scene {
    fake: Fake,
    digest: Digest,
    instance: Instance,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let (fake, instance) = (Fake::honest(), Instance::new());
        let digest = fake.thing("1", COMPONENT, EMPTY);
        let folder = tempfile::tempdir().unwrap();
        instance.trusted_in(folder.path());
        Self { fake, digest, instance, folder }
    }

    /// A statement about the component, by the workflow at `reference`.
    fn bundle(&self, reference: &str, predicate: &str) -> Value {
        let holder = self.instance.certify(&format!("{WORKFLOW}@{reference}"), REPOSITORY);
        self.instance.attest(&holder, predicate, &json!({ "sha256": self.digest.hex() }))
    }

    async fn judged(&self, trust: &Trust) -> Result<Verdict, String> {
        let root = TrustRoot::in_folder(self.folder.path());
        let place = Place::new();
        let pulled = place.pull_by(&self.fake.reference("a/b:1"), &access(), trust, &root).await;
        pulled.map(|pulled| pulled.verdict).map_err(|error| error.to_string())
    }

    /// The reason why haft does not believe the attached statement.
    async fn doubt(&self, bundle: &Value) -> String {
        attach(&self.fake, &self.digest, bundle);
        match self.judged(&Trust::Nobody).await {
            Ok(Verdict::Unchecked(claims)) => claims.join("; "),
            other => panic!("{other:?}"),
        }
    }
}

fn by(identity: &str) -> Trust {
    Trust::Named(format!("sigstore:{identity}").parse().unwrap())
}

#[tokio::test]
async fn a_keyless_signature_is_verified_and_its_identity_is_pinned() {
    let scene = Scene::new();
    for predicate in [SIGN, SLSA] {
        attach(&scene.fake, &scene.digest, &scene.bundle("refs/tags/v1", predicate));
        let verdict = scene.judged(&Trust::Nobody).await.unwrap();
        assert_eq!(verdict.describe(), format!("signed by `{WORKFLOW}`, as `{ISSUER}` knows it"));
        let pinned = verdict.signer().unwrap().clone();
        assert_eq!(pinned.to_string(), format!("sigstore:{ISSUER}#{WORKFLOW}"));
        // Another version has another tag.
        attach(&scene.fake, &scene.digest, &scene.bundle("refs/tags/v2", predicate));
        assert_eq!(scene.judged(&Trust::Pinned(pinned)).await, Ok(verdict));
    }
}

#[tokio::test]
async fn an_identity_that_is_required_admits_no_other() {
    let scene = Scene::new();
    let error = scene.judged(&by(&format!("{ISSUER}#{WORKFLOW}"))).await.unwrap_err();
    assert!(error.contains("it is not signed; you require one by `https://git.example.com/ada"), "{error}");
    attach(&scene.fake, &scene.digest, &scene.bundle("refs/tags/v1", SIGN));
    for right in [WORKFLOW.to_owned(), format!("{WORKFLOW}@refs/tags/v1")] {
        assert!(scene.judged(&by(&format!("{ISSUER}#{right}"))).await.is_ok(), "{right}");
    }
    for (issuer, subject) in [
        (ISSUER, format!("{WORKFLOW}@refs/tags/v2")),
        (ISSUER, REPOSITORY.to_owned()),
        ("https://other.example.com", WORKFLOW.to_owned()),
    ] {
        let error = scene.judged(&by(&format!("{issuer}#{subject}"))).await.unwrap_err();
        assert!(error.contains("it is by `https://git.example.com/ada/words/"), "{error}");
    }
    // Another repository may run the workflow.
    let holder =
        scene.instance.certify(&format!("{WORKFLOW}@refs/tags/v1"), "https://git.example.com/eve/evil");
    let digest = json!({ "sha256": scene.digest.hex() });
    attach(&scene.fake, &scene.digest, &scene.instance.attest(&holder, SLSA, &digest));
    let error = scene.judged(&by(&format!("{ISSUER}#{WORKFLOW}"))).await.unwrap_err();
    assert!(error.contains("it is by `https://git.example.com/eve/evil via https://git"), "{error}");
}

#[tokio::test]
async fn every_part_of_a_keyless_signature_is_verified() {
    let scene = Scene::new();
    let good = scene.bundle("refs/tags/v1", SIGN);
    let said = scene.doubt(&scene.bundle("refs/tags/v1", "https://in-toto.io/attestation/vulns/v0.1")).await;
    assert!(said.contains("its statement is not a provenance statement"), "{said}");
    let about = |digest: &str| {
        let holder = scene.instance.certify(&format!("{WORKFLOW}@refs/heads/main"), REPOSITORY);
        scene.instance.attest(&holder, SIGN, &json!({ "sha256": digest }))
    };
    scene.doubt(&about(Digest::hash(b"other").hex())).await;
    // The same claims with another instance's certificates and log, or without a log.
    scene.doubt(&Scene::new().bundle("refs/tags/v1", SIGN)).await;
    let foreign = Scene::new().bundle("refs/tags/v1", SIGN);
    let mut changes = vec![
        ("/verificationMaterial/certificate", foreign["verificationMaterial"]["certificate"].clone()),
        ("/verificationMaterial/tlogEntries", foreign["verificationMaterial"]["tlogEntries"].clone()),
        ("/verificationMaterial/tlogEntries", json!([])),
        ("/dsseEnvelope/signatures/0/sig", foreign["dsseEnvelope"]["signatures"][0]["sig"].clone()),
        ("/verificationMaterial/tlogEntries/0/integratedTime", json!("1700000001")),
        ("/verificationMaterial/tlogEntries/0/inclusionProof/rootHash", json!(STANDARD.encode([0; 32]))),
        ("/mediaType", json!("x")),
    ];
    let payload = STANDARD.decode(good["dsseEnvelope"]["payload"].as_str().unwrap()).unwrap();
    let payload = String::from_utf8(payload).unwrap().replace("\"x\"", "\"y\"");
    changes.push(("/dsseEnvelope/payload", json!(STANDARD.encode(payload))));
    for (part, value) in changes {
        let mut bundle = good.clone();
        *bundle.pointer_mut(part).unwrap() = value;
        let said = scene.doubt(&bundle).await;
        assert!(
            said.contains("keylessly by `https://") && said.contains(", which is invalid:"),
            "{part}: {said}"
        );
    }
    attach(&scene.fake, &scene.digest, &good);
    assert!(scene.judged(&Trust::Nobody).await.unwrap().signer().is_some());
}

#[tokio::test]
async fn a_trust_root_that_cannot_be_used_makes_nothing_right() {
    let scene = Scene::new();
    let bundle = scene.bundle("refs/tags/v1", SIGN);
    std::fs::write(scene.folder.path().join(TrustRoot::FILE), "{").unwrap();
    let said = scene.doubt(&bundle).await;
    assert!(said.contains("trusted_root.json` is not a trust root: "), "{said}");
    // Without this file Sigstore's own trust root applies, which does not know the test's instance.
    std::fs::remove_file(scene.folder.path().join(TrustRoot::FILE)).unwrap();
    scene.doubt(&bundle).await;
}

#[tokio::test]
async fn a_keyless_signature_in_parts_is_verified_too() {
    let scene = Scene::new();
    let holder = scene.instance.certify(&format!("{WORKFLOW}@refs/tags/v1"), REPOSITORY);
    for (about, is_right) in [(&scene.digest, true), (&Digest::hash(b"other"), false)] {
        let payload = json!({ "critical": { "identity": { "docker-reference": "a/b" },
            "image": { "docker-manifest-digest": about.to_string() }, "type": "cosign container image signature" },
            "optional": null });
        let payload = payload.to_string();
        let (signature, certificate, entry) = scene.instance.sign(&holder, payload.as_bytes());
        let layer = json!({ "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": scene.fake.blob(payload.as_bytes()), "size": payload.len(), "annotations": {
                "dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/certificate": certificate,
                "dev.sigstore.cosign/bundle": entry } });
        let config = json!({ "mediaType": "application/vnd.oci.image.config.v1+json", "digest": scene.fake.blob(b"{}"),
            "size": 2 });
        let signatures = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        scene.fake.manifest(&tag(&scene.digest, ".sig"), &signatures);
        let verdict = scene.judged(&Trust::Nobody).await.unwrap();
        assert_eq!(verdict.signer().is_some(), is_right, "{verdict:?}");
        let is_by = scene.judged(&by(&format!("{ISSUER}#{WORKFLOW}"))).await;
        assert_eq!(is_by.is_ok(), is_right, "{is_by:?}");
    }
}
