//! The cached public keys of an issuer. They are fetched again if they are old or a token names an unknown key, but
//! never twice in a short time, regardless of the tokens and also without any keys.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use crate::caller::Denied;
use haft_core::net::{chain, client, is_loopback};
use haft_core::sync::Lock;
use haft_manifest::KeysAt;

/// Maximum age of keys that count as fresh.
const FRESH: Duration = Duration::from_mins(5);

/// Maximum age of keys that cannot be fetched again: an outage of the authorization server for a night stops no
/// caller.
const STALE: Duration = Duration::from_hours(12);

/// The minimum time between two fetches, for any number of tokens and keys.
const PAUSE: Duration = Duration::from_secs(30);

/// The minimum time after a failed fetch.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Keys {
    source: KeysAt,
    state: Lock<State>,
    /// Held during a fetch: other tasks wait for its result.
    looking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    found: Option<(Arc<KeySet>, Instant)>,
    /// The end of the last fetch, and whether it succeeded.
    looked: Option<(Instant, bool)>,
}

impl Keys {
    pub(crate) fn new(source: KeysAt) -> Self {
        Self { source, state: Lock::default(), looking: Arc::default() }
    }

    /// Returns the keys, fetched again if they are old or none has the id `key_id`.
    pub(crate) async fn having(self: &Arc<Self>, key_id: Option<&str>) -> Result<Arc<KeySet>, Denied> {
        if let Some(decided) = self.decided(key_id) {
            return decided;
        }
        let looking = self.looking.clone().lock_owned().await;
        // Another task may have fetched the keys meanwhile, or failed to.
        if let Some(decided) = self.decided(key_id) {
            return decided;
        }
        let own = self.clone();
        // The fetch outlives a client that hangs up: other clients wait for its result.
        let fetch = tokio::spawn(async move {
            let _looking = looking;
            own.look().await;
        });
        // A fetch that panics leaves the keys as they were.
        drop(fetch.await);
        self.state.lock().usable().ok_or(Denied::Unavailable)
    }

    /// Fetches the keys now. Returns the problem, if any.
    pub(crate) async fn look(&self) -> Option<String> {
        let found = fetched(&self.source).await;
        let now = Instant::now();
        let mut state = self.state.lock();
        state.looked = Some((now, found.is_ok()));
        match found {
            Ok(keys) => {
                state.found = Some((Arc::new(keys), now));
                None
            }
            Err(why) => {
                tracing::warn!(source = %shown(&self.source), why, "the keys of an authorization server are not \
                    available");
                Some(why)
            }
        }
    }

    /// Returns the result without a fetch, if a fetch would not help or must wait.
    fn decided(&self, key_id: Option<&str>) -> Option<Result<Arc<KeySet>, Denied>> {
        let state = self.state.lock();
        let pause = |is_good: bool| if is_good { PAUSE } else { RETRY };
        let has_to_wait = state.looked.is_some_and(|(last, is_good)| last.elapsed() < pause(is_good));
        let is_fresh = state
            .found
            .as_ref()
            .is_some_and(|(keys, found)| found.elapsed() < FRESH && key_id.is_none_or(|id| keys.has(id)));
        (is_fresh || has_to_wait).then(|| state.usable().ok_or(Denied::Unavailable))
    }
}

impl State {
    fn usable(&self) -> Option<Arc<KeySet>> {
        self.found.as_ref().filter(|(_, found)| found.elapsed() < STALE).map(|(keys, _)| keys.clone())
    }
}

/// Returns the location of keys, without a query.
fn shown(source: &KeysAt) -> String {
    match source {
        KeysAt::Url(url) => url.split('?').next().unwrap_or_default().to_owned(),
        KeysAt::File(path) => path.display().to_string(),
    }
}

// A set of public keys (RFC 7517), and the selection of the key that verifies a token.

/// The maximum number of keys of a set. Issuers have a handful.
const MOST: usize = 128;

/// The keys of an issuer that can verify a signature.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<PublicKey>);

#[derive(Debug)]
struct PublicKey {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<String>,
    curve: Option<EllipticCurve>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses the keys of `text`. Skips unknown keys and those with a shared secret.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(text).map_err(|error| format!("not a JSON Web Key Set: {error}"))?;
        let keys: Vec<_> = written.keys.into_iter().take(MOST).filter_map(PublicKey::read).collect();
        if keys.is_empty() { Err("it has no public key for signatures".to_owned()) } else { Ok(Self(keys)) }
    }

    /// Returns whether a key has the id `id`.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// Returns the key with the id `id` for `algorithm`; without an id, the only key for it.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let is_meant = |key: &&PublicKey| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fitting = self.0.iter().filter(is_meant).filter(|key| key.fits(algorithm));
        let first = fitting.next()?;
        (id.is_some() || fitting.next().is_none()).then_some(&first.key)
    }
}

impl PublicKey {
    fn read(written: Value) -> Option<Self> {
        let algorithm = written.get("alg").and_then(Value::as_str).map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(written).ok()?;
        let is_for_signatures = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let curve = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => None,
            AlgorithmParameters::EllipticCurve(parameters) => Some(parameters.curve.clone()),
            AlgorithmParameters::OctetKeyPair(parameters) => Some(parameters.curve.clone()),
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures)?;
        Some(Self { id: jwk.common.key_id, algorithm, curve, key })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_named =
            self.algorithm.as_deref().is_none_or(|name| Algorithm::from_str(name).ok() == Some(algorithm));
        let family = match algorithm {
            Algorithm::ES256 => self.curve == Some(EllipticCurve::P256),
            Algorithm::ES384 => self.curve == Some(EllipticCurve::P384),
            Algorithm::EdDSA => self.curve == Some(EllipticCurve::Ed25519),
            _ => self.key.family() == AlgorithmFamily::Rsa && self.curve.is_none(),
        };
        is_named && family
    }
}

// Reads a set of keys from a file or a URL. Bounded in size and time; follows no redirects, and uses plain HTTP only
// for loopback addresses.

/// The maximum size of a set of keys in bytes: ten times those of the largest issuers.
const MAX_SET: usize = 256 << 10;

/// The timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(8);

/// Reads the keys at `source`; error messages contain no secret.
async fn fetched(source: &KeysAt) -> Result<KeySet, String> {
    let text = match source {
        KeysAt::Url(url) => tokio::time::timeout(PATIENCE, at(url))
            .await
            .map_err(|_| format!("no answer within {PATIENCE:?}"))??,
        KeysAt::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || read(&path)).await;
            read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
        }
    };
    KeySet::parse(&text)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_SET as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX_SET { Err(std::io::Error::other(too_large())) } else { Ok(text) }
}

async fn at(url: &str) -> Result<Vec<u8>, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let is_here = url.host_str().is_some_and(is_loopback);
    if url.scheme() != "https" && !is_here {
        return Err("keys must be fetched over `https://`".to_owned());
    }
    let builder = client(url.scheme() == "https", is_here).map_err(|error| error.to_string())?;
    let client = builder.pool_max_idle_per_host(0).build().map_err(|error| chain(&error))?;
    let mut answer =
        client.get(url).header("accept", "application/json").send().await.map_err(|e| chain(&e))?;
    if !answer.status().is_success() {
        return Err(format!("it answered with {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| chain(&error))? {
        if text.len() + piece.len() > MAX_SET {
            return Err(too_large());
        }
        text.extend_from_slice(&piece);
    }
    Ok(text)
}

fn too_large() -> String {
    format!("it has more than {} KiB", MAX_SET >> 10)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    /// Many tokens cause one fetch while the authorization server is away, even if the first client hangs up.
    #[tokio::test]
    async fn any_number_of_tokens_wait_for_one_fetch() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let keys = Arc::new(Keys::new(KeysAt::Url(url)));
        let asking = |own: Arc<Keys>| async move { own.having(Some("id")).await.map(drop) };
        let first = tokio::spawn(asking(keys.clone()));
        let (fetch, _) = listener.accept().await.unwrap();
        let mut others: JoinSet<_> = (0..20).map(|_| asking(keys.clone())).collect();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        drop(fetch);
        let ended = async {
            while let Some(denied) = others.join_next().await {
                assert_eq!(denied.unwrap(), Err(Denied::Unavailable));
            }
        };
        tokio::select! {
            () = ended => {}
            _ = listener.accept() => panic!("the keys are fetched twice"),
        }
    }
}
