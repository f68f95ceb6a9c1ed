//! The cached public keys of an issuer. They are fetched again if they are old or a token names an unknown key, but
//! never twice in a short time, whatever tokens are sent.

mod fetch;
mod set;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::set::KeySet;
use super::KeySource;
use super::caller::Denied;
use haft_core::sync::Lock;

/// How long keys count as fresh.
const FRESH: Duration = Duration::from_mins(5);

/// How long keys are used that cannot be fetched again: an outage of the authorization server for a night stops no
/// caller.
const STALE: Duration = Duration::from_hours(12);

/// The minimum time between two fetches, for any number of tokens and keys.
const PAUSE: Duration = Duration::from_secs(30);

/// The minimum time after a failed fetch.
const RETRY: Duration = Duration::from_secs(5);

/// The keys of one issuer.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) source: KeySource,
    state: Lock<State>,
    /// Held during a fetch: other tasks wait for its result.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    found: Option<(Arc<KeySet>, Instant)>,
    looked: Option<(Instant, bool)>,
}

impl Keys {
    pub(crate) fn new(source: KeySource) -> Self {
        Self { source, state: Lock::default(), looking: tokio::sync::Mutex::new(()) }
    }

    /// Returns the keys, fetched again if they are old or none has the id `key_id`.
    pub(crate) async fn having(&self, key_id: Option<&str>) -> Result<Arc<KeySet>, Denied> {
        if let Some(keys) = self.enough(key_id) {
            return Ok(keys);
        }
        let _looking = self.looking.lock().await;
        // Another task may have fetched the keys meanwhile.
        if let Some(keys) = self.enough(key_id) {
            return Ok(keys);
        }
        self.look().await;
        self.usable().ok_or(Denied::Unavailable)
    }

    /// Fetches the keys now. Returns the problem, if any.
    pub(crate) async fn look(&self) -> Option<String> {
        let found = fetch::keys(&self.source).await;
        let now = Instant::now();
        let mut state = self.state.lock();
        state.looked = Some((now, found.is_ok()));
        match found {
            Ok(keys) => {
                state.found = Some((Arc::new(keys), now));
                None
            }
            Err(why) => {
                tracing::warn!(source = %self.source, why, "keys of an authorization server cannot be had");
                Some(why)
            }
        }
    }

    /// Returns the cached keys, if fetching again would not help or must wait.
    fn enough(&self, key_id: Option<&str>) -> Option<Arc<KeySet>> {
        let state = self.state.lock();
        let pause = |is_good: bool| if is_good { PAUSE } else { RETRY };
        let has_to_wait = state.looked.is_some_and(|(last, is_good)| last.elapsed() < pause(is_good));
        let (keys, found) = state.found.as_ref()?;
        let is_known = key_id.is_none_or(|id| keys.has(id));
        let is_enough = is_known && found.elapsed() < FRESH || has_to_wait && found.elapsed() < STALE;
        is_enough.then(|| keys.clone())
    }

    fn usable(&self) -> Option<Arc<KeySet>> {
        let state = self.state.lock();
        state.found.as_ref().filter(|(_, found)| found.elapsed() < STALE).map(|(keys, _)| keys.clone())
    }
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url.split('?').next().unwrap_or_default()),
            Self::File(path) => path.display().fmt(f),
        }
    }
}
