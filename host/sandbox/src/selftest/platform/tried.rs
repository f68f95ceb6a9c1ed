//! How an attempt went, as the process that made it sees it.

use std::io;

use crate::selftest::Outcome;

/// Ways through that are named where there are many.
const MAX_WAYS: usize = 3;

/// How an attempt went.
pub(super) enum Tried {
    /// It came through, and how.
    Out(String),
    /// It was stopped by this.
    Held(String),
    /// There is nothing here to try it on.
    Unable(String),
}

impl Tried {
    /// It came through if this succeeded.
    pub(super) fn by(what: &str, result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Out(what.to_owned()),
            Err(error) => Self::Held(error.to_string()),
        }
    }

    /// It came through if any of these succeeded. All are tried.
    pub(super) fn by_any<What: Into<String>>(ways: impl IntoIterator<Item = (What, io::Result<()>)>) -> Self {
        let (mut out, mut held) = (Vec::new(), None);
        for (what, result) in ways {
            match result {
                Ok(()) => out.push(what.into()),
                Err(error) => held = Some(error.to_string()),
            }
        }
        match held {
            _ if !out.is_empty() => Self::Out(joined(&out)),
            Some(held) => Self::Held(held),
            None => Self::Unable("there is nothing to try it on".to_owned()),
        }
    }

    /// The same before the host has looked.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Out(how) => Outcome::Escaped(how),
            Self::Held(why) => Outcome::Held(why),
            Self::Unable(why) => Outcome::Untried(why),
        }
    }
}

/// The first of them, and how many more there are.
fn joined(ways: &[String]) -> String {
    let first = ways.iter().take(MAX_WAYS).cloned().collect::<Vec<_>>().join(", ");
    match ways.len().saturating_sub(MAX_WAYS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
