//! Tokens that were verified a moment ago: a client shows the same one with every request, and its signature need not be
//! computed each time. Nothing is known of a token for longer than [`LIFE`] or after its own end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use haft_core::sync::Lock;

use super::caller::Caller;
use super::tokens::TokenDigest;

/// How long a token is known: a key that its issuer takes back counts for so long.
const LIFE: Duration = Duration::from_mins(1);

/// Tokens that are known: those of the clients of a few minutes. Each takes some 200 bytes.
const MOST: usize = 4096;

/// Tokens that were verified a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Verified(Lock<HashMap<TokenDigest, (Caller, Instant)>>);

impl Verified {
    /// Whose token it is.
    pub(crate) fn get(&self, token: &TokenDigest) -> Option<Caller> {
        let known = self.0.lock();
        known.get(token).filter(|(_, until)| Instant::now() < *until).map(|(caller, _)| caller.clone())
    }

    /// Notes whose token it is, which is good for `left`.
    pub(crate) fn note(&self, token: TokenDigest, caller: Caller, left: Duration) {
        let now = Instant::now();
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(token, (caller, now + left.min(LIFE)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::caller::Seat;
    use super::super::quota::Quota;
    use super::super::tokens::digest;
    use super::*;

    #[test]
    fn what_is_known_is_bounded_and_ends() {
        let verified = Verified::default();
        let caller =
            Caller::new(&Arc::new(Seat { name: "x".into(), quota: Arc::new(Quota::new(None, None)) }));
        for index in 0..MOST * 2 {
            verified.note(digest(&index.to_string()), caller.clone(), LIFE);
        }
        assert!(verified.0.lock().len() <= MOST);
        verified.note(digest("over"), caller.clone(), Duration::ZERO);
        verified.note(digest("good"), caller, LIFE);
        assert!(verified.get(&digest("over")).is_none() && verified.get(&digest("good")).is_some());
    }
}
