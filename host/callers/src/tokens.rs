//! The lookup of callers by token, in constant time: every digest is compared, and all have the same length.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::caller::Seat;

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
