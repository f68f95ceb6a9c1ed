//! Asking a person before a tool runs. A question shows all that would run, made safe to look at;
//! nothing but a person's yes is taken for one.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use super::{Keep, clip};
use crate::call::ToolCall;

/// What a person is asked about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The id of the call.
    pub call: String,
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
    /// A person said yes to this and every further call of the tool in this session.
    Always,
    /// A person said no, or something that is no yes.
    Denied,
    /// No person answered; why, as the end of a sentence.
    Unasked(String),
}

/// Asks a person. Several calls may ask at once.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks. Dropping the future takes the question back.
    async fn ask(&self, question: &Question) -> Decision;
}

/// The approver of a session; none by default. Clones share it, and an answer of `always` holds for all of them.
#[derive(Clone, Default)]
pub struct Approvals {
    approver: Option<Arc<dyn Approver>>,
    /// The tools that a person has allowed for the session, by name.
    always: Arc<watch::Sender<BTreeSet<String>>>,
}

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

/// How long a person may take to answer. After that the call is refused, and can be made again.
const PATIENCE: Duration = Duration::from_mins(10);

/// Characters of a question, enough for a long script. Of a longer one, the beginning and the end are shown, with a
/// notice between.
const MAX_QUESTION: usize = 20_000;

impl Approvals {
    /// Asks `approver`.
    pub fn by(approver: impl Approver + 'static) -> Self {
        Self { approver: Some(Arc::new(approver)), always: Arc::default() }
    }

    /// Allows every further call of the tool with the name that models see.
    pub fn allow(&self, tool: impl Into<String>) {
        self.always.send_modify(|always| {
            always.insert(tool.into());
        });
    }

    /// Takes that back; whether there was anything to take back.
    pub fn withdraw(&self, tool: &str) -> bool {
        self.always.send_if_modified(|always| always.remove(tool))
    }

    /// The tools that are allowed for the session.
    pub fn allowed(&self) -> Vec<String> {
        self.always.borrow().iter().cloned().collect()
    }

    /// Ends as soon as `tool` is allowed for the session: also while a question about it is waiting its turn.
    async fn is_allowed(&self, tool: &str) {
        let mut always = self.always.subscribe();
        // The sender lives as long as `self`.
        let _ = always.wait_for(|always| always.contains(tool)).await;
    }

    pub(super) async fn ask(&self, question: &Question) -> Decision {
        tokio::select! {
            biased;
            () = self.is_allowed(&question.tool) => Decision::Always,
            decision = self.question(question) => decision,
        }
    }

    async fn question(&self, question: &Question) -> Decision {
        let Some(approver) = &self.approver else {
            return Decision::Unasked("there is nobody to ask".into());
        };
        let answered = tokio::time::timeout(PATIENCE, approver.ask(question)).await;
        let decision = answered.unwrap_or_else(|_| {
            Decision::Unasked(format!("nobody answered within {} minutes", PATIENCE.as_secs() / 60))
        });
        if decision == Decision::Always {
            self.allow(&question.tool);
        }
        decision
    }
}

impl Approval {
    /// What to ask about a call of `tool`. `redact` takes the secrets out.
    pub(super) fn question(
        &self,
        tool: &str,
        call: &ToolCall,
        redact: impl FnOnce(String) -> String,
    ) -> Question {
        let what = clip(&redact((self.what)(&call.arguments)), MAX_QUESTION, Keep::Ends);
        Question { call: call.id.clone(), tool: tool.to_owned(), verb: self.verb, what: visible(&what) }
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
        f.debug_tuple("Approvals").field(&self.approver.is_some()).finish()
    }
}

impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approval").field("verb", &self.verb).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
