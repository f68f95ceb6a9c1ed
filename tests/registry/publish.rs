//! Publishing: the artifacts that other clients read, uploaded in an order in which no client finds an incomplete
//! one.

use std::collections::BTreeMap;

use haft::package::oci::{
    Access, COMPONENT, Content, CredentialFiles, Failure, PACKAGE, Publication, push, resolve,
};
use haft::package::signature::Trust;
use haft::package::{Digest, Progress};
use serde_json::{Value, json};

use super::fake::{Fake, Reply, reply};
use super::{EMPTY, Place, access};

fn publication(place: &Place, content: Content, bytes: &[u8]) -> Publication {
    let version = ("org.opencontainers.image.version".to_owned(), "1.0.0".to_owned());
    Publication {
        content,
        file: place.file("words.wasm", bytes),
        annotations: [version].into(),
        imports: vec!["wasi:io/poll@0.2.0".to_owned()],
        exports: vec!["a:b/c".to_owned()],
    }
}

#[tokio::test]
async fn a_component_is_published_as_others_read_it() {
    let fake = Fake::honest();
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let reference = fake.reference("a/b:1.0");
    let pushed = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap();
    let manifest: Value = {
        let kept = fake.kept.lock().unwrap();
        serde_json::from_slice(&kept.manifests["a/b/1.0"].1).unwrap()
    };
    assert_eq!(manifest["layers"][0]["mediaType"], COMPONENT);
    assert_eq!(manifest["layers"][0]["digest"], Digest::hash(EMPTY).to_string());
    assert_eq!(manifest["layers"][0]["annotations"]["org.opencontainers.image.title"], "words.wasm");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1.0.0");
    let config: Value = {
        let kept = fake.kept.lock().unwrap();
        serde_json::from_slice(&kept.blobs[manifest["config"]["digest"].as_str().unwrap()]).unwrap()
    };
    assert_eq!(config["os"], "wasip2");
    assert_eq!(
        config["component"],
        json!({ "exports": ["a:b/c"], "imports": ["wasi:io/poll@0.2.0"], "target": null })
    );

    let got = Place::new();
    let pulled = got.pull(&reference, &access(), &Trust::Nobody).await.unwrap();
    assert_eq!(
        (pulled.digest, pulled.layer, pulled.content),
        (pushed.digest, pushed.layer, Content::Component)
    );
}

/// A repeated push has the same digest, and sends nothing; a push under another tag sends only the manifest.
#[tokio::test]
async fn what_is_there_is_not_sent_again() {
    let fake = Fake::honest();
    let place = Place::new();
    let publication = publication(&place, Content::Archive, b"an archive");
    let reference = fake.reference("a/b:1.0");
    let first = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap();
    let sent = |fake: &Fake| fake.seen().iter().filter(|asked| asked.method == "PUT").count();
    let before = sent(&fake);
    let again = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap();
    assert!(again.was_there && !first.was_there);
    assert_eq!((again.digest, sent(&fake)), (first.digest.clone(), before));
    let elsewhere =
        push(&fake.reference("a/b:2.0"), &publication, false, &access(), &Progress::default()).await;
    assert_eq!((elsewhere.unwrap().digest, sent(&fake)), (first.digest, before + 1));
    let kept = fake.kept.lock().unwrap();
    let manifest: Value = serde_json::from_slice(&kept.manifests["a/b/1.0"].1).unwrap();
    assert_eq!(
        (&manifest["artifactType"], &manifest["layers"][0]["mediaType"]),
        (&json!(PACKAGE), &json!(PACKAGE))
    );
}

#[tokio::test]
async fn a_tag_that_is_something_else_is_replaced_only_on_demand() {
    let fake = Fake::honest();
    let there = fake.thing("1.0", COMPONENT, b"other");
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let reference = fake.reference("a/b:1.0");
    let error = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap_err();
    assert!(matches!(&error.failure, Failure::Exists { found, .. } if *found == there), "{error}");
    assert!(error.hint().unwrap().contains("--force"));
    assert_eq!(resolve(&reference, &access()).await.unwrap(), Some(there));
    let pushed = push(&reference, &publication, true, &access(), &Progress::default()).await.unwrap();
    assert_eq!(resolve(&reference, &access()).await.unwrap(), Some(pushed.digest));
}

/// CL04: haft uploads to the registry alone, and follows no redirect of an upload.
#[tokio::test]
async fn an_upload_goes_nowhere_else() {
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let elsewhere = Fake::honest();
    let location = format!("http://{}/v2/a/b/blobs/uploads/1", elsewhere.address);
    let fake = Fake::lying(move |asked, _| {
        asked
            .is("POST", "/uploads/")
            .then(|| Reply::Full(202, vec![("location", location.clone())], Vec::new()))
    });
    let reference = fake.reference("a/b:1");
    let error = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap_err();
    assert!(error.to_string().contains("published content is sent only to the registry itself"), "{error}");
    assert!(elsewhere.seen().is_empty());
    let fake = Fake::lying(|asked, _| asked.is("PUT", "").then(|| super::fake::redirect("/v2/x")));
    let error = push(&fake.reference("a/b:1"), &publication, false, &access(), &Progress::default()).await;
    assert!(error.unwrap_err().to_string().contains("requests that change the registry follow no redirects"));
}

/// haft compares the registry's copy after a push, and reports a missing or different one.
#[tokio::test]
async fn what_the_registry_keeps_is_compared() {
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let fake = Fake::lying(|asked, _| asked.is("PUT", "/manifests/").then(|| reply(201, "")));
    let error = push(&fake.reference("a/b:1"), &publication, true, &access(), &Progress::default()).await;
    assert!(error.unwrap_err().to_string().contains("not found in the registry"));
    let fake = Fake::lying(|asked, _| asked.is("PUT", "/manifests/").then(|| reply(201, "")));
    fake.thing("1", COMPONENT, b"other");
    let error = push(&fake.reference("a/b:1"), &publication, true, &access(), &Progress::default()).await;
    assert!(error.unwrap_err().to_string().contains("the registry's copy has the digest"));
}

/// The error of a refused push names the login.
#[tokio::test]
async fn a_push_that_is_not_allowed_says_as_whom() {
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let fake = Fake::lying(|asked, _| {
        asked.is("POST", "").then(|| reply(403, r#"{ "errors": [{ "message": "read only" }] }"#))
    });
    let files = Place::new();
    let stored: BTreeMap<String, Value> =
        BTreeMap::from([(fake.address.to_string(), json!({ "auth": "dTpw" }))]);
    let file = files.file("auth.json", json!({ "auths": stored }).to_string().as_bytes());
    let access = Access { credentials: CredentialFiles::at([file]), ..access() };
    let error =
        push(&fake.reference("a/b:1"), &publication, false, &access, &Progress::default()).await.unwrap_err();
    assert!(
        error.to_string().ends_with("the registry does not accept a request without a login: read only"),
        "{error}"
    );
}
