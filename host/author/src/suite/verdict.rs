//! Compares the result of a call with its case, and describes the difference.

use std::time::Duration;

use serde_json::Value;
use similar::TextDiff;

use super::case::Wanted;
use haft_core::call::ToolResult;
use haft_core::tool::{Keep, clip};

/// Limit on the characters of a result in a complaint.
const MAX_SHOWN: usize = 2000;

/// Time limit for the shortest diff of two results; after it a coarser diff is accepted.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Outcome<'a> {
    pub(super) result: &'a ToolResult,
    pub(super) decisions: &'a [String],
    /// The snapshot, if the case has one.
    pub(super) kept: Option<&'a str>,
}

/// Returns the difference from `wanted`; `None` if there is none.
pub(super) fn judge(wanted: &Wanted, outcome: &Outcome<'_>) -> Option<String> {
    let result = outcome.result;
    match wanted {
        Wanted::Error(text) => (!(result.is_error && result.content.contains(text.as_str())))
            .then(|| differs(&format!("an error with `{text}`"), result)),
        Wanted::Refused(text) => {
            (!outcome.is_refused(text)).then(|| differs(&format!("a refusal with `{text}`"), result))
        }
        Wanted::Limit(limit) => {
            let key = limit.key();
            (!outcome.has_reached(key)).then(|| differs(&format!("the end at the limit `{key}`"), result))
        }
        _ if result.is_error => Some(differs("an answer", result)),
        Wanted::Anything => None,
        Wanted::Answer(text) => {
            (result.content.trim_end() != text.trim_end()).then(|| differs(&quoted(text), result))
        }
        Wanted::Json(value) => {
            (!is_json(result, value)).then(|| differs(&quoted(&value.to_string()), result))
        }
        Wanted::Contains(texts) => {
            let missing = texts.iter().find(|text| !result.content.contains(text.as_str()));
            missing.map(|text| differs(&format!("an answer with `{text}`"), result))
        }
        Wanted::Snapshot => match outcome.kept {
            None => Some("its answer is not stored yet; `haft plugin test --bless` stores it".to_owned()),
            Some(kept) => (kept != result.content).then(|| changes(kept, &result.content)),
        },
    }
}

impl Outcome<'_> {
    /// Reports whether a refusal contains `text`: a decision on the network, or a hint.
    fn is_refused(&self, text: &str) -> bool {
        let refused = self.decisions.iter().filter(|decision| decision.starts_with("refused "));
        let hints = self.result.content.lines().filter(|line| line.starts_with("hint: "));
        refused.map(String::as_str).chain(hints).any(|line| line.contains(text))
    }

    /// Reports whether the call ended at a limit: the hint of such an error proposes a larger limit.
    fn has_reached(&self, key: &str) -> bool {
        let proposal = format!("add `{key} = ");
        let is_proposal = |line: &str| line.starts_with("hint: ") && line.contains(&proposal);
        self.result.is_error && self.result.content.lines().any(is_proposal)
    }
}

fn is_json(result: &ToolResult, wanted: &Value) -> bool {
    let answered = result.structured.clone().or_else(|| serde_json::from_str(&result.content).ok());
    answered.as_ref() == Some(wanted)
}

fn differs(wanted: &str, result: &ToolResult) -> String {
    let kind = if result.is_error { "the error " } else { "" };
    format!("expected {wanted}\ngot      {kind}{}", quoted(&result.content))
}

fn changes(kept: &str, now: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(kept, now);
    let lines = diff.unified_diff().context_radius(2).header("kept", "now").to_string();
    let lines = clip(lines.trim_end(), MAX_SHOWN, Keep::Ends);
    format!("its answer differs from the stored one; `haft plugin test --bless` stores it\n{lines}")
}

fn quoted(text: &str) -> String {
    format!("`{}`", clip(text.trim_end(), MAX_SHOWN, Keep::Ends))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::case::LimitName;
    use super::*;

    fn answer(content: &str) -> ToolResult {
        ToolResult { content: content.into(), ..ToolResult::default() }
    }

    fn error(content: &str) -> ToolResult {
        ToolResult { is_error: true, ..answer(content) }
    }

    fn passes(wanted: &Wanted, result: &ToolResult) -> bool {
        let decisions = ["refused GET https://a.test:443: not granted".to_owned()];
        judge(wanted, &Outcome { result, decisions: &decisions, kept: Some("kept") }).is_none()
    }

    #[test]
    fn each_expectation_tells_right_from_wrong() {
        let limit = "Tool error (haft): `t` timed out\nhint: to allow more, add `time = \"2s\"` to `[plugins.limits]`";
        for (wanted, right, wrong) in [
            (Wanted::Anything, answer("x"), error("x")),
            (Wanted::Answer("a\nb\n".into()), answer("a\nb"), answer("a")),
            (Wanted::Json(json!([{"a": 1}])), answer("[{ \"a\": 1 }]"), answer("[]")),
            (Wanted::Contains(vec!["a".into(), "b".into()]), answer("ba"), answer("a")),
            (Wanted::Snapshot, answer("kept"), answer("other")),
            (Wanted::Error("no".into()), error("say no"), answer("say no")),
            (Wanted::Limit(LimitName::Time), error(limit), error("time = 2")),
            (Wanted::Refused("b.test".into()), error("x\nhint: add `hosts = [\"b.test\"]`"), error("b.test")),
        ] {
            assert!(passes(&wanted, &right) && !passes(&wanted, &wrong), "{wanted:?}");
        }
        // A refused right counts, regardless of the tool's answer.
        assert!(passes(&Wanted::Refused("a.test".into()), &answer("never mind")));
    }

    #[test]
    fn data_counts_as_it_is_and_not_as_it_is_written() {
        let structured = ToolResult { structured: Some(json!({"a": 1})), ..answer("a is 1") };
        assert!(passes(&Wanted::Json(json!({"a": 1})), &structured));
        assert!(!passes(&Wanted::Json(json!({"a": 2})), &structured));
    }
}
