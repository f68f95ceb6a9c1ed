//! The result of a child process for a model: its output, then facts that the output does not contain, such as
//! its end.

use std::process::ExitStatus;
use std::time::Duration;

use crate::confine::{Confiner, Refusal};
use crate::process::{self, ExitReason, Finished, ProcessSpec, STOP_BOUND};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::grant::{Closed, Grant, Right, RightsTable, Why};
use haft_core::limit::Limits;
use haft_core::tool::{Clipper, Context, Notes, ToolError, Whole};

/// Limit on the characters of one result with its notices: about 8,000 tokens, enough for the end of any build
/// log.
const MAX_CHARACTERS: usize = 30_000;
/// Bytes of the longest character.
const CHARACTER: u64 = 4;

/// Returns the limit on the characters of a result within `limits`.
pub(super) fn character_limit(limits: &Limits) -> usize {
    let within = usize::try_from(limits.result / CHARACTER).unwrap_or(usize::MAX);
    within.min(MAX_CHARACTERS)
}

/// Returns the limits of a call whose child gets `timeout`: the time to stop the child is added, so that the
/// call's own deadline does not cut off the result.
pub(super) fn limits(timeout: Duration) -> Limits {
    let time = timeout.saturating_add(STOP_BOUND).min(Limits::MAX_TIME);
    Limits { time, ..Limits::default() }
}

/// Runs `job` for `call`, and answers it. `table`: the table of program.toml with the rights of the process.
pub(super) async fn run(
    confiner: &Confiner,
    job: &ProcessSpec,
    call: &ToolCall,
    table: &RightsTable,
    context: &Context<'_>,
) -> Result<ToolResult, ToolError> {
    let finished = process::run(confiner, job, &call.id, context).await;
    let finished = finished.map_err(|error| ToolError::ExecutionFailed(error.to_string()))?;
    let seen = (context.whole, context.grant, context.notes);
    Ok(answer(finished, job.timeout, character_limit(context.limits), seen, table))
}

/// Limit on the hints about refusals, one line each.
const MAX_HINTS: usize = 4;

/// Returns the result of a child with `grant`, in at most `limit` characters. The complete text is left in
/// `whole`, if it is wanted. If the child failed, its refusals are reported as the likely cause.
fn answer(
    mut finished: Finished,
    timeout: Duration,
    limit: usize,
    (whole, grant, notes): (&Whole, &Grant, &Notes),
    table: &RightsTable,
) -> ToolResult {
    let silent =
        finished.stdout.total() == 0 && finished.stderr.as_ref().is_none_or(|text| text.total() == 0);
    let is_error = !matches!(finished.end, ExitReason::Exited(status) if status.success());
    let mut notices = notices(&finished, timeout, silent);
    if is_error {
        let output = output(&mut finished.stdout, finished.stderr.as_mut(), limit);
        let hints = hints((grant, table), &finished.refused, &output);
        if !hints.is_empty() {
            notes.refused(rights(grant, &finished.refused, &output));
        }
        let hints = hints.join("\n");
        // With little room the output takes precedence.
        append(&mut notices, if hints.chars().count() < limit / 2 { &hints } else { "" });
    }
    let mut text = |limit: usize| {
        let room = limit.saturating_sub(notices.chars().count() + 1);
        let mut content = output(&mut finished.stdout, finished.stderr.as_mut(), room);
        append(&mut content, &notices);
        content
    };
    let content = text(limit);
    whole.leave(&content, || text(Whole::MAX));
    ToolResult { content, is_error, ..ToolResult::default() }
}

/// Joins standard output and standard error; standard error is cut to less than a third only if standard output
/// leaves more than that.
fn output(stdout: &mut Clipper, stderr: Option<&mut Clipper>, room: usize) -> String {
    let Some(stderr) = stderr.filter(|text| text.total() > 0) else { return stdout.render(room) };
    // The line break between the two.
    let room = room.saturating_sub(1);
    let stderr = stderr.render(room - stdout.total().min(room - room / 3));
    let mut text = stdout.render(room - stderr.chars().count());
    append(&mut text, &stderr);
    text
}

/// Returns hints about the refusals of a failed child; accesses that its `output` names come first. Reads of
/// closed paths are not observed: only the output mentions them.
fn hints((grant, table): (&Grant, &RightsTable), refused: &[Refusal], output: &str) -> Vec<String> {
    let refused = Refusal::hints(refused, (grant, table), output);
    let closed = grant.closed_in(output);
    let closed = closed.into_iter().filter_map(|closed: &Closed| closed.hint(table));
    // Skips hints that an observed refusal already gives.
    let new =
        closed.filter(|hint| !refused.iter().any(|known| known.ends_with(hint.as_str()))).take(MAX_HINTS);
    let lines = new.chain(refused.iter().cloned()).map(|hint| format!("hint: {hint}"));
    lines.take(MAX_HINTS).collect()
}

/// Returns the rights that would have permitted the refused accesses, including credential stores if `output`
/// names no other reason.
fn rights(grant: &Grant, refused: &[Refusal], output: &str) -> Vec<Right> {
    let stores = grant.closed_in(output).into_iter().filter_map(|closed| match closed.why {
        Why::Store(store) => Some(Right::Credentials(store)),
        Why::Own | Why::Denied | Why::StartUp => None,
    });
    let rights = Refusal::rights(refused, grant);
    // A refusal without a matching right would occur again.
    if rights.is_empty() && !refused.is_empty() {
        Vec::new()
    } else {
        rights.into_iter().chain(stores).collect()
    }
}

fn notices(finished: &Finished, timeout: Duration, silent: bool) -> String {
    let mut notices = match finished.end {
        ExitReason::Exited(status) if status.success() && !silent => Vec::new(),
        ExitReason::Exited(status) => vec![exit(status)],
        ExitReason::TimedOut => {
            vec![format!("(timed out after {timeout:?}; all its processes were stopped)")]
        }
        ExitReason::Cancelled => vec!["(cancelled; all its processes were stopped)".to_owned()],
    };
    if let ExitReason::Exited(_) = finished.end
        && finished.left_behind > 0
    {
        let count = finished.left_behind;
        notices.push(format!("(stopped background processes: {count})"));
    }
    notices.join("\n")
}

fn exit(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("(exit code: {code})"),
        // The standard library names the signal: `signal: 9 (SIGKILL)`.
        None => format!("(killed by {status})"),
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use haft_core::tool::Keep;

    fn text(length: usize) -> Clipper {
        let mut clipper = Clipper::new(1000, Keep::Ends);
        clipper.push("ж".repeat(length).as_bytes());
        clipper
    }

    fn finished(status: i32, stdout: usize, stderr: usize) -> Finished {
        let end = ExitReason::Exited(ExitStatus::from_raw(status));
        Finished {
            connections: Vec::new(),
            end,
            stdout: text(stdout),
            stderr: Some(text(stderr)),
            refused: Vec::new(),
            left_behind: 0,
            peak: 0,
        }
    }

    /// TE12, TE24: for any content of the streams, the result stays within its limit and reports the end.
    #[test]
    fn both_streams_and_the_notices_share_one_limit() {
        for (stdout, stderr) in [(0, 0), (5, 0), (0, 5), (900, 5), (5, 900), (900, 900), (1500, 1500)] {
            let answer = answer(
                finished(0x100, stdout, stderr),
                Duration::ZERO,
                1000,
                (&Whole::default(), &Grant::none(), &Notes::default()),
                &RightsTable::Sandbox,
            );
            assert!(answer.content.chars().count() <= 1000, "{stdout} {stderr}");
            assert!(answer.content.ends_with("(exit code: 1)") && answer.is_error);
        }
    }

    #[test]
    fn a_short_stream_leaves_its_share_to_the_other() {
        for (stdout, stderr) in [(5, 900), (900, 5), (600, 300)] {
            let answer = answer(
                finished(0, stdout, stderr),
                Duration::ZERO,
                1000,
                (&Whole::default(), &Grant::none(), &Notes::default()),
                &RightsTable::Sandbox,
            );
            assert!(!answer.content.contains("truncated"), "{stdout} {stderr}");
        }
    }

    /// TE18: an answer names the signal that killed the command.
    #[test]
    fn a_signal_is_named() {
        let answer = answer(
            finished(9, 0, 0),
            Duration::ZERO,
            1000,
            (&Whole::default(), &Grant::none(), &Notes::default()),
            &RightsTable::Sandbox,
        );
        assert_eq!(answer.content, "(killed by signal: 9 (SIGKILL))");
        assert!(answer.is_error);
    }

    #[test]
    fn an_answer_fits_the_call_s_limit_in_bytes() {
        assert_eq!(character_limit(&Limits::default()), MAX_CHARACTERS);
        assert_eq!(character_limit(&Limits { result: 4000, ..Limits::default() }), 1000);
    }
}
