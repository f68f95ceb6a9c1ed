//! Asking a person before a tool runs. A question shows all that would run, made safe to look at;
//! nothing but a person's yes is taken for one.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::{Keep, clip};

/// What a person is asked about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool that would run.
    pub tool: String,
    /// What it would do: `Run` or `Fetch`.
    pub verb: &'static str,
    /// The command, the URL: all of it, with control characters made visible.
    pub what: String,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A person said yes.
    Approved,
    /// A person said no, or something that is no yes.
    Denied,
    /// No person answered; why, as the end of a sentence.
    Unasked(String),
}

/// Somebody who can ask a person. Several calls may ask at once.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks. Dropping the future takes the question back.
    async fn ask(&self, question: &Question) -> Decision;
}

/// Whom a session asks; nobody by default. Clones ask the same person.
#[derive(Clone, Default)]
pub struct Approvals(Option<Arc<dyn Approver>>);

/// That a tool needs a person's approval, as program.toml says.
pub struct Approval {
    /// What it would do: `Run` or `Fetch`.
    pub verb: &'static str,
    /// What exactly, told by the arguments of a call that have been checked.
    pub what: Box<dyn Fn(&Value) -> String + Send + Sync>,
    /// The answer to a call that was denied.
    pub denied: &'static str,
    /// The line of program.toml that asks for it.
    pub setting: String,
}

/// How long a person may take. Whoever is away for longer can be asked again.
const PATIENCE: Duration = Duration::from_mins(10);

/// Characters of a question: a long script, read to its end by nobody. Of what is longer the
/// beginning and the end are shown, and that something is missing.
const MAX_QUESTION: usize = 20_000;

impl Approvals {
    /// Asks `approver`.
    pub fn by(approver: impl Approver + 'static) -> Self {
        Self(Some(Arc::new(approver)))
    }

    pub(super) async fn ask(&self, question: &Question) -> Decision {
        let Some(approver) = &self.0 else {
            return Decision::Unasked("there is nobody to ask".into());
        };
        let answered = tokio::time::timeout(PATIENCE, approver.ask(question)).await;
        answered.unwrap_or_else(|_| {
            Decision::Unasked(format!("nobody answered within {} minutes", PATIENCE.as_secs() / 60))
        })
    }
}

impl Approval {
    /// What to ask about a call of `tool` with `arguments`. `redact` takes the secrets out.
    pub(super) fn question(
        &self,
        tool: &str,
        arguments: &Value,
        redact: impl FnOnce(String) -> String,
    ) -> Question {
        let what = clip(&redact((self.what)(arguments)), MAX_QUESTION, Keep::Ends);
        Question { tool: tool.to_owned(), verb: self.verb, what: visible(&what) }
    }
}

/// `text` as a person can look at it: what would move the cursor, colour, delete or reorder what is
/// seen stands there as an escape.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || reorders(c) => {
                // Writing to a `String` cannot fail.
                let _ = write!(shown, "{}", c.escape_unicode());
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Marks of direction and characters without width, with which a text reads as another
/// (Unicode Technical Report 36, section 3.2; CVE-2021-42574).
fn reorders(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Approvals").field(&self.0.is_some()).finish()
    }
}

impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approval").field("verb", &self.verb).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
