//! An answer of a form that a program can rely on: what the model is told of it, whether what it answered is valid, and
//! what it is asked then. Refuses to ask without end: a model that cannot answer so is a failure of the task.

mod find;

use serde_json::Value;

use self::find::candidates;
use crate::End;
use crate::provider::OutputSchema;

/// How often a model is asked again for an answer that is valid: what it did not mend in three tries with the errors in
/// front of it, it does not mend in ten.
pub(super) const MAX_REPAIRS: u32 = 3;

/// How the question for another answer begins, and how it ends.
const AGAIN: &str = "[Your answer cannot be used: ";
const AGAIN_END: &str = "with nothing else.]";

/// Whether `text` is nothing but such a question.
pub(super) fn is_question(text: &str) -> bool {
    text.starts_with(AGAIN) && text.ends_with(AGAIN_END)
}

/// Bytes of a schema that is told once more with the errors: small models have lost sight of it by then, and it costs
/// less than one more try.
const MAX_RETOLD: usize = 2 << 10;

/// What a model is told of the form of its answer, after everything else in the system prompt. It stays the same for the
/// whole task, for the vendors' prompt caches.
pub(super) fn instructed(mut system: String, schema: &OutputSchema) -> String {
    if !system.is_empty() {
        system.push_str("\n\n");
    }
    system.push_str(
        "When the task is done, your final answer must be one JSON value that is valid against the JSON Schema below: \
         no other text before or after it, no code fence. Fill it from what you found.\n\n",
    );
    system.push_str(&schema.written().to_string());
    system
}

/// The answers of one run.
pub(super) struct Answers<'a> {
    schema: Option<&'a OutputSchema>,
    repairs: u32,
    keeps_tools: bool,
}

/// What becomes of a run whose model has come to an end.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It ends as the model ended it: with the value, where there was to be one.
    Ended(Option<Value>),
    /// The model is asked this.
    Again(String),
    /// It ends without a valid answer; who goes on with it asks the model this.
    Without {
        /// The question.
        prompt: String,
        /// What was wrong with the last answer.
        errors: String,
    },
}

impl<'a> Answers<'a> {
    pub(super) fn new(schema: Option<&'a OutputSchema>) -> Self {
        Self { schema, repairs: 0, keeps_tools: false }
    }

    /// The form of the answer.
    pub(super) fn schema(&self) -> Option<&'a OutputSchema> {
        self.schema
    }

    /// Whether the model has answered, and is to mend its answer without tools where that helps.
    pub(super) fn is_without_tools(&self) -> bool {
        self.repairs > 0 && !self.keeps_tools
    }

    /// Takes note that the server wants the tools in every request of this run.
    pub(super) fn keep_tools(&mut self) {
        self.keeps_tools = true;
    }

    /// Judges `text`, the last words of a model that came to this end.
    pub(super) fn judge(&mut self, end: End, text: &str) -> Verdict {
        let Some(schema) = self.schema.filter(|_| end == End::Final) else { return Verdict::Ended(None) };
        let errors = match read(schema, text) {
            Ok(value) => return Verdict::Ended(Some(value)),
            Err(errors) => errors,
        };
        let prompt = question(schema, &errors);
        if self.repairs == MAX_REPAIRS {
            return Verdict::Without { prompt, errors };
        }
        self.repairs += 1;
        Verdict::Again(prompt)
    }
}

/// What a model is asked whose answer is not valid.
fn question(schema: &OutputSchema, errors: &str) -> String {
    let written = schema.written().to_string();
    let again = if written.len() <= MAX_RETOLD { format!(" {written}") } else { String::new() };
    format!(
        "{AGAIN}{errors}. Answer again with one JSON value that is valid against the JSON Schema{again}, and {AGAIN_END}"
    )
}

/// The valid value in what a model said; of several, the [likeliest](candidates). The error is that of the first value
/// there is.
fn read(schema: &OutputSchema, text: &str) -> Result<Value, String> {
    let mut first = None;
    for value in candidates(text) {
        match schema.accept(value) {
            Ok(value) => return Ok(value),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| find::why_none(text)))
}

#[cfg(test)]
mod tests;
