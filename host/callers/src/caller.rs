//! A caller: its names, its quota, and the reason for its denial. The messages of a denial reveal nothing about
//! accepted tokens.

use std::sync::Arc;

use super::quota::{CallPermit, Exhausted, Quota};

/// A caller. Clones are equivalent.
#[derive(Clone, Debug)]
pub struct Caller {
    seat: Arc<Seat>,
    id: Arc<str>,
}

/// The shared state of all callers of one rule.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: Arc<str>,
    pub(crate) quota: Arc<Quota>,
}

/// The maximum number of characters of a subject. The identifiers of authorization servers are shorter.
const MAX_SUBJECT: usize = 128;

impl Caller {
    pub(crate) fn new(seat: &Arc<Seat>) -> Self {
        Self { seat: seat.clone(), id: seat.name.clone() }
    }

    /// Returns the caller for the `subject` of a token; `None` if it is too long. Ambiguous characters are escaped,
    /// so that different subjects give different names.
    pub(crate) fn of_subject(seat: &Arc<Seat>, subject: &str) -> Option<Self> {
        if subject.chars().count() > MAX_SUBJECT {
            return None;
        }
        let plain = |c: char| c.is_ascii_graphic() && c != '\\' || c.is_alphanumeric();
        let escaped = |c: char| if plain(c) { c.to_string() } else { c.escape_unicode().to_string() };
        let shown: String = subject.chars().map(escaped).collect();
        Some(Self { seat: seat.clone(), id: format!("{}/{shown}", seat.name).into() })
    }

    /// Returns the name in program.toml.
    pub fn name(&self) -> &str {
        &self.seat.name
    }

    /// Returns the id in the journal: the name, and the subject of the JSON Web Token after a `/`.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Begins a call, if the quota of this name, which all its callers share, permits it.
    ///
    /// # Errors
    /// The quota is used up.
    pub fn begin_call(&self) -> Result<CallPermit, Exhausted> {
        Quota::begin(&self.seat.quota)
    }
}

/// The reason why a caller is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The request has no token.
    #[error("expected `Authorization: Bearer` and a token of this server")]
    Missing,
    /// No caller has the token.
    #[error("this token is not accepted: {0}")]
    Invalid(&'static str),
    /// The caller lacks a required scope.
    #[error("this token lacks the scope `{}`, which calls require", .0.join(" "))]
    Scope(Vec<String>),
    /// The token cannot be verified now.
    #[error("the keys of the authorization server are not available at the moment; try again later")]
    Unavailable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_subjects_are_called_the_same() {
        let seat = Arc::new(Seat { name: "team".into(), quota: Arc::new(Quota::new(None, None)) });
        let id = |subject: &str| Caller::of_subject(&seat, subject).map(|caller| caller.id().to_string());
        assert_eq!(id("ada").unwrap(), "team/ada");
        assert_eq!(id("a b\n").unwrap(), "team/a\\u{20}b\\u{a}");
        assert_ne!(id("a b"), id("a\\u{20}b"));
        assert_eq!(id(&"x".repeat(129)), None);
    }
}
