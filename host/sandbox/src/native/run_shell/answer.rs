//! The result of a command for a model: exit code, standard output and standard error, each stream with its own
//! limit.

use std::time::Duration;

use crate::{CommandEnd, CommandOutcome, OutputSink, Stream};
use haft_core::call::ToolResult;
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;
use haft_core::tool::{Clipper, Keep};
use haft_core::units::format_duration;

/// Limit on the characters of each stream. The errors are usually at its end, so both ends are shown.
const MAX_STREAM: usize = 4000;
/// The suffix of a truncated stream.
const TRUNCATED: &str = "...[truncated]";

pub(super) struct Streams {
    call: String,
    events: Events,
    /// `None` after the call has been answered: later output is dropped.
    texts: Lock<Option<[Clipper; 2]>>,
}

impl Streams {
    pub(super) fn new(call: &str, events: &Events) -> Self {
        let clipper = || Clipper::new(MAX_STREAM, Keep::Ends).as_terminal();
        Self { call: call.to_owned(), events: events.clone(), texts: Lock::new(Some([clipper(), clipper()])) }
    }

    /// Returns the output so far. Later output is dropped.
    pub(super) fn close(&self) -> [String; 2] {
        let texts = self.texts.lock().take();
        texts.map(|texts| texts.map(|mut text| rendered(&mut text))).unwrap_or_default()
    }
}

fn rendered(text: &mut Clipper) -> String {
    text.end();
    if text.total() <= MAX_STREAM {
        return text.render(MAX_STREAM);
    }
    format!("{}\n{TRUNCATED}", text.render(MAX_STREAM))
}

impl OutputSink for Streams {
    fn take(&self, stream: Stream, bytes: &[u8]) {
        let mut texts = self.texts.lock();
        let Some([output, errors]) = &mut *texts else { return };
        let text = if stream == Stream::Output { output } else { errors };
        let chunk = text.push(bytes);
        if chunk.is_empty() {
            return;
        }
        self.events.emit(|| {
            let (call, chunk) = (self.call.clone(), chunk.to_string());
            match stream {
                Stream::Output => Event::Stdout { call, chunk },
                Stream::Errors => Event::Stderr { call, chunk },
            }
        });
    }
}

/// Builds the result. A failed command is a normal result; one with an unknown end is an error.
/// `one_call`: haft ends with this call, and with it a command that still runs in its pane.
pub(super) fn ended(
    ended: CommandOutcome,
    one_call: bool,
    streams: [String; 2],
    timeout: Duration,
) -> ToolResult {
    let time = format_duration(timeout);
    let (head, is_error) = match ended.how {
        CommandEnd::Exited(code) => (format!("exit code: {code}"), false),
        CommandEnd::TimedOut(kind) => (
            format!(
                "timed out waiting for {kind} command completion after {time}; the command and all its \
                 processes were stopped"
            ),
            true,
        ),
        CommandEnd::Running(_) if one_call => (
            format!(
                "timed out waiting for tmux command completion after {time}; it was stopped, because this \
                 haft ends with the call: use a longer `wait`"
            ),
            true,
        ),
        CommandEnd::Running(pane) => (
            format!(
                "timed out waiting for tmux command completion after {time}; the command still runs in pane {pane}, \
                 until haft ends: do not run it again. Look at it with `capture-pane`, or interrupt it with `send-keys` and the key `C-c`"
            ),
            true,
        ),
        CommandEnd::Cancelled => ("cancelled; the command was stopped".to_owned(), true),
        CommandEnd::Lost(why) => (format!("the command's exit status is unknown: {why}"), true),
    };
    let [output, errors] = streams;
    let notices: String = ended.notices.iter().map(|notice| format!("\n[notice] {notice}")).collect();
    let content = format!("{head}\nstdout:\n{}stderr:\n{}{notices}", line(&output), errors);
    ToolResult { content, is_error, ..ToolResult::default() }
}

fn line(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(how: CommandEnd, output: &[u8], errors: &[u8]) -> ToolResult {
        let streams = Streams::new("call", &Events::none());
        streams.take(Stream::Output, output);
        streams.take(Stream::Errors, errors);
        ended(CommandOutcome { how, notices: Vec::new() }, false, streams.close(), Duration::from_secs(30))
    }

    /// RS01, RS02: three sections; a failed command is not a failed call.
    #[test]
    fn an_answer_has_three_sections() {
        let result = answer(CommandEnd::Exited(42), b"out", b"err\n");
        assert_eq!(result.content, "exit code: 42\nstdout:\nout\nstderr:\nerr\n");
        assert!(!result.is_error);
        assert_eq!(answer(CommandEnd::Exited(0), b"", b"").content, "exit code: 0\nstdout:\nstderr:\n");
    }

    /// RS01: each stream has its own limit and reports its truncation.
    #[test]
    fn each_stream_is_cut_by_itself() {
        let result = answer(CommandEnd::Exited(1), &vec![b'x'; 100_000], "ж".repeat(4000).as_bytes());
        let (output, errors) = result.content.split_once("stderr:\n").unwrap();
        assert!(
            output.ends_with("...[truncated]\n") && output.contains("output truncated: 100000"),
            "{output}"
        );
        assert_eq!(errors.chars().count(), 4000);
    }

    /// T03: the limit of a stream is exactly 4,000 characters.
    #[test]
    fn a_stream_is_cut_at_4_000_characters() {
        let shown = |length: usize| answer(CommandEnd::Exited(0), "ж".repeat(length).as_bytes(), b"").content;
        assert!(!shown(4000).contains(TRUNCATED));
        let cut = shown(4001);
        assert!(cut.contains("output truncated: 4001") && cut.contains(TRUNCATED), "{cut}");
        assert!(cut.matches('ж').count() <= 4000);
    }

    /// RS03, MK07: a timeout reports its limit and the state of the command.
    #[test]
    fn a_time_out_names_the_time_and_the_command_s_fate() {
        let stopped = answer(CommandEnd::TimedOut("ssh"), b"", b"");
        assert!(
            stopped
                .content
                .starts_with("timed out waiting for ssh command completion after 30s; the command and all its processes were stopped")
        );
        let running = answer(CommandEnd::Running("%3".into()), b"so far\n", b"");
        assert!(running.content.contains("still runs in pane %3") && running.content.contains("`C-c`"));
        assert!(running.content.contains("stdout:\nso far\n") && running.is_error);
    }

    /// MK07: output after the result is dropped.
    #[test]
    fn what_comes_after_the_answer_is_not_kept() {
        let streams = Streams::new("call", &Events::none());
        streams.take(Stream::Output, b"one");
        assert_eq!(streams.close()[0], "one");
        streams.take(Stream::Output, b"two");
        assert_eq!(streams.close()[0], "");
    }
}
