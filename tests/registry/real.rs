//! The registry tests with a real registry, if there is one: `HAFT_TEST_REGISTRY` is its address, and
//! `HAFT_TEST_REGISTRY_CLOSED` is the address of another one, which admits only `ada` with `lovelace`.
//! `.ci/steps/registry` starts both.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::package::oci::{Access, Content, CredentialFiles, Failure, Publication, Reference, push, resolve};
use haft::package::signature::{Trust, Verdict};
use haft::package::{Digest, FetchError, Progress};
use serde_json::json;

use super::{EMPTY, Place, access};

/// The address in `variable`; reports a skipped test without it.
fn registry(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok().filter(|address| !address.is_empty());
    if address.is_none() {
        eprintln!("SKIPPED: no real registry: `{variable}` names none; `.ci/steps/registry` starts one");
    }
    address
}

/// A new repository.
fn reference(address: &str, tag: &str) -> Reference {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("oci://{address}/haft/t{now}:{tag}").parse().unwrap()
}

fn publication(place: &Place, content: Content, bytes: &[u8]) -> Publication {
    let (annotations, imports, exports) = (BTreeMap::default(), Vec::new(), Vec::new());
    Publication { content, file: place.file("thing", bytes), annotations, imports, exports }
}

#[tokio::test]
async fn what_is_pushed_comes_back() {
    let Some(address) = registry("HAFT_TEST_REGISTRY") else { return };
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for (content, bytes) in [(Content::Component, EMPTY), (Content::Archive, &large)] {
        let place = Place::new();
        let reference = reference(&address, "1.0");
        assert_eq!(resolve(&reference, &access()).await.unwrap(), None);
        let publication = publication(&place, content, bytes);
        let pushed = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap();
        assert_eq!(resolve(&reference, &access()).await.unwrap(), Some(pushed.digest.clone()));
        let again = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap();
        assert!(again.was_there && again.digest == pushed.digest);
        let got = Place::new();
        let pinned = reference.with_digest(pushed.digest.clone());
        let pulled = got.pull(&pinned, &access(), &Trust::Nobody).await.unwrap();
        assert_eq!(std::fs::read(&pulled.file).unwrap(), bytes);
        assert_eq!(
            (pulled.content, pulled.layer, pulled.verdict),
            (content, Digest::hash(bytes), Verdict::Unsigned)
        );
    }
}

#[tokio::test]
async fn a_tag_is_moved_on_demand_only() {
    let Some(address) = registry("HAFT_TEST_REGISTRY") else { return };
    let (place, reference) = (Place::new(), reference(&address, "1.0"));
    let first = publication(&place, Content::Archive, b"first");
    let pushed = push(&reference, &first, false, &access(), &Progress::default()).await.unwrap();
    let second = publication(&place, Content::Archive, b"second");
    let refused = push(&reference, &second, false, &access(), &Progress::default()).await.unwrap_err();
    assert!(
        matches!(&refused.failure, Failure::Exists { found, .. } if *found == pushed.digest),
        "{refused}"
    );
    let moved = push(&reference, &second, true, &access(), &Progress::default()).await.unwrap();
    assert_eq!(resolve(&reference, &access()).await.unwrap(), Some(moved.digest));
    // The first manifest is still available by its digest.
    let first = resolve(&reference.with_digest(pushed.digest.clone()), &access()).await.unwrap();
    assert_eq!(first, Some(pushed.digest));
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_missing() {
    let Some(address) = registry("HAFT_TEST_REGISTRY") else { return };
    let error = Place::new().pull(&reference(&address, "1.0"), &access(), &Trust::Nobody).await.unwrap_err();
    let is_missing = matches!(&error, FetchError::Oci(error) if matches!(error.failure, Failure::Missing(_)));
    assert!(is_missing, "{error}");
}

#[tokio::test]
async fn a_closed_registry_lets_in_who_is_logged_in() {
    let Some(address) = registry("HAFT_TEST_REGISTRY_CLOSED") else { return };
    let reference = reference(&address, "1.0");
    let place = Place::new();
    let publication = publication(&place, Content::Component, EMPTY);
    let error = push(&reference, &publication, false, &access(), &Progress::default()).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Anonymous { .. }), "{error}");
    let known = |password: &str| {
        let stored = json!({ "auths": { &address: { "username": "ada", "password": password } } });
        let file = place.file("config.json", stored.to_string().as_bytes());
        Access { credentials: CredentialFiles::at([file]), ..access() }
    };
    let error =
        push(&reference, &publication, false, &known("babbage"), &Progress::default()).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Denied { .. }), "{error}");
    assert!(!error.to_string().contains("babbage"));
    let access = known("lovelace");
    let pushed = push(&reference, &publication, false, &access, &Progress::default()).await.unwrap();
    let pulled = Place::new().pull(&reference, &access, &Trust::Nobody).await.unwrap();
    assert_eq!(pulled.digest, pushed.digest);
}
