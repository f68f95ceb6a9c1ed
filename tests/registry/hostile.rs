//! Registries with wrong content, loops, endless answers and foreign redirects. Each causes one error, and leaves no
//! content.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::package::Digest;
use haft::package::oci::{COMPONENT, CredentialFiles, PACKAGE};
use haft::package::signature::Trust;
use serde_json::json;

use super::fake::{Fake, Kept, Reply, Request, redirect, reply};
use super::{EMPTY, Place, access};
use crate::common::wait::within;

/// The error of a pull of `a/b:1` from a registry with this fault. The pull must leave no content.
async fn refusal(lie: impl Fn(&Request, &Kept) -> Option<Reply> + Send + Sync + 'static) -> String {
    let fake = Fake::lying(lie);
    fake.thing("1", COMPONENT, EMPTY);
    refused(&fake, "a/b:1").await
}

async fn refused(fake: &Fake, rest: &str) -> String {
    let place = Place::new();
    let error = place.pull(&fake.reference(rest), &access(), &Trust::Nobody).await.unwrap_err();
    assert_eq!(place.left(), 0, "{error}");
    error.to_string()
}

#[tokio::test]
async fn an_honest_registry_is_believed_once_everything_was_counted() {
    let fake = Fake::honest();
    let digest = fake.thing("1", COMPONENT, EMPTY);
    let place = Place::new();
    let pulled = place.pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap();
    assert_eq!(std::fs::read(&pulled.file).unwrap(), EMPTY);
    assert_eq!((pulled.digest, pulled.layer), (digest.clone(), Digest::hash(EMPTY)));
    let again = Place::new();
    again.pull(&fake.reference(&format!("a/b@{digest}")), &access(), &Trust::Nobody).await.unwrap();
}

/// PR08: a layer with another digest than in the manifest is refused.
#[tokio::test]
async fn a_wrong_layer_is_refused() {
    let other = b"\0asm\x0d\0\x01\x01";
    let error = refusal(move |asked, _| asked.is("GET", "/blobs/").then(|| reply(200, *other))).await;
    assert!(
        error.contains("the layer has the digest") && error.contains(&Digest::hash(other).to_string()),
        "{error}"
    );
}

/// PR08: a layer with another size than in the manifest is refused, also without a length and after a broken
/// connection.
#[tokio::test]
async fn a_layer_of_another_size_is_refused() {
    for (body, found) in [(&b"\0asm\x0d\0\x01"[..], "7"), (b"\0asm\x0d\0\x01\0\0", "9")] {
        let error = refusal(move |asked, _| asked.is("GET", "/blobs/").then(|| reply(200, body))).await;
        assert!(error.contains(&format!("the layer has {found} bytes, but the manifest has 8")), "{error}");
    }
    // Without a length haft compares the size during the download.
    let error = refusal(|asked, _| asked.is("GET", "/blobs/").then(|| Reply::Endless(String::new()))).await;
    assert!(error.contains("the layer has more bytes, but the manifest has 8"), "{error}");
    let short = |asked: &Request, _: &Kept| {
        asked.is("GET", "/blobs/").then(|| Reply::Broken(String::new(), EMPTY[..4].to_vec()))
    };
    let error = refusal(short).await;
    assert!(error.contains("the layer has 4 bytes, but the manifest has 8"), "{error}");
}

/// PR08: a layer with a size above the limit is refused before its download.
#[tokio::test]
async fn a_layer_that_announces_too_much_is_not_fetched() {
    let fake = Fake::honest();
    let digest = fake.blob(EMPTY);
    let layer = json!({ "mediaType": COMPONENT, "digest": digest, "size": 300_u64 << 20 });
    fake.manifest("1", &json!({ "schemaVersion": 2, "config": layer, "layers": [layer] }));
    let error = refused(&fake, "a/b:1").await;
    assert!(error.contains("the layer is larger than 268435456 bytes"), "{error}");
    assert!(!fake.seen().iter().any(|asked| asked.is("GET", "/blobs/")));
}

/// PR08: a manifest that is too large, is not JSON, or has another digest than its header is refused.
#[tokio::test]
async fn a_manifest_is_bounded_and_counted() {
    let refused = refusal(|asked, _| asked.is("GET", "/manifests/1").then(|| Reply::Endless(String::new())));
    let error = within("it is refused", refused).await;
    assert!(error.contains("the manifest is larger than 4194304 bytes"), "{error}");
    let html = |asked: &Request, _: &Kept| {
        asked.is("GET", "/manifests/1").then(|| reply(200, "<html>welcome</html>"))
    };
    assert!(refusal(html).await.contains("the manifest is not JSON but a page of HTML"));
    let lie = |asked: &Request, kept: &Kept| {
        let (_, bytes) = kept.manifests.get("a/b/1")?;
        let header = vec![("docker-content-digest", Digest::hash(b"other").to_string())];
        asked.is("GET", "/manifests/1").then(|| Reply::Full(200, header, bytes.clone()))
    };
    assert!(refusal(lie).await.contains("the manifest has the digest"));
}

/// PR08: a manifest with another digest than the requested one is refused.
#[tokio::test]
async fn another_manifest_than_the_pinned_is_refused() {
    let fake = Fake::lying(|asked, kept| {
        let (_, bytes) = kept.manifests.get("a/b/1")?;
        asked.is("GET", "/manifests/sha256").then(|| reply(200, bytes.clone()))
    });
    fake.thing("1", COMPONENT, EMPTY);
    let digest = Digest::hash(b"something else");
    let error = refused(&fake, &format!("a/b@{digest}")).await;
    assert!(error.contains("the manifest has the digest") && error.contains(&digest.to_string()), "{error}");
}

#[tokio::test]
async fn what_is_no_plugin_says_what_it_is() {
    let fake = Fake::honest();
    fake.thing("text", "text/plain", b"hello");
    assert!(refused(&fake, "a/b:text").await.contains("a layer of the type `text/plain`"));
    let layer = json!({ "mediaType": COMPONENT, "digest": fake.blob(EMPTY), "size": 8 });
    fake.manifest("two", &json!({ "schemaVersion": 2, "config": layer, "layers": [layer, layer] }));
    assert!(refused(&fake, "a/b:two").await.contains("has 2 layers; expected one component or one package"));
    fake.manifest("none", &json!({ "schemaVersion": 2, "config": layer, "layers": [] }));
    assert!(refused(&fake, "a/b:none").await.contains("has no layers"));
    let layer = json!({ "mediaType": COMPONENT, "digest": "../../etc/passwd", "size": 8 });
    fake.manifest("digest", &json!({ "schemaVersion": 2, "config": layer, "layers": [layer] }));
    assert!(refused(&fake, "a/b:digest").await.contains("has the invalid digest `../../etc/passwd`"));
    assert!(refused(&fake, "a/b:missing").await.contains("not found in the registry"));
}

#[tokio::test]
async fn an_index_leads_to_its_manifest_for_webassembly() {
    let fake = Fake::honest();
    let wasm = fake.thing("1", COMPONENT, EMPTY);
    let entry = |digest: &Digest, os: &str| {
        json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest.to_string(), "size": 1,
            "platform": { "architecture": "x", "os": os } })
    };
    let index = |entries: &[serde_json::Value]| json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries });
    let other = Digest::hash(b"other");
    let top = fake.manifest("index", &index(&[entry(&other, "linux"), entry(&wasm, "wasip2")]));
    let place = Place::new();
    let pulled = place.pull(&fake.reference("a/b:index"), &access(), &Trust::Nobody).await.unwrap();
    assert_eq!((pulled.digest, pulled.layer), (top.clone(), Digest::hash(EMPTY)));
    fake.manifest("linux", &index(&[entry(&other, "linux"), entry(&other, "windows")]));
    assert!(
        refused(&fake, "a/b:linux").await.contains("is an index of 2 manifests (`linux/x`, `windows/x`)")
    );
    fake.manifest("deep", &index(&[entry(&top, "wasip2")]));
    assert!(refused(&fake, "a/b:deep").await.contains("is an index of indexes"));
}

/// haft follows a limited number of redirects, and none to a forbidden URL.
#[tokio::test]
async fn redirects_are_judged_and_bounded() {
    let loops = |asked: &Request, _: &Kept| asked.is("GET", "/blobs/").then(|| redirect(&asked.path));
    assert!(refusal(loops).await.contains("too many redirects"));
    for (target, expected) in [
        ("http://example.test/x?signature=secret", "`http://example.test/x`: a redirect from TLS"),
        ("file:///etc/passwd", "`file:///etc/passwd`"),
        ("http://user:pass@127.0.0.1/", "holds a user name or a password"),
        ("https://[::zz]/", "not a valid URL"),
    ] {
        let error = refusal(move |asked, _| asked.is("GET", "/blobs/").then(|| redirect(target))).await;
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
    let storage = Fake::lying(|_, _| Some(reply(200, EMPTY)));
    let target = format!("http://{}/storage?signature=secret", storage.address);
    let fake = Fake::lying(move |asked, _| asked.is("GET", "/blobs/").then(|| redirect(&target)));
    fake.thing("1", COMPONENT, EMPTY);
    Place::new().pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap();
    assert_eq!(storage.seen().len(), 1);
}

/// PL06: haft repeats a request after a temporary failure, a limited number of times, and after no other failure.
#[tokio::test]
async fn attempts_are_counted() {
    let count = Arc::new(AtomicUsize::new(0));
    let own = count.clone();
    let busy = move |asked: &Request, _: &Kept| {
        let busy = asked.is("GET", "/manifests/1") && own.fetch_add(1, Ordering::Relaxed) < 2;
        busy.then(|| Reply::Full(503, vec![("retry-after", "0".to_owned())], b"<html>".to_vec()))
    };
    let fake = Fake::lying(busy);
    fake.thing("1", COMPONENT, EMPTY);
    Place::new().pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 3);

    let fake = Fake::lying(|_, _| Some(reply(429, r#"{ "errors": [{ "message": "slow down" }] }"#)));
    let error = refused(&fake, "a/b:1").await;
    assert!(error.ends_with("the registry answered 429: slow down (tried 4 times)"), "{error}");
    assert_eq!(fake.seen().len(), 4);

    let fake =
        Fake::lying(|_, _| Some(Reply::Full(503, vec![("retry-after", "86400".to_owned())], Vec::new())));
    assert!(refused(&fake, "a/b:1").await.ends_with("the registry answered 503"));
    let fake = Fake::lying(|_, _| Some(reply(418, "")));
    assert!(refused(&fake, "a/b:1").await.ends_with("the registry answered 418"));
}

/// haft restarts a download whose connection breaks off, and the file has one layer.
#[tokio::test]
async fn a_layer_that_breaks_off_is_fetched_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let own = count.clone();
    let fake = Fake::lying(move |asked, _| {
        let breaks = asked.is("GET", "/blobs/") && own.fetch_add(1, Ordering::Relaxed) < 2;
        breaks.then(|| Reply::Broken("content-length: 8\r\n".to_owned(), EMPTY[..4].to_vec()))
    });
    fake.thing("1", PACKAGE, EMPTY);
    let place = Place::new();
    let pulled = place.pull(&fake.reference("a/b:1"), &access(), &Trust::Nobody).await.unwrap();
    assert_eq!(std::fs::read(pulled.file).unwrap(), EMPTY);
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

/// CL04: haft hides a secret that a registry repeats in its error, and asks a registry that refuses a login only
/// twice.
#[tokio::test]
async fn a_registry_that_never_accepts_is_asked_twice() {
    let fake = Fake::lying(|asked, _| {
        let body =
            format!(r#"{{ "message": "got {}" }}"#, asked.header("authorization").unwrap_or("nothing"));
        Some(Reply::Full(401, vec![("www-authenticate", "Basic realm=\"x\"".to_owned())], body.into_bytes()))
    });
    let place = Place::new();
    let files = Place::new();
    let text =
        json!({ "auths": { fake.address.to_string(): { "username": "u", "password": "password-4711" } } });
    let file = files.file("auth.json", text.to_string().as_bytes());
    let access = haft::package::oci::Access { credentials: CredentialFiles::at([file]), ..access() };
    let error = place.pull(&fake.reference("a/b:1"), &access, &Trust::Nobody).await.unwrap_err().to_string();
    assert!(error.contains("does not accept `u` from") && error.contains("got Basic ***"), "{error}");
    assert!(!error.contains("4711") && !error.contains("dTpwYXNzd29yZC00NzEx"), "{error}");
    assert_eq!(fake.seen().len(), 2);
}
