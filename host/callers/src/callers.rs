//! The callers of a server, and the lookup of a caller by its token.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use crate::caller::{Caller, Denied, Quota, Seat};
use crate::jwt::{self, Unverified};
use crate::keys::Keys;
use crate::{Proof, Rule};
use haft_core::sync::Lock;
use haft_manifest::{JwtTable, KeysAt};

/// The callers of a server. Clones share the set, also after it is replaced.
#[derive(Clone, Debug, Default)]
pub struct Callers(Arc<Lock<Arc<Set>>>);

/// The reason why rules are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Two callers have one token and could not be distinguished.
    #[error("the callers `{0}` and `{1}` have the same token")]
    SameToken(String, String),
    /// A token could be guessed, or is not a valid header value.
    #[error(
        "the token of caller `{0}` is too short or has invalid characters: expected at least {MIN_TOKEN} \
         printable ASCII characters without white space"
    )]
    Weak(String),
    /// The keys for JSON Web Tokens cannot be read.
    #[error("the keys of caller `{0}` cannot be read: {1}")]
    Keys(String, String),
}

/// The minimum number of characters of a token.
const MIN_TOKEN: usize = 16;

#[derive(Debug, Default)]
struct Set {
    seats: Vec<Arc<Seat>>,
    /// The limits of calls a minute and of concurrent calls, in the order of `seats`.
    bounds: Vec<(Option<u32>, Option<u32>)>,
    tokens: Tokens,
    jwts: Vec<JwtSeat>,
    keys: HashMap<KeysAt, Arc<Keys>>,
    verified: Verified,
}

#[derive(Debug)]
struct JwtSeat {
    rule: JwtTable,
    seat: Arc<Seat>,
    keys: Arc<Keys>,
}

impl Callers {
    /// Replaces the callers by those of `rules`. A caller with an existing name keeps its used quota. Keys in files
    /// must exist; keys at a URL may become available later.
    ///
    /// # Errors
    /// A rule is invalid; the previous callers stay.
    pub async fn replace(&self, rules: Vec<Rule>) -> Result<(), RuleError> {
        jwt::install();
        let before = self.now();
        let mut set = Set::default();
        for rule in rules {
            set.add(rule, &before).await?;
        }
        // No step can fail from here on.
        for (seat, (per_minute, at_once)) in set.seats.iter().zip(&set.bounds) {
            seat.quota.set(*per_minute, *at_once);
        }
        *self.0.lock() = Arc::new(set);
        Ok(())
    }

    /// Returns the accepted authorization servers, without duplicates.
    pub fn issuers(&self) -> Vec<String> {
        distinct(self.now().jwts.iter().map(|seat| &seat.rule.issuer))
    }

    /// Returns the required scopes of all callers, without duplicates.
    pub fn scopes(&self) -> Vec<String> {
        distinct(self.now().jwts.iter().flat_map(|seat| &seat.rule.scopes))
    }

    /// Returns the caller with `token` if it is known without waiting; `None` if the token must be verified.
    pub fn recall(&self, token: &str) -> Option<Result<Caller, Denied>> {
        let (set, shown) = (self.now(), digest(token));
        set.known(&shown).map(Ok).or_else(|| set.jwts.is_empty().then_some(Err(UNKNOWN)))
    }

    /// Returns the caller with `token`. May request the keys of an authorization server: needs a runtime that may
    /// open connections.
    ///
    /// # Errors
    /// No caller has the token, or it cannot be verified now.
    pub async fn verify(&self, token: &str) -> Result<Caller, Denied> {
        let (set, shown) = (self.now(), digest(token));
        if let Some(known) = set.known(&shown) {
            return Ok(known);
        }
        let unverified = Unverified::read(token).ok_or(UNKNOWN)?;
        let mut denied = Denied::Invalid("its `iss` is not an issuer of this server's callers");
        for seat in set.jwts.iter().filter(|seat| seat.rule.issuer == unverified.issuer) {
            match seat.verify(token, &unverified).await {
                Ok((caller, left)) => {
                    set.verified.note(shown, caller.clone(), left);
                    return Ok(caller);
                }
                // A missing scope is the more specific error.
                Err(_) if matches!(denied, Denied::Scope(_)) => {}
                Err(why) => denied = why,
            }
        }
        Err(denied)
    }

    fn now(&self) -> Arc<Set> {
        self.0.lock().clone()
    }
}

/// Returns the texts in order, each once.
fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    texts.fold(Vec::new(), |mut all, text| {
        if !all.contains(text) {
            all.push(text.clone());
        }
        all
    })
}

const UNKNOWN: Denied = Denied::Invalid("it belongs to no caller");

impl Set {
    async fn add(&mut self, rule: Rule, before: &Self) -> Result<(), RuleError> {
        let Rule { name, proof, calls_per_minute, calls_at_once } = rule;
        let kept = before.seats.iter().find(|seat| *seat.name == *name);
        let new = || {
            let quota = Arc::new(Quota::new(calls_per_minute, calls_at_once));
            Arc::new(Seat { name: name.as_str().into(), quota })
        };
        let seat = kept.cloned().unwrap_or_else(new);
        match proof {
            Proof::Token(token) => {
                let text = token.expose_secret();
                if text.len() < MIN_TOKEN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(RuleError::Weak(name));
                }
                let added = self.tokens.add(digest(text), seat.clone());
                added.map_err(|other| RuleError::SameToken(other, name))?;
            }
            Proof::Jwt(rule) => {
                let keys = self.keys(&rule.keys, before);
                if matches!(rule.keys, KeysAt::File(_))
                    && let Some(why) = keys.look().await
                {
                    return Err(RuleError::Keys(name, why));
                }
                self.jwts.push(JwtSeat { rule, seat: seat.clone(), keys });
            }
        }
        self.seats.push(seat);
        self.bounds.push((calls_per_minute, calls_at_once));
        Ok(())
    }

    /// Returns the keys at `source`, reusing those of the previous set.
    fn keys(&mut self, source: &KeysAt, before: &Self) -> Arc<Keys> {
        let make = || before.keys.get(source).cloned().unwrap_or_else(|| Arc::new(Keys::new(source.clone())));
        self.keys.entry(source.clone()).or_insert_with(make).clone()
    }

    fn known(&self, shown: &TokenDigest) -> Option<Caller> {
        self.tokens.find(shown).map(Caller::new).or_else(|| self.verified.get(shown))
    }
}

impl JwtSeat {
    async fn verify(&self, token: &str, unverified: &Unverified) -> Result<(Caller, Duration), Denied> {
        unverified.check(&self.rule)?;
        let keys = self.keys.having(unverified.key_id()).await?;
        let verified = unverified.verify(token, &self.rule, &keys)?;
        let caller = match &verified.subject {
            Some(subject) => Caller::of_subject(&self.seat, subject),
            None => Some(Caller::new(&self.seat)),
        };
        let caller = caller.ok_or(Denied::Invalid("its `sub` is too long"))?;
        Ok((caller, verified.left))
    }
}

// The lookup of callers by token, in constant time (every digest is compared, and all have one length), and a cache
// of verified tokens: a client sends one token with every request, so that its signature need not be verified each
// time.

/// The SHA-256 of a token.
pub(crate) type TokenDigest = [u8; 32];

#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<(TokenDigest, Arc<Seat>)>);

pub(crate) fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

impl Tokens {
    /// Adds a caller. The error is the name of another caller with this token.
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

/// Maximum age of an entry: a revoked key stays valid for this time.
const LIFE: Duration = Duration::from_mins(1);

/// The maximum number of entries: the tokens of a few minutes. Each takes about 200 bytes.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Verified(Lock<HashMap<TokenDigest, (Caller, Instant)>>);

impl Verified {
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
