//! The filter of the list of calls.

use super::who;
use haft_journal::{Outcome, Outline, Record};

/// The filter; an empty text matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// A part of the tool's name.
    pub(crate) tool: String,
    /// A part of the name of the caller, the agent, the client or the program.
    pub(crate) caller: String,
    /// A part of the arguments, the answer, the error, a decision or the id.
    pub(crate) text: String,
    /// The outcome: `ok`, `failed`, `refused`, `running`.
    pub(crate) outcome: String,
}

impl Filter {
    /// Whether the record of an outline may match.
    pub(crate) fn may_match(&self, outline: &Outline) -> bool {
        has(&outline.tool, &self.tool) && self.has_outcome(outline.outcome)
    }

    pub(crate) fn matches(&self, record: &Record) -> bool {
        let is_said = || {
            let texts =
                [Some(&record.id), record.answer.as_ref(), record.error.as_ref(), record.origin.as_ref()];
            let texts = texts.into_iter().flatten().chain(&record.decisions);
            texts.into_iter().any(|text| has(text, &self.text))
                || has(&record.arguments.to_string(), &self.text)
        };
        let (caller, program) = who(&Outline::from(record));
        (has(&caller, &self.caller) || has(&program, &self.caller)) && (self.text.is_empty() || is_said())
    }

    fn has_outcome(&self, outcome: Outcome) -> bool {
        match self.outcome.as_str() {
            "ok" => outcome == Outcome::Ok,
            "failed" => outcome.is_failure(),
            "refused" => outcome == Outcome::Refused,
            "running" => outcome == Outcome::Started,
            _ => true,
        }
    }
}

/// Whether `text` contains `part`, ignoring case.
fn has(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}
