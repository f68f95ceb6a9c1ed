//! The lookup of callers by token, in constant time (every digest is compared, and all have the same length),
//! and a cache of verified tokens: a client sends one token with every request, and its signature need not be
//! verified each time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::caller::{Caller, Seat};
use haft_core::sync::Lock;

/// The SHA-256 of a token.
pub(crate) type TokenDigest = [u8; 32];

/// The callers with tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<(TokenDigest, Arc<Seat>)>);

/// Returns the digest of a token.
pub(crate) fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

impl Tokens {
    /// Adds a caller; fails with the name of another caller with the same token.
    pub(crate) fn add(&mut self, digest: TokenDigest, seat: Arc<Seat>) -> Result<(), String> {
        if let Some((_, other)) = self.0.iter().find(|(known, _)| *known == digest) {
            return Err(other.name.to_string());
        }
        self.0.push((digest, seat));
        Ok(())
    }

    /// Returns the caller with this token. Compares all digests: the time reveals nothing about a partial match.
    pub(crate) fn find(&self, shown: &TokenDigest) -> Option<&Arc<Seat>> {
        let mut found = None;
        for (known, seat) in &self.0 {
            let difference =
                known.iter().zip(shown).fold(0, |difference, (known, shown)| difference | (known ^ shown));
            if difference == 0 {
                found = Some(seat);
            }
        }
        found
    }
}

/// How long an entry is valid: a revoked key stays valid for this time.
const LIFE: Duration = Duration::from_mins(1);

/// The maximum number of entries: the tokens of a few minutes. Each takes about 200 bytes.
const MOST: usize = 4096;

/// The verified tokens.
#[derive(Debug, Default)]
pub(crate) struct Verified(Lock<HashMap<TokenDigest, (Caller, Instant)>>);

impl Verified {
    /// Returns the caller with this token.
    pub(crate) fn get(&self, token: &TokenDigest) -> Option<Caller> {
        let known = self.0.lock();
        known.get(token).filter(|(_, until)| Instant::now() < *until).map(|(caller, _)| caller.clone())
    }

    /// Stores the caller with this token, which is valid for `left`.
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
    use super::digest;
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
