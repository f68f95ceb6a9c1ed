//! All callers of a server, and which of them shows a token.

use std::collections::HashMap;
use std::sync::Arc;

use haft_core::sync::Lock;
use secrecy::ExposeSecret;

use super::caller::{Caller, Seat};
use super::denied::Denied;
use super::jwt::{self, Unverified};
use super::keys::Keys;
use super::quota::Quota;
use super::rule::{JwtRule, KeySource, Proof, Rule};
use super::tokens::{TokenDigest, Tokens, digest};
use super::verified::Verified;

/// The callers of a server. Clones are the same, whatever they are replaced by.
#[derive(Clone, Debug, Default)]
pub struct Callers(Arc<Lock<Arc<Set>>>);

/// What is wrong with rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Whose calls they are could not be told.
    #[error("the callers `{0}` and `{1}` have the same token")]
    SameToken(String, String),
    /// It could be guessed, or cannot be sent.
    #[error(
        "the token of caller `{0}` can be guessed or cannot be sent: expected at least {MIN_TOKEN} printable ASCII \
         characters without white space"
    )]
    Weak(String),
    /// Nobody could show a JSON Web Token.
    #[error("the keys of caller `{0}` cannot be read: {1}")]
    Keys(String, String),
}

/// The least characters of a token.
const MIN_TOKEN: usize = 16;

#[derive(Debug, Default)]
struct Set {
    seats: Vec<Arc<Seat>>,
    /// Calls a minute and at once, by `seats`.
    bounds: Vec<(Option<u32>, Option<u32>)>,
    tokens: Tokens,
    jwts: Vec<JwtSeat>,
    keys: HashMap<KeySource, Arc<Keys>>,
    verified: Verified,
}

#[derive(Debug)]
struct JwtSeat {
    rule: JwtRule,
    seat: Arc<Seat>,
    keys: Arc<Keys>,
}

impl Callers {
    /// Tells the callers of `rules` apart from now on. One that has the same name as before has used what it has used.
    /// Keys in files have to be there; what is at an address may come later.
    pub async fn replace(&self, rules: Vec<Rule>) -> Result<(), RuleError> {
        jwt::install();
        let before = self.now();
        let mut set = Set::default();
        for rule in rules {
            set.add(rule, &before).await?;
        }
        // Nothing can go wrong any more.
        for (seat, (per_minute, at_once)) in set.seats.iter().zip(&set.bounds) {
            seat.quota.set(*per_minute, *at_once);
        }
        *self.0.lock() = Arc::new(set);
        Ok(())
    }

    /// The authorization servers whose tokens are taken, each once.
    pub fn issuers(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for own in &self.now().jwts {
            if !all.contains(&own.rule.issuer) {
                all.push(own.rule.issuer.clone());
            }
        }
        all
    }

    /// The scopes that callers have to have, each once.
    pub fn scopes(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for scope in self.now().jwts.iter().flat_map(|own| &own.rule.scopes) {
            if !all.contains(scope) {
                all.push(scope.clone());
            }
        }
        all
    }

    /// Who shows `token`, where that is known without waiting for anything; `None` where it has to be verified.
    pub fn recall(&self, token: &str) -> Option<Result<Caller, Denied>> {
        let (set, shown) = (self.now(), digest(token));
        set.known(&shown).map(Ok).or_else(|| set.jwts.is_empty().then_some(Err(UNKNOWN)))
    }

    /// Who shows `token`. May ask an authorization server for its keys: on a runtime that may open connections.
    pub async fn verify(&self, token: &str) -> Result<Caller, Denied> {
        let (set, shown) = (self.now(), digest(token));
        if let Some(known) = set.known(&shown) {
            return Ok(known);
        }
        let unverified = Unverified::read(token).ok_or(UNKNOWN)?;
        let mut denied = Denied::Invalid("its `iss` is no issuer of this server's callers");
        for own in set.jwts.iter().filter(|own| own.rule.issuer == unverified.issuer()) {
            match own.verify(token, &unverified).await {
                Ok((caller, left)) => {
                    set.verified.note(shown, caller.clone(), left);
                    return Ok(caller);
                }
                // That a scope is missing says more than that it is nobody else's.
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

const UNKNOWN: Denied = Denied::Invalid("it is nobody's");

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
                if matches!(rule.keys, KeySource::File(_))
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

    /// The keys at `source`: those that were had before.
    fn keys(&mut self, source: &KeySource, before: &Self) -> Arc<Keys> {
        let make = || before.keys.get(source).cloned().unwrap_or_else(|| Arc::new(Keys::new(source.clone())));
        self.keys.entry(source.clone()).or_insert_with(make).clone()
    }

    fn known(&self, shown: &TokenDigest) -> Option<Caller> {
        self.tokens.find(shown).map(Caller::new).or_else(|| self.verified.get(shown))
    }
}

impl JwtSeat {
    async fn verify(
        &self,
        token: &str,
        unverified: &Unverified,
    ) -> Result<(Caller, std::time::Duration), Denied> {
        unverified.check(&self.rule)?;
        let keys = self.keys.having(unverified.key_id()).await?;
        let verified = unverified.verify(token, &self.rule, &keys)?;
        verified.check_scopes(&self.rule)?;
        let caller = match &verified.subject {
            Some(subject) => Caller::of_subject(&self.seat, subject),
            None => Some(Caller::new(&self.seat)),
        };
        let caller = caller.ok_or(Denied::Invalid("its `sub` is longer than one can be told by"))?;
        Ok((caller, verified.left))
    }
}
