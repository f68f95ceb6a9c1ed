//! Callers by their tokens, compared in constant time: with every one of them, by digests of one length.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::caller::Seat;

/// SHA-256 of a token.
pub(crate) type TokenDigest = [u8; 32];

/// The callers that have a token of their own.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<(TokenDigest, Arc<Seat>)>);

/// What a token is known by.
pub(crate) fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

impl Tokens {
    /// Adds one; the name of another that has the same token.
    pub(crate) fn add(&mut self, digest: TokenDigest, seat: Arc<Seat>) -> Result<(), String> {
        if let Some((_, other)) = self.0.iter().find(|(own, _)| *own == digest) {
            return Err(other.name.to_string());
        }
        self.0.push((digest, seat));
        Ok(())
    }

    /// Whose token it is. All are looked at: how long it takes says nothing of what is right in it.
    pub(crate) fn find(&self, shown: &TokenDigest) -> Option<&Arc<Seat>> {
        let mut found = None;
        for (own, seat) in &self.0 {
            let difference =
                own.iter().zip(shown).fold(0, |difference, (own, shown)| difference | (own ^ shown));
            if difference == 0 {
                found = Some(seat);
            }
        }
        found
    }
}
