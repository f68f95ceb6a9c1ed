//! How a server wants to be spoken to: found out when its tools are listed, and kept with them.

use serde::{Deserialize, Serialize};

/// The newest version of the protocol with a greeting.
pub(super) const GREETING: &str = "2025-11-25";

/// The version without.
pub(super) const STATELESS: &str = "2026-07-28";

/// How a server wants to be spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manner {
    /// Where it listens.
    pub(super) path: String,
    /// The version of the protocol that both sides speak.
    pub(super) version: String,
    pub(super) sessions: Sessions,
}

/// What comes before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sessions {
    /// The server gives no session, so that no request needs another one before it.
    None,
    /// The greeting, in the same instance.
    Greeted,
    /// The protocol has none any more; each request says of its client what the greeting said.
    Stateless,
}

impl Manner {
    /// That of a server at `path` that is greeted.
    pub(super) fn greeted(path: &str) -> Self {
        Self { path: path.to_owned(), version: GREETING.into(), sessions: Sessions::Greeted }
    }

    /// That of a server at `path` that knows no greeting.
    pub(super) fn stateless(path: &str) -> Self {
        Self { path: path.to_owned(), version: STATELESS.into(), sessions: Sessions::Stateless }
    }
}
